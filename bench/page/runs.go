package page

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/consign-go/consign/bench"
)

// runs lists where and with what everything was measured.
func (m *maker) runs() string {
	var b strings.Builder
	for i := range m.record.Runs {
		run(&b, i+1, &m.record.Runs[i])
	}
	if b.Len() == 0 {
		return unmeasured
	}
	return b.String()
}

func run(b *strings.Builder, number int, r *bench.Results) {
	machine, c := &r.Machine, &r.Config
	fmt.Fprintf(b, "### Run %d\n\n", number)
	fmt.Fprintf(b, "- measures: %s\n", strings.Join(r.Measures, ", "))
	fmt.Fprintf(b, "- began: %s; load of the machine then: %s\n", machine.At.Format("2006-01-02 15:04 MST"), machine.Load)
	fmt.Fprintf(b, "- machine: %s, %d processors; 8 kB written durably take %s ms\n", machine.System, machine.CPUs, bench.Short(machine.Sync))
	versions := []string{machine.Go, "PostgreSQL " + machine.Server["server_version"]}
	for _, name := range slices.Sorted(maps.Keys(machine.Versions)) {
		versions = append(versions, name+" "+machine.Versions[name])
	}
	fmt.Fprintf(b, "- versions: %s\n", strings.Join(versions, ", "))
	fmt.Fprintf(b, "- sizes: %d rounds of %d intents or jobs; %d workers, %d connections, %d inserters, %d rows a transaction; payload %d B\n",
		c.Runs, c.N, c.Workers, c.Pool, c.Inserters, c.InsertBatch, c.Payload)
	var settings []string
	for _, name := range slices.Sorted(maps.Keys(machine.Server)) {
		if name != "server_version" && machine.Server[name] != "" {
			settings = append(settings, "`"+name+"="+machine.Server[name]+"`")
		}
	}
	fmt.Fprintf(b, "- server: %s\n\n", strings.Join(settings, " "))
}

// caution names the runs that are smaller than the comparison asks for.
func (m *maker) caution() string {
	full := bench.Config{}.Filled()
	var b strings.Builder
	for i := range m.record.Runs {
		r := &m.record.Runs[i]
		small := r.Config.Runs < full.Runs || r.Config.Growth < full.Growth || r.Config.Backlog < full.Backlog || r.Config.Old < full.Old
		if n := r.Config.N; n < full.N && !(slices.Equal(r.Measures, []string{bench.Speed}) && n >= full.Guarded) {
			small = true
		}
		if small {
			fmt.Fprintf(&b, "> [Run %d](#run-%d) was a quick look, smaller than it should be: its figures (%s) show the form and nothing else.\n",
				i+1, i+1, strings.Join(r.Measures, ", "))
		}
	}
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	return b.String()
}
