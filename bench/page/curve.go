package page

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/consign-go/consign/bench"
	"github.com/consign-go/consign/bench/chart"
)

// curve is a growth curve: its chart, and a table of its points.
func (m *maker) curve(name string) (string, error) {
	c, ok := bench.CurveOf(name)
	if !ok {
		return "", fmt.Errorf("no growth curve %q", name)
	}
	at := map[float64][]*bench.Sample{}
	if run := m.record.Of(name); run != nil {
		for i := range run.Samples {
			if s := &run.Samples[i]; s.Curve == name {
				at[s.Point] = append(at[s.Point], s)
			}
		}
	}
	if len(at) == 0 {
		return unmeasured, nil
	}
	rate := chart.Series{Name: c.Items + " a second"}
	client, server := chart.Series{Name: "client"}, chart.Series{Name: "server"}
	rows := [][]string{{c.X, "drained", "a second", "client µs", "server µs", "WAL B", "note"}}
	for _, x := range slices.Sorted(maps.Keys(at)) {
		samples := at[x]
		items := func(s *bench.Sample) float64 { return float64(s.Items) }
		y, low, high := spread(samples, func(s *bench.Sample) float64 { return s.PerSec })
		rate.Points = append(rate.Points, chart.Point{X: x, Y: y, Low: low, High: high})
		one, low, high := spread(samples, func(s *bench.Sample) float64 { return s.Drain.Client * 1e6 / items(s) })
		client.Points = append(client.Points, chart.Point{X: x, Y: one, Low: low, High: high})
		other, low, high := spread(samples, func(s *bench.Sample) float64 { return s.Drain.Server * 1e6 / items(s) })
		server.Points = append(server.Points, chart.Point{X: x, Y: other, Low: low, High: high})
		wal, _, _ := spread(samples, func(s *bench.Sample) float64 { return float64(s.Drain.WAL) / items(s) })
		done, _, _ := spread(samples, items)
		rows = append(rows, []string{
			exact(x), exact(done), chart.Short(y), chart.Short(one), chart.Short(other), chart.Short(wal), note(samples[0]),
		})
	}
	x := chart.Axis{Title: c.X, Whole: true}
	drawing := chart.Lines{
		Title:       c.Title,
		Description: "On the left what is drained a second, on the right the processor time that each costs the draining process and the server, by " + c.X + ". The table below has the figures.",
		Panels: []chart.Panel{
			{X: x, Y: chart.Axis{Title: "drained a second"}, Series: []chart.Series{rate}},
			{X: x, Y: chart.Axis{Title: "processor time for each, µs"}, Series: []chart.Series{client, server}},
		},
	}
	return m.image("growth-"+name, c.Title, drawing.SVG()) + "\n" + table("rrrrrrl", rows) + "\n" + m.source(name), nil
}

// exact writes a whole number in full, with its thousands apart.
func exact(v float64) string {
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// note is what else a point's table says.
func note(s *bench.Sample) string {
	switch {
	case s.Removed > 0:
		return chart.Short(float64(s.Removed)/s.Drain.Seconds) + " a second removed meanwhile"
	case s.Partial:
		return "of " + exact(float64(s.N)) + ", then its time was over"
	}
	return ""
}
