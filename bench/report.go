package bench

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Line is one ratio of a comparison.
type Line struct {
	Measure string  `json:"measure"`
	What    string  `json:"what"`
	Ratio   float64 `json:"ratio"`            // of medians; or the median itself, where Unit says so
	Low     float64 `json:"low"`              // of the rounds, or of the pages
	High    float64 `json:"high"`             //
	Unit    string  `json:"unit"`             // "x" for ratios
	Goal    string  `json:"goal"`             // in words
	Margin  float64 `json:"margin,omitempty"` // how far beyond its goal, as a factor: 1 is just met; 0: no goal
	Met     bool    `json:"met"`
	Less    bool    `json:"less,omitempty"` // is better
	Ours    float64 `json:"ours"`           // medians of what was compared
	Theirs  float64 `json:"theirs,omitempty"`
}

// figure reads one number off a sample.
type figure func(*Sample) float64

func perSecond(s *Sample) float64    { return s.PerSec }
func perCPUSecond(s *Sample) float64 { return float64(s.N) / (s.Drain.Client + s.Drain.Server) }
func milliseconds(s *Sample) float64 { return s.Median }
func enqueued(s *Sample) float64     { return float64(s.N) / s.Enqueue.Seconds }
func mebibytes(s *Sample) float64    { return float64(s.MaxRSS) / 1024 }
func mebibytesOwn(s *Sample) float64 { return float64(s.MaxRSS-s.Text) / 1024 }
func halfWithin(s *Sample) float64   { return s.Latency.at(0.5) }
func most(s *Sample) float64         { return s.Latency.at(0.99) }
func allocated(s *Sample) float64    { return float64(s.Drain.Allocs) / float64(s.N) }
func allocBytes(s *Sample) float64   { return float64(s.Drain.AllocBytes) / float64(s.N) }
func slowest(s *Sample) float64      { return s.Latency.at(1) }
func firstTime(s *Sample) float64    { return s.First }
func walEach(s *Sample) float64      { return float64(s.Enqueue.WAL+s.Drain.WAL) / float64(s.N) }
func walEnqueue(s *Sample) float64   { return float64(s.Enqueue.WAL) / float64(s.N) }
func walDrain(s *Sample) float64     { return float64(s.Drain.WAL) / float64(s.N) }

// comparison says what is put against what.
type comparison struct {
	measure, what string
	of            figure
	ours, theirs  string // subjects; theirs empty: the figure stands alone
	worst         bool   // of all subjects whose names begin with ours, the largest figure
	unit          string // of a figure that stands alone
	atLeast       float64
	atMost        float64 // both 0: only shown
	less          bool    // is better, where there is no goal that says so
}

var comparisons = []comparison{
	{measure: "P1", what: "work drained, to River", of: perSecond, ours: Work, theirs: River, atLeast: 2.5},
	{measure: "P1", what: "the same by processor time", of: perCPUSecond, ours: Work, theirs: River},
	{measure: "P2", what: "messages drained, in process, to River", of: perSecond, ours: Messages, theirs: River, atLeast: 2.5},
	{measure: "P2", what: "messages drained, on schedule, to River", of: perSecond, ours: MessagesOn, theirs: River, atLeast: 2.5},
	{measure: "P2", what: "the same by processor time", of: perCPUSecond, ours: MessagesOn, theirs: River},
	{measure: "P3", what: "work with a large payload, to P1", of: perSecond, ours: WorkLarge, theirs: Work, atLeast: 0.75},
	{measure: "P4", what: "work, to the floor", of: perSecond, ours: Work, theirs: Floor, atLeast: 0.7},
	{measure: "P4", what: "the same by processor time", of: perCPUSecond, ours: Work, theirs: Floor},
	{measure: "P5", what: "WAL of work, enqueue and drain, to River's", of: walEach, ours: Work, theirs: River, atMost: 0.6},
	{measure: "P5", what: "WAL of a message, in process, to River's", of: walEach, ours: Messages, theirs: River, atMost: 0.6},
	{measure: "P5", what: "WAL of work, enqueue", of: walEnqueue, ours: Work, unit: "B"},
	{measure: "P5", what: "WAL of work, drain", of: walDrain, ours: Work, unit: "B"},
	{measure: "P5", what: "WAL of a River job, enqueue", of: walEnqueue, ours: River, unit: "B"},
	{measure: "P5", what: "WAL of a River job, drain", of: walDrain, ours: River, unit: "B"},
	{measure: "P6", what: "transaction with an enqueue, to one with a plain row", of: milliseconds, ours: ConsignRow, theirs: PlainRow, atMost: 1.25},
	{measure: "P6", what: "the same from many clients", of: milliseconds, ours: ConsignRow + manyClients, theirs: PlainRow + manyClients, atMost: 1.25},
	{measure: "P6", what: "work enqueued in bulk", of: enqueued, ours: Work, unit: "/s"},
	{measure: "P6", what: "messages enqueued in bulk", of: enqueued, ours: Messages, unit: "/s", atLeast: 60_000},
	{measure: "P6", what: "River jobs enqueued in bulk", of: enqueued, ours: River, unit: "/s"},
	{measure: "P7", what: "commit to start, same process woken, half within", of: halfWithin, ours: LatencyWoken, unit: "ms", atMost: 2},
	{measure: "P7", what: "the same, 99 of 100 within", of: most, ours: LatencyWoken, unit: "ms", atMost: 10},
	{measure: "P7", what: "commit to start, other process notified, half within", of: halfWithin, ours: LatencyNotified, unit: "ms", atMost: 5},
	{measure: "P7", what: "the same, 99 of 100 within", of: most, ours: LatencyNotified, unit: "ms"},
	{measure: "P7", what: "commit to start, polling only, half within", of: halfWithin, ours: LatencyPolled, unit: "ms"},
	{measure: "P7", what: "the same, 99 of 100 within", of: most, ours: LatencyPolled, unit: "ms"},
	{measure: "P7", what: "River, other process notified, half within", of: halfWithin, ours: RiverLatency, unit: "ms"},
	{measure: "P7", what: "the same, 99 of 100 within", of: most, ours: RiverLatency, unit: "ms"},
	{measure: "P8", what: "work drained where many have ended, to P1", of: perSecond, ours: WorkAged, theirs: Work, atLeast: 0.85},
	{measure: "P8", what: "the same by processor time", of: perCPUSecond, ours: WorkAged, theirs: Work},
	{measure: "P9", what: "work drained under an old snapshot, to without", of: perSecond, ours: WorkSnapshot, theirs: WorkProbed, atLeast: 0.6},
	{measure: "P9", what: "the same by processor time", of: perCPUSecond, ours: WorkSnapshot, theirs: WorkProbed},
	{measure: "P9", what: "unrelated query meanwhile, half within", of: halfWithin, ours: WorkSnapshot, unit: "ms"},
	{measure: "P9", what: "the same, 99 of 100 within", of: most, ours: WorkSnapshot, unit: "ms"},
	{measure: "P9", what: "unrelated query without the snapshot, half within", of: halfWithin, ours: WorkProbed, unit: "ms"},
	{measure: "P9", what: "the same, 99 of 100 within", of: most, ours: WorkProbed, unit: "ms"},
	{measure: "P10", what: "work drained in SQLite, to River", of: perSecond, ours: WorkLite, theirs: RiverLite, atLeast: 20},
	{measure: "P10", what: "the same by processor time", of: perCPUSecond, ours: WorkLite, theirs: RiverLite},
	{measure: "P11", what: "resident memory of the drain", of: mebibytes, ours: WorkMemory, unit: "MiB", atMost: 64},
	{measure: "P11", what: "the same without program text", of: mebibytesOwn, ours: WorkMemory, unit: "MiB"},
	{measure: "P11", what: "resident memory of River's", of: mebibytes, ours: RiverMemory, unit: "MiB"},
	{measure: "P11", what: "work drained there, to River", of: perSecond, ours: WorkMemory, theirs: RiverMemory},
	{measure: "P12", what: "work drained by 4 processes, to 1", of: perSecond, ours: workersName(4), theirs: workersName(1), atLeast: 0.95},
	{measure: "P12", what: "work drained by 2 processes, to 1", of: perSecond, ours: workersName(2), theirs: workersName(1)},
	{measure: "P12", what: "work drained by 4 processes, to 2", of: perSecond, ours: workersName(4), theirs: workersName(2), atLeast: 0.95},
	{measure: "P13", what: "the post alone, to a bare loop, fresh connections", of: perSecond, ours: Post + postModes[0].name, theirs: BarePost + postModes[0].name, atLeast: 0.77},
	{measure: "P13", what: "the same, reused connections", of: perSecond, ours: Post + postModes[1].name, theirs: BarePost + postModes[1].name, atLeast: 0.77},
	{measure: "P13", what: "the post alone by processor time, fresh connections", of: perCPUSecond, ours: Post + postModes[0].name, theirs: BarePost + postModes[0].name},
	{measure: "P13", what: "the same, reused connections", of: perCPUSecond, ours: Post + postModes[1].name, theirs: BarePost + postModes[1].name},
	{measure: "P13", what: "messages drained and posted, to a bare loop, fresh connections", of: perSecond, ours: Hooks + postModes[0].name, theirs: BarePost + postModes[0].name},
	{measure: "P13", what: "the same, reused connections", of: perSecond, ours: Hooks + postModes[1].name, theirs: BarePost + postModes[1].name},
	{measure: "P14", what: "slowest page, slowest of its requests", of: slowest, ours: Console, worst: true, unit: "ms", atMost: 100},
	{measure: "P14", what: "slowest page, half within", of: halfWithin, ours: Console, worst: true, unit: "ms"},
	{measure: "P14", what: "slowest page, its first request", of: firstTime, ours: Console, worst: true, unit: "ms"},
}

// Compare returns a line for every comparison of the measures that the samples
// allow.
func Compare(samples []Sample, measures []string) []Line {
	by := map[string][]*Sample{}
	for i := range samples {
		by[samples[i].Subject] = append(by[samples[i].Subject], &samples[i])
		if strings.HasPrefix(samples[i].Subject, Console+" ") {
			by[Console] = append(by[Console], &samples[i])
		}
	}
	var lines []Line
	for _, c := range slices.Concat(comparisons, guarded) {
		if !slices.Contains(measures, c.measure) || len(by[c.ours]) == 0 || c.theirs != "" && len(by[c.theirs]) == 0 {
			continue
		}
		lines = append(lines, c.line(by[c.ours], by[c.theirs]))
	}
	return lines
}

// Comparisons are what the lines of a measure say they compare.
func Comparisons(measure string) (what []string) {
	for _, c := range slices.Concat(comparisons, guarded) {
		if c.measure == measure {
			what = append(what, c.what)
		}
	}
	return what
}

func (c comparison) line(ours, theirs []*Sample) Line {
	l := Line{Measure: c.measure, What: c.what, Unit: cmp.Or(c.unit, "x"), Less: c.less || c.atMost > 0, Ours: Median(values(ours, c.of))}
	if c.worst {
		l.Ours = slices.Max(values(ours, c.of))
	}
	l.Ratio = l.Ours
	rounds := values(ours, c.of)
	if c.theirs != "" {
		l.Theirs = Median(values(theirs, c.of))
		l.Ratio = l.Ours / l.Theirs
		rounds = rounds[:min(len(ours), len(theirs))]
		for i := range rounds {
			rounds[i] /= c.of(theirs[i])
		}
	}
	l.Low, l.High = slices.Min(rounds), slices.Max(rounds)
	switch {
	case c.atLeast > 0:
		l.Goal, l.Margin = fmt.Sprintf(">= %g", c.atLeast), l.Ratio/c.atLeast
	case c.atMost > 0:
		l.Goal, l.Margin = fmt.Sprintf("<= %g", c.atMost), c.atMost/l.Ratio
	}
	l.Met = l.Goal == "" || l.Margin >= 1
	return l
}

func values(samples []*Sample, of figure) []float64 {
	out := make([]float64, len(samples))
	for i, s := range samples {
		out[i] = of(s)
	}
	return out
}

// Median is the middle one, or the mean of the middle two.
func Median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	if n == 0 {
		return 0
	}
	return (v[(n-1)/2] + v[n/2]) / 2
}

// Print writes the lines as a table.
func Print(w io.Writer, lines []Line) {
	fmt.Fprintf(w, "\n%-4s %-54s %9s  %-19s %-9s %-4s %s\n", "", "", "median", "range of rounds", "goal", "met", "medians")
	for _, l := range lines {
		met, detail := "", ""
		if l.Goal != "" {
			met = map[bool]string{true: "yes", false: "no"}[l.Met]
		}
		if l.Theirs != 0 {
			detail = fmt.Sprintf("%s against %s", Short(l.Ours), Short(l.Theirs))
		}
		fmt.Fprintf(w, "%-4s %-54s %9s  %-19s %-9s %-4s %s\n", l.Measure, l.What, Short(l.Ratio)+" "+l.Unit,
			Short(l.Low)+" to "+Short(l.High), l.Goal, met, detail)
	}
}

// Short writes a number with three digits that count.
func Short(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
