package sqlite_test

import (
	"crypto/rand"
	"crypto/sha256"
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

func benchStore(b *testing.B) (driver.Driver, func() driver.Tx) {
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
	ctx := b.Context()
	bound, begin := benchStore(b)
	fill(b, bound, begin, b.N, benchBatch)
	var spent [3]time.Duration
	usage := cpuTime()
	drained := 0
	b.ResetTimer()
	for {
		r := driver.ClaimRequest{Program: "bench", Policy: lifecycle.DefaultPolicy}
		rand.Read(r.Owner[:])
		first := benchRow(0)
		r.Routes = []driver.RouteLimit{{Route: first.Route(), Limit: benchBatch}}
		begun := time.Now()
		claimed, err := bound.Claim(ctx, r)
		if err != nil {
			b.Fatal(err)
		}
		spent[0] += time.Since(begun)
		if len(claimed) == 0 {
			break
		}
		starts, settles := make([]lifecycle.Transition, len(claimed)), make([]lifecycle.Transition, len(claimed))
		begun = time.Now()
		for i := range claimed {
			s := &claimed[i].State
			event := lifecycle.Event{Kind: lifecycle.EvStart, Owner: r.Owner, Generation: s.Generation, Digest: claimed[i].Intent.Digest}
			starts[i] = lifecycle.DefaultPolicy.Apply(*s, event)
			starts[i].Ref = claimed[i].Intent.Ref
		}
		mustHold(b, bound, starts)
		spent[1] += time.Since(begun)
		begun = time.Now()
		for i := range claimed {
			s := &claimed[i].State
			s.Status, s.InFlight, s.Attempts, s.Digest = lifecycle.Delivering, true, 1, claimed[i].Intent.Digest
			s.Revision++
			event := lifecycle.Event{Kind: lifecycle.EvSucceeded, Owner: r.Owner, Generation: s.Generation, Attempt: 1}
			settles[i] = lifecycle.DefaultPolicy.Apply(*s, event)
			settles[i].Ref = claimed[i].Intent.Ref
		}
		mustHold(b, bound, settles)
		spent[2] += time.Since(begun)
		drained += len(claimed)
	}
	if drained != b.N {
		b.Fatalf("drained %d of %d", drained, b.N)
	}
	report(b, usage)
	for i, step := range []string{"claim", "start", "settle"} {
		b.ReportMetric(float64(spent[i].Nanoseconds())/1000/float64(b.N), step+"-µs")
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

func mustHold(b *testing.B, bound driver.Driver, ts []lifecycle.Transition) {
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
