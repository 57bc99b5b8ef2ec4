package page

import (
	"slices"

	"github.com/consign-go/consign/bench"
	"github.com/consign-go/consign/bench/chart"
)

// shownQuantiles are the columns of the table of a distribution.
var shownQuantiles = []struct {
	q    float64
	name string
}{{0.5, "half within"}, {0.9, "90 %"}, {0.99, "99 %"}, {0.999, "99.9 %"}, {1, "all"}}

// latency is the distributions of a measure: how long what share took at most.
func (m *maker) latency(name string) string {
	run := m.record.Of(name)
	if run == nil {
		return unmeasured
	}
	var names []string
	of := map[string][]*bench.Sample{}
	for i := range run.Samples {
		s := &run.Samples[i]
		if s.Latency == nil {
			continue
		}
		if of[s.Subject] == nil {
			names = append(names, s.Subject)
		}
		of[s.Subject] = append(of[s.Subject], s)
	}
	if len(names) == 0 {
		return unmeasured
	}
	head := []string{"milliseconds, medians of the rounds"}
	for _, q := range shownQuantiles {
		head = append(head, q.name)
	}
	rows := [][]string{head}
	p := chart.Panel{
		X: chart.Axis{Title: "share of the effects that had started by then", Scale: chart.Nines},
		Y: chart.Axis{Title: "milliseconds from the commit to the start of the effect"},
	}
	for _, subject := range names {
		at := quantiles(of[subject])
		series := chart.Series{Name: subject}
		for _, q := range of[subject][0].Latency.Quantiles {
			if (1-q.Q)*float64(of[subject][0].Latency.Count) >= 1 { // beyond, it is one outlier's time
				series.Points = append(series.Points, at[q.Q])
			}
		}
		p.Series = append(p.Series, series)
		row := []string{subject}
		for _, q := range shownQuantiles {
			row = append(row, some(at[q.q].Y))
		}
		rows = append(rows, row)
	}
	title := "From the commit to the start of the effect"
	drawing := chart.Lines{
		Title:       title,
		Description: "One line for each subject: the time within which a share of all effects had started, with the range of the rounds. The table below has the figures.",
		Panels:      []chart.Panel{p},
	}
	return m.image("latency-"+name, title, drawing.SVG()) + "\n" + table("lrrrrr", rows)
}

// quantiles are the medians of the rounds, and their range, for each share.
func quantiles(rounds []*bench.Sample) map[float64]chart.Point {
	all := map[float64][]float64{}
	for _, s := range rounds {
		for _, q := range s.Latency.Quantiles {
			all[q.Q] = append(all[q.Q], q.Ms)
		}
	}
	out := map[float64]chart.Point{}
	for q, ms := range all {
		out[q] = chart.Point{X: q, Y: bench.Median(ms), Low: slices.Min(ms), High: slices.Max(ms)}
	}
	return out
}
