package drivertest

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// bench is a database under test together with the test that uses it.
type bench[TX any] struct {
	Harness[TX]
	t    *testing.T
	ctx  context.Context
	made int
}

// newBench empties the database of h for the test t.
func newBench[TX any](t *testing.T, h Harness[TX]) *bench[TX] {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	b := &bench[TX]{Harness: h, t: t, ctx: ctx}
	b.ok("reset", h.Reset(ctx))
	return b
}

// ok ends the test where err is not nil.
func (b *bench[TX]) ok(what string, err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// that ends the test where a condition does not hold.
func (b *bench[TX]) that(holds bool, format string, args ...any) {
	b.t.Helper()
	if !holds {
		b.t.Fatalf(format, args...)
	}
}

// begin opens a transaction that is rolled back at the end of the test, where it
// is still open.
func (b *bench[TX]) begin() (TX, driver.Tx) {
	b.t.Helper()
	raw, tx, err := b.Bound.Begin(b.ctx)
	b.ok("begin", err)
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		tx.Rollback(ctx) // closed already, as a rule
	})
	return raw, tx
}

// insert commits rows and returns their refs.
func (b *bench[TX]) insert(rows ...driver.New) []driver.ID {
	b.t.Helper()
	b.ok("insert", b.tryInsert(rows...))
	refs := make([]driver.ID, len(rows))
	for i := range rows {
		refs[i] = rows[i].Ref
	}
	return refs
}

// add is insert for one row.
func (b *bench[TX]) add(row driver.New) driver.ID {
	b.t.Helper()
	return b.insert(row)[0]
}

// tryInsert inserts rows in a transaction of their own, committed if that held.
func (b *bench[TX]) tryInsert(rows ...driver.New) error {
	_, tx, err := b.Bound.Begin(b.ctx)
	if err != nil {
		return err
	}
	if err := tx.Insert(b.ctx, rows); err != nil {
		tx.Rollback(b.ctx)
		return err
	}
	return tx.Commit(b.ctx)
}

// shift lets time pass.
func (b *bench[TX]) shift(d time.Duration) {
	b.t.Helper()
	b.ok("shift", b.Shift(b.ctx, d))
}

// token returns a fresh owner.
func token() lifecycle.Token {
	var t lifecycle.Token
	rand.Read(t[:])
	return t
}

// request asks for up to limit deliveries of each route, for a fresh owner.
func request(limit int, routes ...string) driver.ClaimRequest {
	r := driver.ClaimRequest{Owner: token(), Program: "test", Policy: policy}
	for _, route := range routes {
		r.Routes = append(r.Routes, driver.RouteLimit{Route: route, Limit: limit, Contract: scheduled})
	}
	return r
}

// claim claims and returns what it got.
func (b *bench[TX]) claim(r driver.ClaimRequest) []driver.Claimed {
	b.t.Helper()
	got, err := b.Bound.Claim(b.ctx, r)
	b.ok("claim", err)
	return got
}

// refsOf returns the refs of claimed deliveries.
func refsOf(claimed []driver.Claimed) []driver.ID {
	refs := make([]driver.ID, len(claimed))
	for i := range claimed {
		refs[i] = claimed[i].Intent.Ref
	}
	return refs
}

// requestFor asks for one delivery alone, as suspect if it is one.
func (b *bench[TX]) requestFor(ref driver.ID) driver.ClaimRequest {
	b.t.Helper()
	r := b.record(ref)
	ask := request(1, r.Intent.Route())
	ask.Refs = []driver.ID{ref}
	ask.Suspects = r.State.Crashes > 0 || r.State.Status == lifecycle.Leased
	return ask
}

// claimable reports whether a claim would take ref, without taking it.
func (b *bench[TX]) claimable(ref driver.ID) bool {
	b.t.Helper()
	due, err := b.Bound.Due(b.ctx, b.requestFor(ref))
	b.ok("due", err)
	return len(due) == 1 && due[0] == ref
}

// take claims ref, which must succeed.
func (b *bench[TX]) take(ref driver.ID) driver.Claimed {
	b.t.Helper()
	got := b.claim(b.requestFor(ref))
	b.that(len(got) == 1 && got[0].Intent.Ref == ref, "claim of %s: %d deliveries, want it alone", ref, len(got))
	return got[0]
}

// record loads ref, which must exist.
func (b *bench[TX]) record(ref driver.ID) driver.Record {
	b.t.Helper()
	records, err := b.Bound.Load(b.ctx, []driver.ID{ref})
	b.ok("load", err)
	b.that(len(records) == 1 && records[0].Intent.Ref == ref, "load of %s: %d records", ref, len(records))
	return records[0]
}

// decide returns what lifecycle makes of event for the present state of ref. An
// owner that is not given is the present one.
func (b *bench[TX]) decide(ref driver.ID, e lifecycle.Event) lifecycle.Transition {
	b.t.Helper()
	s := b.record(ref).State
	if e.Owner == (lifecycle.Token{}) {
		e.Owner = s.Owner
	}
	if e.Generation == 0 {
		e.Generation = s.Generation
	}
	if e.Attempt == 0 {
		e.Attempt = s.AttemptNo()
	}
	if e.Digest == (lifecycle.Digest{}) {
		e.Digest = digest
	}
	t := policy.Apply(s, e)
	t.Ref = ref
	return t
}

// compareAndSet applies one transition and reports whether it held.
func (b *bench[TX]) compareAndSet(t lifecycle.Transition) bool {
	b.t.Helper()
	held, err := b.Bound.Apply(b.ctx, []lifecycle.Transition{t})
	b.ok("apply", err)
	b.that(len(held) == 1, "apply of one transition: %d answers", len(held))
	return held[0]
}

// apply lets event happen to ref, which must hold, and returns the record after.
func (b *bench[TX]) apply(ref driver.ID, e lifecycle.Event) driver.Record {
	b.t.Helper()
	t := b.decide(ref, e)
	b.that(t.Answer == lifecycle.Apply, "%s of %s: %s %s, want apply", e.Kind, ref, t.Answer, t.Code)
	before := b.record(ref)
	b.that(b.compareAndSet(t), "%s of %s did not hold", e.Kind, ref)
	after := b.record(ref)
	b.verify(before, t, after)
	return after
}

// is shorthand for an event without particulars.
func is(k lifecycle.EventKind) lifecycle.Event { return lifecycle.Event{Kind: k} }

// inFlight inserts row, claims and starts it.
func (b *bench[TX]) inFlight(row driver.New) driver.ID {
	b.t.Helper()
	ref := b.add(row)
	b.take(ref)
	b.apply(ref, is(lifecycle.EvStart))
	return ref
}

// history returns the attempt log of ref.
func (b *bench[TX]) history(ref driver.ID) []driver.Logged {
	b.t.Helper()
	log, err := b.Bound.History(b.ctx, ref)
	b.ok("history", err)
	return log
}

// deliveryOf returns the stored delivery of ref, byte for byte.
func (b *bench[TX]) deliveryOf(ref driver.ID) string {
	b.t.Helper()
	return b.rawOf("delivery", ref)
}

// rawOf returns the rows of table that name ref, byte for byte.
func (b *bench[TX]) rawOf(table string, ref driver.ID) string {
	b.t.Helper()
	text, err := b.raw(b.ctx, table, func(row map[string]any) bool {
		id, err := toID(row["ref"])
		return err == nil && id == ref
	})
	b.ok("rows", err)
	return text
}

// everything returns all rows of all tables, byte for byte.
func (b *bench[TX]) everything() string {
	b.t.Helper()
	var all string
	for _, table := range []string{"intent", "delivery", "attempt", "resolution", "run", "approval", "audit", "setting"} {
		text, err := b.raw(b.ctx, table, func(map[string]any) bool { return true })
		b.ok("rows", err)
		all += text + "\n"
	}
	return all
}

// count returns the number of rows of table.
func (b *bench[TX]) count(table string) int {
	b.t.Helper()
	rows, err := b.Rows(b.ctx, table)
	b.ok("rows", err)
	return len(rows)
}
