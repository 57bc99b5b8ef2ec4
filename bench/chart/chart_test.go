package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

// labels are the labelled ticks of an axis.
func labels(r *ruler) (out []string) {
	for _, t := range r.ticks {
		if t.label != "" {
			out = append(out, t.label)
		}
	}
	return out
}

func TestAxesFitTheirValues(t *testing.T) {
	for name, c := range map[string]struct {
		axis   Axis
		values []float64
		want   string
	}{
		"linear from zero":   {Axis{Scale: Linear}, []float64{3, 9}, "0 2 4 6 8 10"},
		"whole numbers":      {Axis{Whole: true}, []float64{0, 1, 2}, "0 1 2"},
		"powers of ten":      {Axis{}, []float64{10_000, 10_000_000}, "10 k|100 k|1 M|10 M"},
		"within two of them": {Axis{Scale: Log}, []float64{0.4, 1.7}, "0.2 0.5 1 2"},
		"one value":          {Axis{Scale: Log}, []float64{30}, "20 50"},
		"quantiles":          {Axis{Scale: Nines}, []float64{0, 0.999}, "0 %|50 %|90 %|99 %|99.9 %"},
		"nothing":            {Axis{Scale: Log}, []float64{0, math.Inf(1)}, "0.5 1 2"},
	} {
		sep := " "
		if strings.Contains(c.want, "|") {
			sep = "|"
		}
		r := c.axis.ruler(c.values)
		if got := strings.Join(labels(r), sep); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		for _, v := range c.values {
			if at := r.place(v); r.scale.shows(v) && (at < -1e-9 || at > 1+1e-9) {
				t.Errorf("%s: %g is outside, at %g", name, v, at)
			}
		}
	}
}

func TestNumbersAreShort(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.0512: "0.0512", 1.5: "1.5", 20: "20", 949.6: "950", 4096: "4.1 k", 62_345: "62.3 k", 1_250_000: "1.25 M", 999_900: "1 M", -3: "-3",
	} {
		if got := Short(v); got != want {
			t.Errorf("%g is %s, want %s", v, got, want)
		}
	}
}

// drawings are one of each kind, with names that would break a careless writer.
func drawings() map[string][]byte {
	points := []Point{{X: 1, Y: 10, Low: 8, High: 12}, {X: 100, Y: 1000}, {X: 0, Y: 5}}
	series := []Series{{`a & b <"c">`, points}, {"second", points}, {"third", points}, {"fourth", points}, {"fifth", points}}
	return map[string][]byte{
		"lines": Lines{Title: `<title> & more`, Panels: []Panel{{X: Axis{Title: "x", Scale: Log}, Series: series}, {Series: series[:1]}}}.SVG(),
		"rows": Rows{Title: "rows", Line: 1, LineName: "goal", Series: []string{"one", "two"}, Rows: []Row{
			{"first", []Value{{At: 0.5, Low: 0.4, High: 0.6, Hollow: true, Label: "0.5"}, {Series: 1, At: 2}}},
		}}.SVG(),
	}
}

func TestChartsAreWellFormed(t *testing.T) {
	for name, svg := range drawings() {
		d := xml.NewDecoder(bytes.NewReader(svg))
		for {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, svg)
			}
		}
		if bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("Inf")) {
			t.Errorf("%s has a place that is none", name)
		}
		for _, want := range []string{"prefers-color-scheme:dark", `role="img"`, "<title", "<desc", `class="page"`} {
			if !bytes.Contains(svg, []byte(want)) {
				t.Errorf("%s has no %s", name, want)
			}
		}
	}
}

// TestNoSeriesIsToldByColourAlone holds that each has a mark and a line of its own.
func TestNoSeriesIsToldByColourAlone(t *testing.T) {
	marks, dashes := map[string]bool{}, map[string]bool{}
	for n := range 5 {
		c := &canvas{}
		c.mark(n, false, 0, 0)
		text := c.String()
		_, rest, _ := strings.Cut(text, `class="mark c`)
		marks[text[:7]+rest[1:]] = true
		dashes[patterns[n]] = true
	}
	if len(marks) != 5 || len(dashes) != 5 {
		t.Errorf("%d marks, %d patterns", len(marks), len(dashes))
	}
}

func TestLegendBreaksWhereThereIsNoRoom(t *testing.T) {
	long := strings.Repeat("x", 40)
	places := legendPlaces(700, []string{long, long, long})
	if places[1][1] != 0 || places[2] != [2]float64{0, legendLine} {
		t.Errorf("%v", places)
	}
}
