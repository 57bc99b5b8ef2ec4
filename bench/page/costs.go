package page

import (
	"slices"
	"strings"

	"github.com/consign-go/consign/bench"
	"github.com/consign-go/consign/bench/chart"
)

// drained are the subjects that drain in this process, in the order in which they
// ran, each with its samples of the run in which most others ran too, and of such runs
// the latest: rows of one table are to be of the same hour and the same database.
func (m *maker) drained() (names []string, of map[string][]*bench.Sample) {
	of = map[string][]*bench.Sample{}
	beside := map[string]int{}
	for i := range m.record.Runs {
		run := &m.record.Runs[i]
		if !slices.ContainsFunc(run.Measures, func(name string) bool { return slices.Contains(bench.Measures, name) }) {
			continue // its sizes are others
		}
		fresh := map[string][]*bench.Sample{}
		for i := range run.Samples {
			s := &run.Samples[i]
			if s.Curve != "" || s.Drain.Client == 0 || s.PerSec == 0 || posts(s.Subject) {
				continue // no drain of this process
			}
			if !slices.Contains(names, s.Subject) {
				names = append(names, s.Subject)
			}
			fresh[s.Subject] = append(fresh[s.Subject], s)
		}
		for name, samples := range fresh {
			if len(fresh) >= beside[name] {
				of[name], beside[name] = samples, len(fresh)
			}
		}
	}
	return names, of
}

// posts reports whether a subject posts to a receiver, whose own work is then most
// of what is measured.
func posts(subject string) bool {
	return slices.ContainsFunc([]string{bench.BarePost, bench.Post, bench.Hooks}, func(prefix string) bool {
		return strings.HasPrefix(subject, prefix)
	})
}

// spread is the median of a figure and its range.
func spread(samples []*bench.Sample, of func(*bench.Sample) float64) (mid, low, high float64) {
	var all []float64
	for _, s := range samples {
		all = append(all, of(s))
	}
	return bench.Median(all), slices.Min(all), slices.Max(all)
}

// rates is a chart of what each subject drains a second.
func (m *maker) rates() string {
	c := chart.Rows{
		Title:       "Drained a second",
		Description: "One row for each subject: the median of the rounds, and their range. The table below has the medians.",
		Axis:        chart.Axis{Title: "intents or jobs a second", Scale: chart.Log},
	}
	names, of := m.drained()
	for _, name := range names {
		mid, low, high := spread(of[name], func(s *bench.Sample) float64 { return s.PerSec })
		c.Rows = append(c.Rows, chart.Row{Name: name, Values: []chart.Value{{At: mid, Low: low, High: high, Label: chart.Short(mid)}}})
	}
	if len(names) == 0 {
		return unmeasured
	}
	return m.image("rates", c.Title, c.SVG())
}

// costs is a chart and a table of what each item costs.
func (m *maker) costs() string {
	names, of := m.drained()
	if len(names) == 0 {
		return unmeasured
	}
	c := chart.Rows{
		Title:       "Processor time to drain one",
		Description: "One row for each subject, with a mark for this process and one for the server. The table below has the figures.",
		Axis:        chart.Axis{Title: "microseconds for each intent or job", Scale: chart.Fitting},
		Series:      []string{"client: the draining process", "server: PostgreSQL's processes"},
	}
	rows := [][]string{{"", "in, a second", "client µs", "server µs", "WAL B", "out, a second", "client µs", "server µs", "WAL B", "allocations"}}
	for _, name := range names {
		in := cost(of[name], func(s *bench.Sample) *bench.Spent { return &s.Enqueue })
		out := cost(of[name], func(s *bench.Sample) *bench.Spent { return &s.Drain })
		rows = append(rows, slices.Concat([]string{name}, in.cells(), out.cells(), []string{some(out.allocs)}))
		row := chart.Row{Name: name, Values: []chart.Value{{Series: 0, At: out.client}}}
		if out.server > 0 {
			row.Values = append(row.Values, chart.Value{Series: 1, At: out.server})
		}
		c.Rows = append(c.Rows, row)
	}
	return m.image("costs", c.Title, c.SVG()) + "\n" + table("lrrrrrrrrr", rows)
}

// each is what one intent or job cost: medians of the rounds.
type each struct{ rate, client, server, wal, allocs float64 }

func cost(samples []*bench.Sample, phase func(*bench.Sample) *bench.Spent) each {
	mid := func(of func(*bench.Spent) float64) float64 {
		m, _, _ := spread(samples, func(s *bench.Sample) float64 { return of(phase(s)) / float64(s.N) })
		return m
	}
	return each{
		rate:   1 / mid(func(s *bench.Spent) float64 { return s.Seconds }),
		client: mid(func(s *bench.Spent) float64 { return s.Client * 1e6 }),
		server: mid(func(s *bench.Spent) float64 { return s.Server * 1e6 }),
		wal:    mid(func(s *bench.Spent) float64 { return float64(s.WAL) }),
		allocs: mid(func(s *bench.Spent) float64 { return float64(s.Allocs) }),
	}
}

func (e each) cells() []string {
	return []string{some(e.rate), some(e.client), some(e.server), some(e.wal)}
}

// some is a number, or nothing where it was not measured.
func some(v float64) string {
	if v == 0 || v > 1e12 {
		return ""
	}
	return chart.Short(v)
}
