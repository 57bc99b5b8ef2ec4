package sqlite_test

import (
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/sqlite/internal/suite"
)

// The benchmarks count intents, so that -benchtime 100000x drains 100,000 of them.
// The database is a file in WAL mode with synchronous=FULL.

// benchBatch is how many intents one transaction moves.
const benchBatch = 500

var benchContract = lifecycle.Contract{
	Retry: lifecycle.Schedule, Idempotent: true, MaxAttempts: 3, Lease: time.Minute, Timeout: 30 * time.Second, MaxAge: 24 * time.Hour,
}

func benchRow(i int) driver.New {
	n := driver.New{Contract: benchContract}
	n.Ref = driver.NewID()
	n.Key = n.Ref
	n.Profile, n.Kind, n.Version, n.Fingerprint = lifecycle.Work, "tickets.triaged", "1", sha256.Sum256([]byte("contract"))
	n.Run, n.WorkKey = driver.NewID(), "notice"
	n.Operation, n.Actor, n.Tenant, n.SecurityVersion = "triage", "staff:7", "tenant:1", "3"
	n.Target, n.TargetVersion = fmt.Sprint("ticket:", i), "4"
	n.Payload = fmt.Appendf(nil, `{"ticket_ref":"ticket:%d","text":"%080d"}`, i, i)
	n.Digest = sha256.Sum256(n.Payload)
	return n
}

func fill(b *testing.B, bound driver.Driver, begin func() driver.Tx, n, batch int) {
	ctx := b.Context()
	for done := 0; done < n; {
		rows := make([]driver.New, 0, batch)
		for len(rows) < batch && done < n {
			rows = append(rows, benchRow(done))
			done++
		}
		tx := begin()
		if err := tx.Insert(ctx, rows); err != nil {
			b.Fatal(err)
		}
		if err := tx.Commit(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

func benchStore(b *testing.B) (driver.Bound[*sql.Tx], func() driver.Tx) {
	db := modernc.Open(b, filepath.Join(b.TempDir(), "bench.db"), 1)
	bound := suite.Migrated(b, db, "").Driver(driver.Key{})
	return bound, func() driver.Tx {
		_, tx, err := bound.Begin(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		return tx
	}
}

func BenchmarkEnqueue(b *testing.B) {
	for _, batch := range []int{1, benchBatch} {
		b.Run(fmt.Sprint(batch), func(b *testing.B) {
			bound, begin := benchStore(b)
			usage := cpuTime()
			b.ResetTimer()
			fill(b, bound, begin, b.N, batch)
			report(b, usage)
		})
	}
}

func BenchmarkDrain(b *testing.B) {
	for _, batch := range []int{1, benchBatch} {
		b.Run(fmt.Sprint(batch), func(b *testing.B) { drain(b, batch) })
	}
}

// drain claims, starts and settles b.N intents on one goroutine, batch by batch.
func drain(b *testing.B, batch int) {
	bound, begin := benchStore(b)
	fill(b, bound, begin, b.N, benchBatch)
	var spent [3]time.Duration
	timed := func(step int, fn func()) {
		begun := time.Now()
		fn()
		spent[step] += time.Since(begun)
	}
	route, drained, usage := route(), 0, cpuTime()
	b.ResetTimer()
	for drained < b.N {
		r := driver.ClaimRequest{Program: "bench", Policy: lifecycle.DefaultPolicy, Routes: []driver.RouteLimit{{Route: route, Limit: batch}}}
		rand.Read(r.Owner[:])
		var claimed []driver.Claimed
		timed(0, func() {
			var err error
			if claimed, err = bound.Claim(b.Context(), r); err != nil || len(claimed) == 0 {
				b.Fatalf("claimed %d after %d of %d: %v", len(claimed), drained, b.N, err)
			}
		})
		timed(1, func() {
			mustHold(b, bound, claimed, func(c *driver.Claimed) lifecycle.Event {
				return lifecycle.Event{Kind: lifecycle.EvStart, Owner: r.Owner, Generation: c.State.Generation, Digest: c.Intent.Digest}
			})
		})
		for i := range claimed {
			s := &claimed[i].State
			s.Status, s.InFlight, s.Attempts, s.Digest = lifecycle.Delivering, true, 1, claimed[i].Intent.Digest
			s.Revision++
		}
		timed(2, func() {
			mustHold(b, bound, claimed, func(c *driver.Claimed) lifecycle.Event {
				return lifecycle.Event{Kind: lifecycle.EvSucceeded, Owner: r.Owner, Generation: c.State.Generation, Attempt: 1}
			})
		})
		drained += len(claimed)
	}
	report(b, usage)
	for i, step := range []string{"claim", "start", "settle"} {
		b.ReportMetric(float64(spent[i].Nanoseconds())/1000/float64(b.N), step+"-µs")
	}
}

func route() string {
	row := benchRow(0)
	return row.Route()
}

// mustHold lets an event happen to all of claimed.
func mustHold(b *testing.B, bound driver.Driver, claimed []driver.Claimed, event func(c *driver.Claimed) lifecycle.Event) {
	ts := make([]lifecycle.Transition, len(claimed))
	for i := range claimed {
		ts[i] = lifecycle.DefaultPolicy.Apply(claimed[i].State, event(&claimed[i]))
		ts[i].Ref = claimed[i].Intent.Ref
	}
	held, err := bound.Apply(b.Context(), ts)
	if err != nil {
		b.Fatal(err)
	}
	for _, h := range held {
		if !h {
			b.Fatal("a transition did not hold")
		}
	}
}

// BenchmarkView is what a read-only look costs beside its queries.
func BenchmarkView(b *testing.B) {
	bound, _ := benchStore(b)
	for b.Loop() {
		if err := bound.View(b.Context(), func(*sql.Tx) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

// report says how many intents a second, and how much processor time each took: on a
// busy machine the second figure is the steadier one.
func report(b *testing.B, usage time.Duration) {
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "intents/s")
	if used := cpuTime() - usage; used > 0 {
		b.ReportMetric(float64(used.Nanoseconds())/1000/float64(b.N), "cpu-µs/intent")
	}
}
