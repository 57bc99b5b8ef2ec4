package chart

import (
	"math"
	"slices"
	"strconv"
)

// Scale says how values are spread along an axis.
type Scale int

const (
	// Fitting is Log where the values span a factor of eight or more, otherwise Linear.
	Fitting Scale = iota
	// Linear begins at zero.
	Linear
	// Log gives each factor of ten the same room. What is not above zero is left out.
	Log
	// Nines is for quantiles from 0 to below 1: each further nine has the same room.
	Nines
)

// Axis is one direction of a panel.
type Axis struct {
	Title string // what it shows, with its unit
	Scale Scale
	Unit  string // put behind each tick's label
	Whole bool   // a linear axis has ticks at whole numbers only
}

// ruler is an axis with a range: it turns a value into a place between 0 and 1.
type ruler struct {
	scale     Scale
	low, high float64 // after the transformation
	ticks     []tick
}

type tick struct {
	at    float64 // between 0 and 1
	label string
	minor bool // a line without a label
}

// transform makes equal steps of what the scale calls equal.
func (s Scale) transform(v float64) float64 {
	switch s {
	case Log:
		return math.Log10(v)
	case Nines:
		return -math.Log10(1 - v)
	}
	return v
}

// shows reports whether the scale has a place for v.
func (s Scale) shows(v float64) bool {
	switch s {
	case Log:
		return v > 0 && !math.IsInf(v, 0)
	case Nines:
		return v >= 0 && v < 1
	}
	return !math.IsNaN(v) && !math.IsInf(v, 0)
}

func (r *ruler) place(v float64) float64 { return (r.scale.transform(v) - r.low) / (r.high - r.low) }

// ruler fits the axis to values.
func (a Axis) ruler(values []float64) *ruler {
	r := &ruler{scale: a.Scale}
	if r.scale == Fitting {
		r.scale = Linear
		if above := positive(values); len(above) > 0 && slices.Max(above) >= 8*slices.Min(above) {
			r.scale = Log
		}
	}
	values = slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return !r.scale.shows(v) })
	if len(values) == 0 {
		values = []float64{1}
	}
	low, high := slices.Min(values), slices.Max(values)
	switch r.scale {
	case Log:
		r.logarithmic(low, high, a.Unit)
	case Nines:
		r.nines(high)
	default:
		r.linear(low, high, a)
	}
	return r
}

func positive(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return !(v > 0) })
}

func (r *ruler) linear(low, high float64, a Axis) {
	low = min(low, 0)
	if high <= low {
		high = low + 1
	}
	step := niceStep((high - low) / 5)
	if a.Whole {
		step = max(1, step)
	}
	low, high = math.Floor(low/step)*step, math.Ceil(high/step-1e-9)*step
	r.low, r.high = low, high
	for i := 0; low+float64(i)*step <= high+step/2; i++ {
		v := low + float64(i)*step
		r.ticks = append(r.ticks, tick{at: r.place(v), label: Short(v) + a.Unit})
	}
}

// niceStep is 1, 2 or 5 times a power of ten, at least v.
func niceStep(v float64) float64 {
	ten := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5} {
		if v <= f*ten*(1+1e-9) {
			return f * ten
		}
	}
	return 10 * ten
}

func (r *ruler) logarithmic(low, high float64, unit string) {
	from, to := math.Floor(math.Log10(low)+1e-9), math.Ceil(math.Log10(high)-1e-9)
	if to <= from {
		to = from + 1
	}
	labelled := []float64{1}
	if to-from <= 2 { // few powers of ten: more labels between them
		labelled = []float64{1, 2, 5}
		from, to = trim(from, math.Log10(low), -1), trim(to, math.Log10(high), 1)
	}
	if to-from < 1e-9 { // all values are one, and it is a tick
		from, to = from-math.Log10(2), to+math.Log10(2)
	}
	r.low, r.high = from, to
	for e := math.Floor(from + 1e-9); e <= to+1e-9; e++ {
		for f := 1.0; f < 10; f++ {
			v := f * math.Pow(10, e)
			if at := r.place(v); at >= -1e-9 && at <= 1+1e-9 {
				t := tick{at: at, minor: !slices.Contains(labelled, f)}
				if !t.minor {
					t.label = Short(v) + unit
				}
				r.ticks = append(r.ticks, t)
			}
		}
	}
}

// trim brings the end of a logarithmic axis nearer to the outermost value, to one
// of 1, 2 and 5 times a power of ten. dir is -1 for the lower end.
func trim(end, value, dir float64) float64 {
	best := end
	for e := math.Floor(value) - 1; e <= math.Ceil(value)+1; e++ {
		for _, f := range []float64{0, math.Log10(2), math.Log10(5)} {
			v := e + f
			if dir*(v-value) >= -1e-9 && dir*(v-best) < 0 {
				best = v
			}
		}
	}
	return best
}

func (r *ruler) nines(high float64) {
	r.low, r.high = 0, max(1, r.scale.transform(high))
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999} {
		if at := r.place(q); at <= 1+1e-9 {
			r.ticks = append(r.ticks, tick{at: at, label: strconv.FormatFloat(q*100, 'f', -1, 64) + " %"})
		}
	}
}

// Short writes a number with about three digits that count: 0.05, 1.5, 20, 950,
// 4.1 k, 62 k, 1.25 M.
func Short(v float64) string {
	size := math.Abs(v)
	switch {
	case size >= 999_500:
		return digits(v/1e6) + " M"
	case size >= 1000:
		return digits(v/1e3) + " k"
	}
	return digits(v)
}

// digits rounds to three digits that count and drops zeros at the end.
func digits(v float64) string {
	if v == 0 {
		return "0"
	}
	places := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	s := strconv.FormatFloat(v, 'f', places, 64)
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return s
}
