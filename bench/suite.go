package bench

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Config is what all subjects share. Zero values are replaced by the defaults.
type Config struct {
	N           int `json:"n"`            // intents and jobs in a drain. Default: 200,000
	Payload     int `json:"payload"`      // bytes of a payload. Default: 100
	Large       int `json:"large"`        // bytes of a large one (P3). Default: 1,500
	Workers     int `json:"workers"`      // in hand at once, Consign and River alike. Default: 2,000
	Pool        int `json:"pool"`         // connections of each subject. Default: 8
	Batch       int `json:"batch"`        // Consign: rows in one write. Default: 1,000
	Lanes       int `json:"lanes"`        // Consign: writes at once. Default: 2
	Inserters   int `json:"inserters"`    // connections that enqueue. Default: 2
	InsertBatch int `json:"insert_batch"` // rows in one enqueuing transaction. Default: 5,000
	Calls       int `json:"calls"`        // transactions in one block of P6. Default: 2,000
	Memory      int `json:"memory"`       // intents in the drain of P11. Default: 1,000,000
	SQLite      int `json:"sqlite"`       // intents and jobs in the drain of P10. Default: 100,000
	Rate        int `json:"rate"`         // transactions a second of P7. Default: 500
	Paced       int `json:"paced"`        // transactions in one run of P7, without the first second. Default: 3,000
	SnapshotAge int `json:"snapshot_age"` // seconds for which the snapshot of P9 is held before the drains. Default: 180
	Churn       int `json:"churn"`        // intents a second that are enqueued and delivered meanwhile. Default: 1,000
	Old         int `json:"old"`          // deliveries that ended before P8 and P14. Default: 5,000,000
	Posts       int `json:"posts"`        // posts of P13 over reused connections. Default: 20,000
	Fresh       int `json:"fresh"`        // posts of P13 over fresh connections. Default: 5,000
	Visits      int `json:"visits"`       // of each page of P14, after the first. Default: 40
	Runs        int `json:"runs"`         // rounds. Default: 5

	Backlog      int `json:"backlog"`       // the largest backlog of its growth curve. Default: 10,000,000
	Growth       int `json:"growth"`        // messages at each point of the other growth curves. Default: 100,000
	Guarded      int `json:"guarded"`       // intents and jobs in a drain of the guard. Default: 30,000
	PointSeconds int `json:"point_seconds"` // for the drain at such a point, which may then be partial. Default: 20
}

// Filled returns c with its defaults.
func (c Config) Filled() Config {
	for _, f := range []struct {
		field *int
		value int
	}{
		{&c.N, 200_000}, {&c.Payload, 100}, {&c.Large, 1500}, {&c.Workers, 2000}, {&c.Pool, 8}, {&c.Batch, 1000},
		{&c.Lanes, 2}, {&c.Inserters, 2}, {&c.InsertBatch, 5000}, {&c.Calls, 2000}, {&c.Memory, 1_000_000},
		{&c.SQLite, 100_000}, {&c.Rate, 500}, {&c.Paced, 3000}, {&c.SnapshotAge, 180},
		{&c.Churn, 1000}, {&c.Old, 5_000_000}, {&c.Posts, 20_000}, {&c.Fresh, 5000}, {&c.Visits, 40}, {&c.Runs, 5},
		{&c.Backlog, 10_000_000}, {&c.Growth, 100_000}, {&c.PointSeconds, 20}, {&c.Guarded, 30_000},
	} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	return c
}

// Sample is one run of one subject.
type Sample struct {
	Subject string  `json:"subject"`
	Round   int     `json:"round"`
	N       int     `json:"n"`
	Enqueue Spent   `json:"enqueue,omitzero"`
	Drain   Spent   `json:"drain,omitzero"`
	PerSec  float64 `json:"per_second"`             // drained, or transactions of P6 and P7
	Median  float64 `json:"median_ms,omitempty"`    // of one transaction of P6
	MaxRSS  int64   `json:"max_rss_kib,omitempty"`  // of the draining process of P11
	Text    int64   `json:"text_kib,omitempty"`     // of which program text
	Stopped float64 `json:"stop_seconds,omitempty"` // from the last completion to the end of the engine
	Curve   string  `json:"curve,omitempty"`        // the growth curve that it is a point of
	Point   float64 `json:"point,omitempty"`        // where on the curve
	Items   int64   `json:"items,omitempty"`        // done in the drain of a curve: messages or attempts
	Partial bool    `json:"partial,omitempty"`      // its time was over before the drain was complete
	Removed int64   `json:"removed,omitempty"`      // meanwhile, by retention
	First   float64 `json:"first_ms,omitempty"`     // a page of P14, asked for the first time

	Latency *Distribution `json:"latency,omitempty"` // from the commit to the start of the effect (P7), of an unrelated query (P9), of a page (P14)
}

// subject is something that drains a backlog in a database. Each method leaves
// everything durable when it returns.
type subject[DB any] interface {
	// reset empties the subject's tables, which it makes where they are missing.
	reset(ctx context.Context, db DB) error

	// enqueue writes rows first to first+n-1 in one transaction.
	enqueue(ctx context.Context, db DB, first, n int) error

	// drain delivers n and returns how long it took from the start of the engine
	// to the last durable completion, and from there to the engine's end.
	drain(ctx context.Context, db DB, n int) (took, stopping time.Duration, err error)

	// left counts what is not completed, for a run that lost something is none.
	left(ctx context.Context, db DB) (int, error)
}

// Suite runs subjects on one server.
type Suite struct {
	Config Config
	URL    string
	Log    io.Writer // progress
	Trace  string    // a directory for profiles of what is measured; empty: none
	meter  *meter
	aged   *Suite // of P8 and P14; nil until it is needed
}

// Open connects the suite's meter. Close it after use.
func (s *Suite) Open(ctx context.Context) (err error) {
	s.Config = s.Config.Filled()
	s.meter, err = newMeter(ctx, s.URL)
	return err
}

// Close closes the meter.
func (s *Suite) Close() {
	if s.aged != nil {
		s.aged.Close()
	}
	s.meter.close()
}

// pool opens connections for one run of one subject: all of them at once, so that
// no run pays for connecting.
func (s *Suite) pool(ctx context.Context, conns int) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(s.URL)
	if err != nil {
		return nil, err
	}
	c.MaxConns, c.MinConns, c.MinIdleConns = int32(conns), int32(conns), int32(conns)
	p, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	for p.Stat().IdleConns() < int32(conns) {
		select {
		case <-ctx.Done():
			p.Close()
			return nil, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return p, nil
}

// run has one subject enqueue n and drain them.
func (s *Suite) run(ctx context.Context, name string, sub subject[*pgxpool.Pool], n int) (Sample, error) {
	out := Sample{Subject: name, N: n}
	err := s.inPool(ctx, func(pool *pgxpool.Pool) error {
		var err error
		if out.Enqueue, err = s.fill(ctx, pool, name, sub, n); err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}
		return nil
	})
	if err != nil {
		return out, fmt.Errorf("%s: %w", name, err)
	}
	err = s.inPool(ctx, func(pool *pgxpool.Pool) error {
		stop, err := s.trace(ctx, name)
		if err != nil {
			return err
		}
		before, err := s.meter.read(ctx)
		if err != nil {
			return err
		}
		took, stopping, err := sub.drain(ctx, pool, n)
		if err != nil {
			return err
		}
		after, err := s.meter.read(ctx)
		if err != nil {
			return err
		}
		out.Drain = after.since(before)
		out.Drain.Seconds, out.Stopped, out.PerSec = took.Seconds(), stopping.Seconds(), float64(n)/took.Seconds()
		if err := stop(); err != nil {
			return err
		}
		return complete(ctx, pool, sub, n)
	})
	if err != nil {
		return out, fmt.Errorf("%s: drain: %w", name, err)
	}
	return out, nil
}

// complete finds a run that has lost something to be none.
func complete[DB any](ctx context.Context, db DB, sub subject[DB], n int) error {
	left, err := sub.left(ctx, db)
	if err == nil && left != 0 {
		err = fmt.Errorf("%d of %d are not completed", left, n)
	}
	return err
}

// fill empties the tables and enqueues n. What follows begins with fresh
// statistics and pages without hints to set, for every subject alike; no
// checkpoint comes between, since the first change of a page after one costs a
// whole page of write-ahead log.
func (s *Suite) fill(ctx context.Context, pool *pgxpool.Pool, name string, sub subject[*pgxpool.Pool], n int) (Spent, error) {
	if err := sub.reset(ctx, pool); err != nil {
		return Spent{}, err
	}
	if _, err := s.meter.conn.Exec(ctx, "CHECKPOINT"); err != nil {
		return Spent{}, err
	}
	stop, err := s.trace(ctx, name+" enqueue")
	if err != nil {
		return Spent{}, err
	}
	before, err := s.meter.read(ctx)
	if err != nil {
		return Spent{}, err
	}
	if err := enqueueAll(ctx, pool, sub, n, s.Config.Inserters, s.Config.InsertBatch); err != nil {
		return Spent{}, err
	}
	after, err := s.meter.read(ctx)
	if err != nil {
		return Spent{}, err
	}
	if err := stop(); err != nil {
		return Spent{}, err
	}
	_, err = s.meter.conn.Exec(ctx, "VACUUM (ANALYZE)")
	return after.since(before), err
}

// inPools is inPool with two of them.
func (s *Suite) inPools(ctx context.Context, fn func(a, b *pgxpool.Pool) error) error {
	return s.inPool(ctx, func(a *pgxpool.Pool) error {
		return s.inPool(ctx, func(b *pgxpool.Pool) error { return fn(a, b) })
	})
}

func (s *Suite) inPool(ctx context.Context, fn func(pool *pgxpool.Pool) error) error {
	pool, err := s.pool(ctx, s.Config.Pool)
	if err != nil {
		return err
	}
	defer pool.Close()
	return fn(pool)
}

// enqueueAll shares the batches among the inserters.
func enqueueAll[DB any](ctx context.Context, db DB, sub subject[DB], n, inserters, batch int) error {
	return inParts(ctx, n, inserters, batch, func(ctx context.Context, first, n int) error {
		return sub.enqueue(ctx, db, first, n)
	})
}

// inParts has write called for each part of n, by so many at once.
func inParts(ctx context.Context, n, writers, part int, write func(ctx context.Context, first, n int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	firsts := make(chan int)
	errs := make(chan error, writers)
	for range writers {
		go func() {
			for first := range firsts {
				if err := write(ctx, first, min(part, n-first)); err != nil {
					cancel()
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for first := 0; first < n; first += part {
		select {
		case firsts <- first:
		case <-ctx.Done():
		}
	}
	close(firsts)
	var failed error
	for range writers {
		if err := <-errs; failed == nil {
			failed = err
		}
	}
	return failed
}
