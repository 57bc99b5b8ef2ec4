package main

import (
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/consign-go/consign/bench"
)

// options are what the flags say.
type options struct {
	config   bench.Config
	measures []string
	out      string
	page     string
	render   bool
	guard    string
	strict   bool
	dir      string
	trace    string
	settings map[string]string
}

func parse(args []string) (*options, error) {
	o := &options{settings: map[string]string{}}
	f := flag.NewFlagSet("compare", flag.ContinueOnError)
	sizes(f, &o.config)
	f.StringVar(&o.out, "out", "", "a file for the raw results as JSON")
	f.StringVar(&o.page, "page", "", "the directory of the documents: what is measured goes into performance/results.json there,\nin place of what it had of the same measures, and performance.md is made again")
	f.BoolVar(&o.render, "render", false, "with -page: measure nothing, make the page from the raw results")
	f.StringVar(&o.guard, "guard", "", "raw results: measure only \"speed\", with the sizes recorded there, and tell what is better or worse than there")
	f.BoolVar(&o.strict, "strict", false, "with -guard: fail where something is worse")
	f.StringVar(&o.dir, "dir", "", "where the server's directory is made (default: the one for temporary files)")
	f.StringVar(&o.trace, "trace", "", "a directory for profiles; such a run's figures are not for comparing")
	measures := f.String("measures", "all", "which measures to take, separated by commas: P1 to P14, growth or single curves of it, speed, all.\nThere are "+
		strings.Join(bench.Everything(), " "))
	f.Func("set", "a server setting, name=value; may be repeated", func(s string) error {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return errors.New("want name=value")
		}
		o.settings[name] = value
		return nil
	})
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	var err error
	o.measures, err = bench.Select(strings.Split(*measures, ","))
	switch {
	case err != nil:
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.render && o.page == "":
		err = errors.New("-render needs -page, the directory of the documents")
	case o.strict && o.guard == "":
		err = errors.New("-strict needs -guard, the raw results to compare with")
	case o.guard != "" && o.page != "":
		err = errors.New("-guard compares with what is recorded, -page replaces it")
	case o.page != "" && o.trace != "":
		err = errors.New("-trace costs time itself: its figures are not for the page")
	}
	return o, err
}

// sizes are the flags of what is shared by all subjects.
func sizes(f *flag.FlagSet, c *bench.Config) {
	d := bench.Config{}.Filled()
	for _, size := range []struct {
		field *int
		value int
		name  string
		usage string
	}{
		{&c.Runs, d.Runs, "runs", "rounds; each subject runs once in each"},
		{&c.N, d.N, "n", "intents and jobs in a drain"},
		{&c.Workers, d.Workers, "workers", "deliveries and jobs in hand at once"},
		{&c.Pool, d.Pool, "pool", "connections of each subject"},
		{&c.Payload, d.Payload, "payload", "bytes of Consign's payloads"},
		{&c.Large, d.Large, "large", "bytes of the large payloads of P3"},
		{&c.Batch, d.Batch, "batch", "Consign, work only: rows in one write"},
		{&c.Lanes, d.Lanes, "lanes", "Consign, work only: writes at once"},
		{&c.Inserters, d.Inserters, "inserters", "connections that enqueue"},
		{&c.InsertBatch, d.InsertBatch, "insert-batch", "rows in one enqueuing transaction"},
		{&c.Calls, d.Calls, "calls", "transactions in one block of P6"},
		{&c.Memory, d.Memory, "memory", "intents and jobs in the drain of P11"},
		{&c.Rate, d.Rate, "rate", "transactions a second of P7"},
		{&c.Paced, d.Paced, "paced", "transactions in one run of P7, without the first second"},
		{&c.SnapshotAge, d.SnapshotAge, "snapshot-age", "seconds for which the snapshot of P9 is held before the drains"},
		{&c.Churn, d.Churn, "churn", "intents a second that are enqueued and delivered meanwhile"},
		{&c.Old, d.Old, "old", "deliveries that ended before P8 and P14"},
		{&c.Posts, d.Posts, "posts", "posts of P13 over reused connections"},
		{&c.Fresh, d.Fresh, "fresh", "posts of P13 over fresh connections"},
		{&c.Visits, d.Visits, "visits", "requests for each page of P14, after the first"},
		{&c.SQLite, d.SQLite, "sqlite", "intents and jobs in the drain of P10"},
		{&c.Backlog, d.Backlog, "backlog", "the largest backlog of its growth curve"},
		{&c.Growth, d.Growth, "growth", "messages at each point of the other growth curves"},
		{&c.Guarded, d.Guarded, "guarded", "intents and jobs in a drain of the guard"},
		{&c.PointSeconds, d.PointSeconds, "point-seconds", "for the drain at such a point, which may then be partial"},
	} {
		f.IntVar(size.field, size.name, size.value, size.usage)
	}
}
