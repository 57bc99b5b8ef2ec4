package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// BenchmarkEnqueueBulk writes batches of messages with payloads of 200 bytes, each
// batch in a transaction of its own.
func BenchmarkEnqueueBulk(b *testing.B) {
	for _, size := range []int{100, 500, 1000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			d := open(b, connections(1))
			d.insert(b, messages(size)...)
			var spent time.Duration
			rows, batch := 0, messages(size*b.N)
			b.ResetTimer()
			before := d.meter(b)
			start := time.Now()
			for i := range b.N {
				d.insert(b, batch[i*size:][:size]...)
				rows += size
			}
			spent = time.Since(start)
			b.StopTimer()
			d.meter(b).report(b, before, rows)
			b.ReportMetric(float64(rows)/spent.Seconds(), "rows/s")
		})
	}
}

func connections(n int32) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.MaxConns, c.MinConns = n, n }
}

func messages(n int) []driver.New {
	rows := make([]driver.New, n)
	for i := range rows {
		rows[i] = message("mail", webhook, 200)
	}
	return rows
}

// BenchmarkDrain claims, starts and settles a backlog in batches of 1,000.
func BenchmarkDrain(b *testing.B) {
	const size = 1000
	d := open(b, connections(1))
	for range b.N {
		d.insert(b, messages(size)...)
	}
	for _, sql := range []string{"VACUUM ANALYZE {s}delivery", "VACUUM ANALYZE {s}intent"} {
		d.exec(b, sql)
	}
	b.ResetTimer()
	before := d.meter(b)
	step := [4]meter{before}
	var sum [3]meter
	rows := 0
	var after2 driver.Position
	for range b.N {
		r := request("m:mail", size)
		r.Routes[0].After = after2
		claimed, err := d.Claim(b.Context(), r)
		if err != nil || len(claimed) != size {
			b.Fatal(len(claimed), err)
		}
		after2 = driver.Position{DueAt: claimed[size-1].DueAt, Ref: claimed[size-1].Intent.Ref}
		step[1] = d.meter(b)
		ts := starts(claimed)
		apply(b, d, ts)
		step[2] = d.meter(b)
		for i := range claimed {
			claimed[i] = after(claimed[i], &ts[i])
		}
		apply(b, d, successes(claimed))
		step[3] = d.meter(b)
		for i := range sum {
			sum[i].client += step[i+1].client - step[i].client
			sum[i].server += step[i+1].server - step[i].server
			sum[i].wal += step[i+1].wal - step[i].wal
		}
		step[0] = d.meter(b)
		rows += size
	}
	d.meter(b).report(b, before, rows)
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
	b.Logf("%d updates, %d heap-only, %d bytes, %d index bytes", one[int64](b, d, "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relid = '{s}delivery'::regclass"),
		one[int64](b, d, "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = '{s}delivery'::regclass"),
		one[int64](b, d, "SELECT pg_relation_size('{s}delivery')"), one[int64](b, d, "SELECT pg_indexes_size('{s}delivery')"))
	for i, name := range []string{"claim", "start", "settle"} {
		b.Logf("%s: client %.2f us, server %.2f us, WAL %d B", name, float64(sum[i].client.Microseconds())/float64(rows),
			float64(sum[i].server.Microseconds())/float64(rows), sum[i].wal/int64(rows))
	}
}

func apply(t testing.TB, d *database, ts []lifecycle.Transition) {
	t.Helper()
	held, err := d.Apply(t.Context(), ts)
	if err != nil {
		t.Fatal(err)
	}
	for i := range held {
		if !held[i] {
			t.Fatalf("row %d did not hold", i)
		}
	}
}

var _ = pgx.ErrNoRows
