// Command compare starts a PostgreSQL server of its own, runs Consign, the bare
// statements and the job queue River on it in turn, and prints how they compare.
// With -page it also makes the document about speed.
//
//	go run ./cmd/compare
//	go run ./cmd/compare -runs 1 -n 20000 -measures P1,P4
//	go run ./cmd/compare -page ../docs
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
	bench.Print(w, bench.Compare(r.Samples))
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
