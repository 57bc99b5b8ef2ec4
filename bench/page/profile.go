package page

import (
	"fmt"
	"strings"

	"github.com/consign-go/consign/bench"
	"github.com/consign-go/consign/bench/chart"
)

// engine is a table of what the engine spends beside its store.
func (m *maker) engine() string {
	run := m.record.Of(bench.Engine)
	if run == nil {
		return unmeasured
	}
	rows := [][]string{{"each piece of work", "processor µs", "range of rounds", "allocations", "bytes allocated"}}
	for _, name := range []string{bench.EngineAlone, bench.Handler, bench.HandlerLarge} {
		var all []*bench.Sample
		for i := range run.Samples {
			if run.Samples[i].Subject == name {
				all = append(all, &run.Samples[i])
			}
		}
		if len(all) == 0 {
			continue
		}
		each := func(of func(*bench.Spent) float64) (mid, low, high float64) {
			return spread(all, func(s *bench.Sample) float64 { return of(&s.Drain) / float64(s.N) })
		}
		cpu, low, high := each(func(s *bench.Spent) float64 { return s.Client * 1e6 })
		allocs, _, _ := each(func(s *bench.Spent) float64 { return float64(s.Allocs) })
		bytes, _, _ := each(func(s *bench.Spent) float64 { return float64(s.AllocBytes) })
		rows = append(rows, []string{
			name, chart.Short(cpu), chart.Short(low) + " to " + chart.Short(high), chart.Short(allocs), chart.Short(bytes),
		})
	}
	return table("lrrrr", rows) + "\n" + m.source(bench.Engine)
}

// profile is what a drain of work spends where.
func (m *maker) profile() string {
	run := m.record.Of(bench.Profiled)
	if run == nil || len(run.Profiles) == 0 {
		return unmeasured
	}
	var b strings.Builder
	for _, p := range run.Profiles {
		if p.Each > 0 {
			fmt.Fprintf(&b, "%s allocations for each intent, by the function that makes them:\n\n", chart.Short(p.Each))
		} else {
			b.WriteString("Processor time of the draining process, by package:\n\n")
		}
		head := []string{"", "share"}
		if p.Each > 0 {
			head = append(head, "for each intent")
		}
		rows := [][]string{head}
		for _, s := range p.Flat {
			row := []string{"`" + strings.TrimPrefix(s.Place, "github.com/consign-go/") + "`", percent(s.Percent)}
			if p.Each > 0 {
				row = append(row, chart.Short(p.Each*s.Percent/100))
			}
			rows = append(rows, row)
		}
		b.WriteString(table("lrr"[:len(head)], rows) + "\n")
		if len(p.Cum) > 0 {
			b.WriteString("The same by what it is for; these contain each other in part:\n\n")
			rows := [][]string{{"", "share"}}
			for _, s := range p.Cum {
				rows = append(rows, []string{s.Place, percent(s.Percent)})
			}
			b.WriteString(table("lr", rows) + "\n")
		}
	}
	return b.String() + m.source(bench.Profiled)
}

func percent(v float64) string { return fmt.Sprintf("%.1f %%", v) }
