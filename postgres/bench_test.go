package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

func connections(n int32) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.MaxConns, c.MinConns = n, n }
}

// messages are n messages with payloads of 200 bytes.
func messages(n int) []driver.New {
	rows := make([]driver.New, n)
	for i := range rows {
		rows[i] = message("mail", webhook, 200)
	}
	return rows
}

// BenchmarkEnqueueBulk writes batches, each in a transaction of its own, on one
// connection and on two.
func BenchmarkEnqueueBulk(b *testing.B) {
	for _, writers := range []int{1, 2} {
		for _, size := range []int{100, 500, 1000} {
			b.Run(fmt.Sprintf("writers=%d/batch=%d", writers, size), func(b *testing.B) {
				d := open(b, connections(int32(writers)+1))
				for range writers {
					d.insert(b, messages(size)...) // the statement is prepared
				}
				batches := make([][]driver.New, b.N*writers)
				for i := range batches {
					batches[i] = messages(size)
				}
				before, start := d.meter(b), time.Now()
				b.ResetTimer()
				each(b, writers, func(w int) error {
					for i := range b.N {
						if err := d.insertErr(b.Context(), batches[i*writers+w]...); err != nil {
							return err
						}
					}
					return nil
				})
				spent := time.Since(start)
				b.StopTimer()
				rows := len(batches) * size
				d.meter(b).report(b, before, rows)
				b.ReportMetric(float64(rows)/spent.Seconds(), "rows/s")
			})
		}
	}
}

// each runs n calls at once.
func each(b *testing.B, n int, call func(i int) error) {
	b.Helper()
	var wait sync.WaitGroup
	faults := make([]error, n)
	for i := range n {
		wait.Go(func() { faults[i] = call(i) })
	}
	wait.Wait()
	if err := errors.Join(faults...); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkEnqueueSingle is a transaction with one change of the program's own data
// and one enqueue, against the same with one plain INSERT into a bare outbox table,
// in turns so that both meet the same machine.
func BenchmarkEnqueueSingle(b *testing.B) {
	d := open(b, connections(1))
	d.exec(b, `
CREATE TABLE {s}ticket (id integer PRIMARY KEY, status text NOT NULL);
INSERT INTO {s}ticket SELECT n, 'open' FROM generate_series(1, 1000) n;
CREATE TABLE {s}outbox (id uuid PRIMARY KEY, topic text NOT NULL, payload text NOT NULL, created_at timestamptz NOT NULL)`)
	update := d.expand("UPDATE {s}ticket SET status = $2 WHERE id = $1")
	plain := d.expand("INSERT INTO {s}outbox (id, topic, payload, created_at) VALUES ($1::uuid, $2, $3, now())")
	transaction := func(i int, write func(ctx context.Context, tx pgx.Tx) error) time.Duration {
		ctx, start := b.Context(), time.Now()
		err := pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, update, i%1000+1, "closed"); err != nil {
				return err
			}
			return write(ctx, tx)
		})
		if err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
	rows := messages(b.N + 1)
	both := func(i int) (ours, bare time.Duration) {
		n := &rows[i]
		bare = transaction(i, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, plain, n.Ref.String(), n.Kind, string(n.Payload))
			return err
		})
		ours = transaction(i, func(ctx context.Context, tx pgx.Tx) error {
			return d.bound.Join(tx).Insert(ctx, rows[i:i+1])
		})
		return ours, bare
	}
	both(b.N)
	var ours, bare time.Duration
	b.ResetTimer()
	for i := range b.N {
		o, p := both(i)
		ours, bare = ours+o, bare+p
	}
	b.ReportMetric(float64(ours)/float64(bare), "ratio")
	b.ReportMetric(float64(ours.Microseconds())/float64(b.N), "enqueue-us")
	b.ReportMetric(float64(bare.Microseconds())/float64(b.N), "bare-us")
}

// BenchmarkDrain claims, starts and settles a backlog of 1,000 messages for each
// iteration, in batches of 1,000 on two connections: the floor that an engine
// cannot go below.
func BenchmarkDrain(b *testing.B) {
	const size, lanes = 1000, 2
	d := open(b, connections(lanes+1))
	for range b.N {
		d.insert(b, messages(size)...)
	}
	for _, sql := range []string{"VACUUM ANALYZE {s}delivery", "VACUUM ANALYZE {s}intent"} {
		d.exec(b, sql)
	}
	before, start := d.meter(b), time.Now()
	b.ResetTimer()
	each(b, lanes, func(int) error { return drainAll(b.Context(), d, size) })
	spent := time.Since(start)
	b.StopTimer()
	rows := b.N * size
	if n := one[int](b, d, "SELECT count(*) FROM {s}delivery WHERE status = 3"); n != rows {
		b.Fatalf("%d of %d succeeded", n, rows)
	}
	d.meter(b).report(b, before, rows)
	b.ReportMetric(float64(rows)/spent.Seconds(), "rows/s")
}

// drainAll takes what is due until nothing is left. It goes on behind what it took
// last, and begins again from the front where that comes to an end.
func drainAll(ctx context.Context, d *database, size int) error {
	var at driver.Position
	for {
		r := request("m:mail", size)
		r.Routes[0].After = at
		claimed, err := d.Claim(ctx, r)
		if err != nil {
			return err
		}
		if len(claimed) == 0 {
			if at == (driver.Position{}) {
				return nil
			}
			at = driver.Position{}
			continue
		}
		last := &claimed[len(claimed)-1]
		at = driver.Position{DueAt: last.DueAt, Ref: last.Intent.Ref}
		ts := starts(claimed)
		if err := applyAll(ctx, d, ts); err != nil {
			return err
		}
		for i := range claimed {
			claimed[i] = after(claimed[i], &ts[i])
		}
		if err := applyAll(ctx, d, successes(claimed)); err != nil {
			return err
		}
	}
}

func applyAll(ctx context.Context, d *database, ts []lifecycle.Transition) error {
	held, err := d.Apply(ctx, ts)
	for i := range held {
		if !held[i] {
			return fmt.Errorf("row %d did not hold", i)
		}
	}
	return err
}

func apply(t testing.TB, d *database, ts []lifecycle.Transition) {
	t.Helper()
	if err := applyAll(t.Context(), d, ts); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkOne is each of the three durable steps for a single delivery: what a
// lightly loaded program waits for.
func BenchmarkOne(b *testing.B) {
	d := open(b, connections(1))
	d.insert(b, messages(b.N+1)...)
	var claims, starting, settling time.Duration
	var at driver.Position
	for range b.N {
		r := request("m:mail", 1)
		r.Routes[0].After = at
		began := time.Now()
		claimed, err := d.Claim(b.Context(), r)
		if err != nil || len(claimed) != 1 {
			b.Fatal(len(claimed), err)
		}
		claims += time.Since(began)
		at = driver.Position{DueAt: claimed[0].DueAt, Ref: claimed[0].Intent.Ref}
		ts := starts(claimed)
		began = time.Now()
		apply(b, d, ts)
		starting += time.Since(began)
		claimed[0] = after(claimed[0], &ts[0])
		ts = successes(claimed)
		began = time.Now()
		apply(b, d, ts)
		settling += time.Since(began)
	}
	for name, spent := range map[string]time.Duration{"claim-us": claims, "start-us": starting, "settle-us": settling} {
		b.ReportMetric(float64(spent.Microseconds())/float64(b.N), name)
	}
}
