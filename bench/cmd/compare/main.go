// Command compare starts a PostgreSQL server of its own, runs Consign, the bare
// statements and the job queue River on it in turn, and prints how they compare.
// With -page it also makes the document about speed.
//
//	go run ./cmd/compare
//	go run ./cmd/compare -runs 1 -n 20000 -measures P1,P4
//	go run ./cmd/compare -page ../docs
//	go run ./cmd/compare -guard ../docs/performance/results.json
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/consign-go/consign/bench"
	"github.com/consign-go/consign/bench/page"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	child, err := bench.Child(ctx)
	if !child {
		err = run(ctx, os.Args[1:], os.Stdout)
	}
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, w io.Writer) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.render {
		return page.Write(o.page)
	}
	if o.trace != "" {
		if err := os.MkdirAll(o.trace, 0o755); err != nil {
			return err
		}
		maps.Copy(o.settings, bench.TraceSettings())
	}
	cluster, err := bench.StartCluster(o.dir, o.settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	if o.guard != "" {
		return o.compare(ctx, cluster.URL(), w)
	}
	fresh := &bench.Record{}
	for _, group := range bench.Groups(o.config, o.measures) {
		s := &bench.Suite{Config: group.Config, URL: cluster.URL(), Trace: o.trace}
		results, err := measure(ctx, s, group.Measures, w)
		if err != nil {
			return err
		}
		fresh.Add(*results)
		if err := o.keep(fresh, *results); err != nil {
			return err
		}
	}
	return nil
}

// compare is the guard: it measures what is recorded and tells the difference.
func (o *options) compare(ctx context.Context, url string, w io.Writer) error {
	record, err := bench.LoadRecord(o.guard)
	if err != nil {
		return err
	}
	recorded := record.Of(bench.Speed)
	if recorded == nil {
		return fmt.Errorf("%s has no figures of the guard: measure them, with -page or -out and -measures %s", o.guard, bench.Speed)
	}
	now, err := measure(ctx, &bench.Suite{Config: recorded.Config, URL: url}, []string{bench.Speed}, w)
	if err != nil {
		return err
	}
	judged, err := bench.Judge(record, now.Samples)
	if err != nil {
		return err
	}
	if worse := bench.PrintJudged(w, recorded, judged); o.strict && worse > 0 {
		return fmt.Errorf("%d figures are worse than recorded", worse)
	}
	return nil
}

// measure takes some measures and prints them.
func measure(ctx context.Context, s *bench.Suite, measures []string, w io.Writer) (*bench.Results, error) {
	if err := s.Open(ctx); err != nil {
		return nil, err
	}
	defer s.Close()
	r := &bench.Results{Config: s.Config, Measures: measures}
	var err error
	if r.Machine, err = s.Machine(ctx); err != nil {
		return nil, err
	}
	r.PrintConfiguration(w)
	if err := s.Take(ctx, r, func(sample bench.Sample) { sample.Print(w) }); err != nil {
		return nil, err
	}
	bench.Print(w, bench.Compare(r.Samples, r.Measures))
	return r, nil
}

// keep writes down what is measured so far, since a long run may be broken off.
func (o *options) keep(all *bench.Record, latest bench.Results) error {
	if o.out != "" {
		if err := all.Save(o.out); err != nil {
			return err
		}
	}
	if o.page == "" {
		return nil
	}
	raw := filepath.Join(o.page, page.Raw)
	record, err := bench.LoadRecord(raw)
	if err != nil {
		return err
	}
	record.Add(latest)
	if err := record.Save(raw); err != nil {
		return err
	}
	return page.Write(o.page)
}
