package page

import (
	"slices"
	"strings"

	"github.com/consign-go/consign/bench"
	"github.com/consign-go/consign/bench/chart"
)

// shownQuantiles are the columns of the table of a distribution.
var shownQuantiles = []struct {
	q    float64
	name string
}{{0.5, "half within"}, {0.9, "90 %"}, {0.99, "99 %"}, {0.999, "99.9 %"}, {1, "all"}}

// timed are the samples with a distribution of a measure, of the subjects whose
// names begin with a prefix, in the order in which they ran.
func (m *maker) timed(name string, prefixes ...string) (names []string, of map[string][]*bench.Sample) {
	of = map[string][]*bench.Sample{}
	run := m.record.Of(name)
	if run == nil {
		return nil, of
	}
	for i := range run.Samples {
		s := &run.Samples[i]
		begins := func(prefix string) bool { return strings.HasPrefix(s.Subject, prefix) }
		if s.Latency == nil || !slices.ContainsFunc(prefixes, begins) {
			continue
		}
		if of[s.Subject] == nil {
			names = append(names, s.Subject)
		}
		of[s.Subject] = append(of[s.Subject], s)
	}
	return names, of
}

// latency is a chart of distributions and a table: how long what share took at most.
func (m *maker) latency(name, title string, prefixes ...string) string {
	names, of := m.timed(name, prefixes...)
	if len(names) == 0 {
		return unmeasured
	}
	p := chart.Panel{
		X: chart.Axis{Title: "share that took no longer", Scale: chart.Nines},
		Y: chart.Axis{Title: "milliseconds", Scale: chart.Log},
	}
	for _, subject := range names {
		at, d := quantiles(of[subject]), of[subject][0].Latency
		series := chart.Series{Name: subject}
		for _, q := range d.Quantiles {
			if (1-q.Q)*float64(d.Count) >= 1 { // beyond, it is one outlier's time
				series.Points = append(series.Points, at[q.Q])
			}
		}
		p.Series = append(p.Series, series)
	}
	drawing := chart.Lines{
		Title:       title,
		Description: "One line for each subject: the time within which a share of all was done, with the range of the rounds. The table below has the figures.",
		Panels:      []chart.Panel{p},
	}
	return m.image("latency-"+name, title, drawing.SVG()) + "\n" + quantileTable(names, of)
}

func quantileTable(names []string, of map[string][]*bench.Sample) string {
	head := []string{"milliseconds, medians of the rounds"}
	for _, q := range shownQuantiles {
		head = append(head, q.name)
	}
	rows := [][]string{head}
	for _, subject := range names {
		at := quantiles(of[subject])
		row := []string{subject}
		for _, q := range shownQuantiles {
			row = append(row, some(at[q.q].Y))
		}
		rows = append(rows, row)
	}
	return table("lrrrrr", rows)
}

// pages is a chart of how long each page of the console takes, and a table.
func (m *maker) pages() string {
	names, of := m.timed("P14", bench.Console+" ")
	if len(names) == 0 {
		return unmeasured
	}
	c := chart.Rows{
		Title:       "Pages of the console",
		Description: "One row for each page, with a mark for the time of half of its requests and one for the slowest. The table below has the figures.",
		Axis:        chart.Axis{Title: "milliseconds", Scale: chart.Log},
		Series:      []string{"half within", "all within"},
	}
	for _, name := range names {
		at := quantiles(of[name])
		c.Rows = append(c.Rows, chart.Row{
			Name: strings.TrimPrefix(name, bench.Console+" "), Values: []chart.Value{{At: at[0.5].Y}, {Series: 1, At: at[1].Y}},
		})
	}
	return m.image("pages", c.Title, c.SVG()) + "\n" + quantileTable(names, of)
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
