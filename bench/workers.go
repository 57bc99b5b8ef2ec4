package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign/internal/dispatch"
)

// progress is how much a process has delivered so far, and when the last of it was.
type progress struct {
	Count int
	At    int64 // nanoseconds since 1970
}

// reportEvery is how often a process tells its progress.
const reportEvery = 5 * time.Millisecond

// workAlone delivers work in this process beside others. It tells when it is ready,
// begins when it is told to, and tells its progress until it is to end.
func workAlone(ctx context.Context, t *task, parent *parent) error {
	s := Suite{Config: t.Config, URL: t.URL}
	return s.inPool(ctx, func(pool *pgxpool.Pool) error {
		store, err := bound(pool)
		if err != nil {
			return err
		}
		var count, last atomic.Int64
		engine := dispatch.New(engineConfig(store, t.Config, newAuthority().served(func() {
			last.Store(time.Now().UnixNano())
			count.Add(1)
		})))
		if err := parent.tell(progress{}); err != nil {
			return err
		}
		if !parent.goAhead(ctx) {
			return nil
		}
		ended := make(chan error, 1)
		go func() { ended <- engine.Serve(ctx) }()
		tick := time.NewTicker(reportEvery)
		defer tick.Stop()
		for told := int64(0); ; {
			select {
			case err := <-ended:
				return err
			case <-tick.C:
			}
			if n := count.Load(); n != told {
				told = n
				if err := parent.tell(progress{int(n), last.Load()}); err != nil {
					return err
				}
			}
		}
	})
}

func workersName(processes int) string {
	if processes == 1 {
		return Workers + ", 1 process"
	}
	return fmt.Sprintf("%s, %d processes", Workers, processes)
}

// processes runs P12 once.
func (s *Suite) processes(ctx context.Context, add func(Sample)) error {
	for _, n := range []int{1, 2, 4} {
		sample, err := s.workers(ctx, n)
		if err != nil {
			return fmt.Errorf("%s: %w", sample.Subject, err)
		}
		add(sample)
	}
	return nil
}

// workers has so many processes drain one backlog.
func (s *Suite) workers(ctx context.Context, processes int) (Sample, error) {
	n := s.Config.N
	out := Sample{Subject: workersName(processes), N: n}
	sub := drains(s.Config)[Work]
	err := s.inPool(ctx, func(pool *pgxpool.Pool) (err error) {
		if out.Enqueue, err = s.fill(ctx, pool, out.Subject, sub, n); err != nil {
			return err
		}
		var all []*process
		defer func() {
			for _, p := range all {
				err = errors.Join(err, p.end())
			}
		}()
		for range processes {
			p, err := s.start(ctx, task{Role: "work"})
			if err != nil {
				return err
			}
			all = append(all, p)
		}
		for _, p := range all {
			if err := p.hear(&progress{}); err != nil {
				return err
			}
		}
		before, err := s.meter.read(ctx)
		if err != nil {
			return err
		}
		took, err := together(ctx, all, n)
		if err != nil {
			return err
		}
		after, err := s.meter.read(ctx)
		if err != nil {
			return err
		}
		out.Drain = after.since(before)
		if out.Drain.Client, err = used(all); err != nil {
			return err
		}
		out.Drain.Seconds, out.PerSec = took.Seconds(), float64(n)/took.Seconds()
		return complete(ctx, pool, sub, n)
	})
	return out, err
}

// used is the processor time of processes, their start included.
func used(all []*process) (seconds float64, err error) {
	for _, p := range all {
		if err := p.end(); err != nil {
			return 0, err
		}
		usage, err := p.usage()
		if err != nil {
			return 0, err
		}
		seconds += time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
	}
	return seconds, nil
}

// together has processes begin and returns how long it took them to deliver n.
func together(ctx context.Context, all []*process, n int) (time.Duration, error) {
	count := newCountdown(n)
	var last atomic.Int64
	var listening sync.WaitGroup
	began := time.Now()
	for _, p := range all {
		if err := p.goAhead(); err != nil {
			return 0, err
		}
		listening.Go(func() {
			for before := 0; ; {
				var now progress
				if p.hear(&now) != nil {
					return // it has ended, and says how at its end
				}
				for at := last.Load(); at < now.At && !last.CompareAndSwap(at, now.At); at = last.Load() {
				}
				count.add(now.Count - before)
				before = now.Count
			}
		})
	}
	err := count.wait(ctx)
	for _, p := range all {
		err = errors.Join(err, p.finish())
	}
	listening.Wait()
	return time.Duration(last.Load() - began.UnixNano()), err
}
