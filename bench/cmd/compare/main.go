// Command compare starts a PostgreSQL server of its own, runs Consign, the bare
// statements and the job queue River on it in turn, and prints how they compare.
//
//	go run ./cmd/compare
//	go run ./cmd/compare -runs 1 -n 20000 -measures P1,P4
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/consign-go/consign/bench"
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

// options are what the flags say.
type options struct {
	config   bench.Config
	measures []string
	out      string
	dir      string
	trace    string
	settings map[string]string
}

func parse(args []string) (*options, error) {
	o := &options{settings: map[string]string{}}
	d := bench.Config{}.Filled()
	f := flag.NewFlagSet("compare", flag.ContinueOnError)
	f.IntVar(&o.config.Runs, "runs", d.Runs, "rounds; each subject runs once in each")
	f.IntVar(&o.config.N, "n", d.N, "intents and jobs in a drain")
	f.IntVar(&o.config.Workers, "workers", d.Workers, "deliveries and jobs in hand at once")
	f.IntVar(&o.config.Pool, "pool", d.Pool, "connections of each subject")
	f.IntVar(&o.config.Payload, "payload", d.Payload, "bytes of Consign's payloads")
	f.IntVar(&o.config.Large, "large", d.Large, "bytes of the large payloads of P3")
	f.IntVar(&o.config.Batch, "batch", d.Batch, "Consign, work only: rows in one write")
	f.IntVar(&o.config.Lanes, "lanes", d.Lanes, "Consign, work only: writes at once")
	f.IntVar(&o.config.Inserters, "inserters", d.Inserters, "connections that enqueue")
	f.IntVar(&o.config.InsertBatch, "insert-batch", d.InsertBatch, "rows in one enqueuing transaction")
	f.IntVar(&o.config.Calls, "calls", d.Calls, "transactions in one block of P6")
	f.IntVar(&o.config.Memory, "memory", d.Memory, "intents and jobs in the drain of P11")
	f.IntVar(&o.config.SQLite, "sqlite", d.SQLite, "intents and jobs in the drain of P10")
	f.IntVar(&o.config.Rate, "rate", d.Rate, "transactions a second of P7")
	f.IntVar(&o.config.Paced, "paced", d.Paced, "transactions in one run of P7, without the first second")
	f.IntVar(&o.config.SnapshotAge, "snapshot-age", d.SnapshotAge, "seconds for which the snapshot of P9 is held before the drains")
	f.IntVar(&o.config.Churn, "churn", d.Churn, "intents a second that are enqueued and delivered meanwhile")
	f.IntVar(&o.config.Old, "old", d.Old, "deliveries that ended before P8 and P14")
	f.IntVar(&o.config.Posts, "posts", d.Posts, "posts of P13 over reused connections")
	f.IntVar(&o.config.Fresh, "fresh", d.Fresh, "posts of P13 over fresh connections")
	f.IntVar(&o.config.Visits, "visits", d.Visits, "requests for each page of P14, after the first")
	f.StringVar(&o.out, "out", "", "a file for the raw results as JSON")
	f.StringVar(&o.dir, "dir", "", "where the server's directory is made (default: the one for temporary files)")
	f.StringVar(&o.trace, "trace", "", "a directory for profiles; such a run's figures are not for comparing")
	measures := f.String("measures", strings.Join(bench.Measures, ","), "which measures to take")
	f.Func("set", "a server setting, name=value; may be repeated", func(s string) error {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return errors.New("want name=value")
		}
		o.settings[name] = value
		return nil
	})
	err := f.Parse(args)
	o.measures = strings.Split(*measures, ",")
	if err == nil && f.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return o, err
}

func run(ctx context.Context, args []string, w io.Writer) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.trace != "" {
		if err := os.MkdirAll(o.trace, 0o755); err != nil {
			return err
		}
		for name, value := range bench.TraceSettings() {
			o.settings[name] = value
		}
	}
	cluster, err := bench.StartCluster(o.dir, o.settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	s := &bench.Suite{Config: o.config, URL: cluster.URL(), Trace: o.trace}
	if err := s.Open(ctx); err != nil {
		return err
	}
	defer s.Close()
	results := bench.Results{Config: s.Config, Measures: o.measures}
	if results.Machine, err = s.Machine(ctx); err != nil {
		return err
	}
	results.PrintConfiguration(w)
	err = s.Run(ctx, o.measures, func(sample bench.Sample) {
		results.Samples = append(results.Samples, sample)
		sample.Print(w)
	})
	if err != nil {
		return err
	}
	results.Lines = bench.Compare(results.Samples)
	bench.Print(w, results.Lines)
	if o.out == "" {
		return nil
	}
	raw, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(o.out, append(raw, '\n'), 0o644)
}
