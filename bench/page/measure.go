package page

import (
	"fmt"
	"strings"

	"github.com/consign-go/consign/bench"
	"github.com/consign-go/consign/bench/chart"
)

// figure writes a value with its unit, and never an "x" behind a ratio.
func figure(v float64, unit string) string {
	if unit == "x" {
		return bench.Short(v)
	}
	return strings.TrimSpace(chart.Short(v) + " " + strings.TrimPrefix(unit, "/"))
}

// unit is how a line's unit reads in a sentence.
func unit(l *bench.Line) string {
	if l.Unit == "/s" {
		return "a second"
	}
	return l.Unit
}

func ranged(l *bench.Line) string {
	return bench.Short(l.Low) + " to " + bench.Short(l.High)
}

func goal(l *bench.Line) (goal, met string) {
	if l.Goal == "" {
		return "", ""
	}
	met = map[bool]string{true: "yes", false: "**no**"}[l.Met]
	return strings.NewReplacer(">=", "≥", "<=", "≤").Replace(l.Goal), met
}

// alone is what a line compares where it does not stand below the one that it calls
// "the same".
func alone(lines []bench.Line, i int) string {
	rest, same := strings.CutPrefix(lines[i].What, "the same")
	if !same {
		return lines[i].What
	}
	first := lines[i].What
	for ; i > 0 && strings.HasPrefix(first, "the same"); i-- {
		first = lines[i-1].What
	}
	if cut := strings.LastIndex(first, ","); cut > 0 && strings.HasPrefix(rest, ",") {
		first = first[:cut]
	}
	return first + rest
}

// goals is a table of every goal and whether it is met.
func (m *maker) goals() string {
	rows := [][]string{{"", "measure", "goal", "measured", "range of rounds", "met"}}
	for _, name := range bench.Measures {
		lines := m.record.Lines(name)
		for i, l := range lines {
			if want, met := goal(&l); want != "" {
				rows = append(rows, []string{name, alone(lines, i), want, figure(l.Ratio, unit(&l)), ranged(&l), met})
			}
		}
	}
	if len(rows) == 1 {
		return unmeasured
	}
	return table("llrrll", rows)
}

// goalChart shows how far each goal is away.
func (m *maker) goalChart() string {
	c := chart.Rows{
		Title:       "How far beyond its goal each measure is",
		Description: "One row for each goal. Right of the line at 1 it is met. The bar is the range of rounds; a hollow mark is a goal that is missed. The table below has the figures.",
		Axis:        chart.Axis{Title: "measured to goal; where less is better, goal to measured", Scale: chart.Log},
		Note:        "a filled mark: the goal is met; a hollow mark: it is missed; the bar: the range of rounds",
		Line:        1, LineName: "goal",
	}
	for _, name := range bench.Measures {
		lines := m.record.Lines(name)
		for i, l := range lines {
			if l.Margin > 0 {
				v := chart.Value{At: l.Margin, Hollow: !l.Met, Label: chart.Short(l.Margin)}
				ends := []float64{l.Margin * l.Low / l.Ratio, l.Margin * l.High / l.Ratio}
				if strings.HasPrefix(l.Goal, "<=") {
					ends = []float64{l.Margin * l.Ratio / l.High, l.Margin * l.Ratio / l.Low}
				}
				v.Low, v.High = ends[0], ends[1]
				c.Rows = append(c.Rows, chart.Row{Name: name + " " + alone(lines, i), Values: []chart.Value{v}})
			}
		}
	}
	if len(c.Rows) == 0 {
		return ""
	}
	return m.image("goals", "How far beyond its goal each measure is", c.SVG())
}

// measure is the table of one measure, and which run it comes from.
func (m *maker) measure(name string) string {
	lines := m.record.Lines(name)
	if len(lines) == 0 {
		return unmeasured
	}
	rows := [][]string{{"", "median", "range of rounds", "goal", "met", "medians compared"}}
	for _, l := range lines {
		want, met := goal(&l)
		compared := ""
		if l.Theirs != 0 {
			compared = chart.Short(l.Ours) + " to " + chart.Short(l.Theirs)
		}
		rows = append(rows, []string{l.What, figure(l.Ratio, unit(&l)), ranged(&l), want, met, compared})
	}
	return table("lrrrlr", rows) + "\n" + m.source(name)
}

// source says where and when a measure was taken, and how to take it again.
func (m *maker) source(name string) string {
	run := m.record.Of(name)
	number := 0
	for i := range m.record.Runs {
		if run == &m.record.Runs[i] {
			number = i + 1
		}
	}
	return fmt.Sprintf("<sub>[Run %d](#run-%d), %s. Again: %s</sub>\n", number, number, run.Machine.At.Format("2006-01-02"), m.repeat(name))
}

// value is one figure for a sentence.
func (m *maker) value(name, what string) (string, error) {
	for _, l := range m.record.Lines(name) {
		if l.What == what {
			return figure(l.Ratio, unit(&l)), nil
		}
	}
	for _, c := range bench.Comparisons(name) {
		if c == what {
			return "(not measured yet)", nil
		}
	}
	return "", fmt.Errorf("no comparison %q in %s", what, name)
}
