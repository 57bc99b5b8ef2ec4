package sqlite_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/sqlite/internal/suite"
)

// Small steps that several tests are made of.

var contract = lifecycle.Contract{
	Retry: lifecycle.Schedule, Idempotent: true, MaxAttempts: 3, Lease: 10 * time.Minute, Timeout: time.Minute, MaxAge: 24 * time.Hour,
}

var policy = lifecycle.DefaultPolicy

func message(change ...func(*driver.New)) driver.New {
	n := driver.New{Contract: contract}
	n.Ref = driver.NewID()
	n.Key = n.Ref
	n.Profile, n.Kind, n.Address, n.Payload = lifecycle.Message, "mail", "desk@example.org", []byte(`{"text":"hello"}`)
	for _, c := range change {
		c(&n)
	}
	n.Digest = sha256.Sum256(n.Payload)
	return n
}

func messages(count int, change ...func(*driver.New)) []driver.New {
	rows := make([]driver.New, count)
	for i := range rows {
		rows[i] = message(change...)
	}
	return rows
}

// store inserts rows and returns their refs.
func store(t testing.TB, b driver.Bound[*sql.Tx], rows ...driver.New) []driver.ID {
	t.Helper()
	_, tx, err := b.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Insert(t.Context(), rows); err != nil {
		tx.Rollback(t.Context())
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	refs := make([]driver.ID, len(rows))
	for i := range rows {
		refs[i] = rows[i].Ref
	}
	return refs
}

// asking asks for up to limit messages.
func asking(limit int) driver.ClaimRequest {
	return driver.ClaimRequest{
		Owner: lifecycle.Token(driver.NewID()), Program: "test", Policy: policy,
		Routes: []driver.RouteLimit{{Route: "m:mail", Limit: limit, Contract: contract}},
	}
}

func claim(t testing.TB, b driver.Driver, r driver.ClaimRequest) []driver.Claimed {
	t.Helper()
	got, err := b.Claim(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// decided is what event makes of ref as it is now, for its present owner.
func decided(t testing.TB, b driver.Driver, ref driver.ID, kind lifecycle.EventKind) lifecycle.Transition {
	t.Helper()
	records, err := b.Load(t.Context(), []driver.ID{ref})
	if err != nil || len(records) != 1 {
		t.Fatalf("load: %d records, %v", len(records), err)
	}
	s := records[0].State
	tr := policy.Apply(s, lifecycle.Event{
		Kind: kind, Owner: s.Owner, Generation: s.Generation, Attempt: s.AttemptNo(), Digest: sha256.Sum256([]byte("request")),
	})
	if tr.Answer != lifecycle.Apply {
		t.Fatalf("%s: %s %s", kind, tr.Answer, tr.Code)
	}
	tr.Ref = ref
	return tr
}

// apply lets event happen to refs, which must hold.
func apply(t testing.TB, b driver.Driver, kind lifecycle.EventKind, refs ...driver.ID) {
	t.Helper()
	ts := make([]lifecycle.Transition, len(refs))
	for i, ref := range refs {
		ts[i] = decided(t, b, ref, kind)
	}
	held, err := b.Apply(t.Context(), ts)
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range held {
		if !h {
			t.Fatalf("%s of %s did not hold", kind, refs[i])
		}
	}
}

// useEverything calls every method of a driver at least once, in ways that reach
// every statement it has.
func useEverything(t testing.TB, b driver.Bound[*sql.Tx]) {
	t.Helper()
	ctx := t.Context()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	given := func(n *driver.New) { n.Given = true }
	about := func(n *driver.New) { n.Subject = "customer:1" }
	refs := store(t, b, messages(40)...)
	one := store(t, b, message(given))
	same := message(given, func(n *driver.New) { n.Ref, n.Key = one[0], one[0] })
	store(t, b, same)
	store(t, b, messages(6, func(n *driver.New) { n.Task = "order"; n.Contract = lifecycle.Contract{} })...)
	subject := store(t, b, messages(6, about)...)
	_, tx, err := b.Begin(ctx)
	ok(err)
	_, err = tx.Schema(ctx)
	ok(err)
	run := driver.Run{ID: driver.NewID(), Operation: "triage", Actor: "staff:7", Tenant: "tenant:1", Subject: "customer:1"}
	ok(tx.OpenRun(ctx, run))
	approval := driver.Approval{
		ID: driver.NewID(), Operation: "triage", Actor: "staff:7", Tenant: "tenant:1", Target: "ticket:1", Subject: "customer:1",
		InputDigest: sha256.Sum256([]byte("{}")), Proposer: "agent:1",
	}
	ok(tx.Propose(ctx, approval, time.Hour))
	_, _, err = tx.LockApproval(ctx, approval.ID)
	ok(err)
	_, err = tx.Decide(ctx, driver.Decision{Approval: approval.ID, Status: driver.ApprovalConfirmed, By: "staff:8"})
	ok(err)
	ok(tx.Consume(ctx, approval.ID, run.ID))
	run.SecurityVersion, run.Target, run.TargetVersion = "1", "ticket:1", "2"
	ok(tx.SealRun(ctx, run))
	ok(tx.Commit(ctx))
	_, _, err = b.Run(ctx, run.ID)
	ok(err)
	_, _, err = b.Approval(ctx, approval.ID)
	ok(err)
	_, err = b.OpenApprovals(ctx, driver.OpenApprovals{Tenant: "tenant:1", Limit: 3})
	ok(err)

	r := asking(100)
	_, err = b.Due(ctx, r)
	ok(err)
	r.Refs = refs[:5]
	_, err = b.Due(ctx, r)
	ok(err)
	claim(t, b, r)
	_, err = b.Held(ctx, r)
	ok(err)
	r = asking(100)
	r.Next = []driver.Step{{Task: "a", Index: 0}}
	claim(t, b, r)
	claim(t, b, asking(100))
	claim(t, b, asking(100)) // finds nothing
	claim(t, b, asking(100)) // looks before it takes the lock
	apply(t, b, lifecycle.EvStart, refs[:30]...)
	apply(t, b, lifecycle.EvStart, subject[0])
	apply(t, b, lifecycle.EvRefused, refs[0])
	apply(t, b, lifecycle.EvSucceeded, refs[1:20]...)
	apply(t, b, lifecycle.EvRejected, refs[20], subject[0])
	apply(t, b, lifecycle.EvReleased, refs[31])
	apply(t, b, lifecycle.EvErase, subject[1])
	ok(b.Append(ctx, []driver.Logged{{Ref: refs[21], Attempt: lifecycle.Attempt{Generation: 1, Number: 9, Outcome: lifecycle.Unknown, Late: true}}}))
	_, err = b.Load(ctx, refs)
	ok(err)
	_, err = b.History(ctx, refs[20])
	ok(err)
	_, next, err := b.Overdue(ctx, driver.OverdueRequest{Limit: 3})
	ok(err)
	_, _, err = b.Overdue(ctx, driver.OverdueRequest{After: next})
	ok(err)
	_, err = b.Routes(ctx)
	ok(err)
	_, err = b.(driver.Waitlist).Waiting(ctx, driver.Turn{}, 10)
	ok(err)
	if n, err := b.Erase(ctx, []string{"customer:1"}); err != nil || n != 5 {
		t.Fatalf("erased %d: %v", n, err)
	}
	if n, err := b.Prune(ctx, lifecycle.Message, time.Now().Add(time.Hour), 3); err != nil || n != 3 {
		t.Fatalf("pruned %d: %v", n, err)
	}
	registry := b.(driver.Registry)
	program := driver.Program{ID: driver.NewID(), Name: "web", Serves: []driver.Serves{{Profile: lifecycle.Message, Kind: "mail"}}}
	ok(registry.Register(ctx, program))
	_, err = registry.Serving(ctx, time.Minute)
	ok(err)
	ok(registry.Unregister(ctx, program.ID))
	ok(b.View(ctx, func(tx *sql.Tx) error { _, err := b.Join(tx).Schema(ctx); return err }))
	_, err = b.Now(ctx)
	ok(err)
}

// dump returns every row of every table, byte for byte.
func dump(t testing.TB, db *sql.DB) string {
	t.Helper()
	var b strings.Builder
	for _, table := range []string{"intent", "delivery", "attempt", "resolution", "run", "approval", "audit", "program", "program_route", "setting"} {
		rows, err := suite.Rows(t.Context(), db, "SELECT * FROM consign_"+table)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			fmt.Fprintln(&b, table, row)
		}
	}
	return b.String()
}

// unchanged checks that the connection of a pool of one is as it was opened: outside
// of a transaction, with its settings, and writing if it can.
func unchanged(t testing.TB, db *sql.DB) {
	t.Helper()
	unchangedWith(t, db, 5*time.Second)
}

// unchangedWith is unchanged for a connection with a busy timeout of its own.
func unchangedWith(t testing.TB, db *sql.DB, busy time.Duration) {
	t.Helper()
	if in := db.Stats().InUse; in != 0 {
		t.Fatalf("%d connections are held", in)
	}
	for setting, want := range map[string]int{"busy_timeout": int(busy.Milliseconds()), "query_only": 0} {
		var got int
		if err := db.QueryRow("PRAGMA " + setting).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %d, want %d: %v", setting, got, want, err)
		}
	}
	if _, err := db.Exec("BEGIN; ROLLBACK"); err != nil {
		t.Errorf("a transaction is open: %v", err)
	}
}

// writes are all calls that write, with something to do for each.
func writes(b driver.Bound[*sql.Tx], t lifecycle.Transition) map[string]func(context.Context) error {
	registry := b.(driver.Registry)
	owned := func(fn func(ctx context.Context, tx driver.Tx) error) func(context.Context) error {
		return func(ctx context.Context) error {
			_, tx, err := b.Begin(ctx)
			if err != nil {
				return err
			}
			if err := fn(ctx, tx); err != nil {
				tx.Rollback(context.WithoutCancel(ctx))
				return err
			}
			return tx.Commit(ctx)
		}
	}
	late := driver.Logged{Ref: t.Ref, Attempt: lifecycle.Attempt{Generation: 1, Number: 1, Outcome: lifecycle.Unknown, Late: true}}
	return map[string]func(context.Context) error{
		"claim":  func(ctx context.Context) error { _, err := b.Claim(ctx, asking(3)); return err },
		"apply":  func(ctx context.Context) error { _, err := b.Apply(ctx, []lifecycle.Transition{t}); return err },
		"append": func(ctx context.Context) error { return b.Append(ctx, []driver.Logged{late}) },
		"erase":  func(ctx context.Context) error { _, err := b.Erase(ctx, []string{"customer:1"}); return err },
		"prune": func(ctx context.Context) error {
			_, err := b.Prune(ctx, lifecycle.Message, time.Now().Add(time.Hour), 10)
			return err
		},
		"register": func(ctx context.Context) error {
			return registry.Register(ctx, driver.Program{ID: driver.ID(t.Ref), Name: "web", Serves: []driver.Serves{{Profile: 2, Kind: "mail"}}})
		},
		"insert": owned(func(ctx context.Context, tx driver.Tx) error {
			return tx.Insert(ctx, messages(25, func(n *driver.New) { n.Subject = "customer:2" }))
		}),
		"run": owned(func(ctx context.Context, tx driver.Tx) error {
			run := driver.Run{ID: driver.NewID(), Operation: "triage", Actor: "staff:7", Tenant: "tenant:1"}
			if err := tx.OpenRun(ctx, run); err != nil {
				return err
			}
			run.SecurityVersion, run.Target, run.TargetVersion = "1", "ticket:1", "2"
			return tx.SealRun(ctx, run)
		}),
	}
}

// takeAway lets the lease of ref be over, a settle margin ago, and gives it to another
// owner, who starts it.
func takeAway(t testing.TB, b driver.Bound[*sql.Tx], ref driver.ID) {
	t.Helper()
	raw, tx, err := b.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Exec("UPDATE consign_delivery SET lease_until = lease_until - ? WHERE ref = ?", time.Hour.Microseconds(), ref[:]); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := asking(1)
	r.Refs = []driver.ID{ref}
	if got := claim(t, b, r); len(got) != 1 || !got[0].State.Uncertain {
		t.Fatalf("claimed %+v", got)
	}
	apply(t, b, lifecycle.EvStart, ref)
}

// deliveries returns the row of ref, byte for byte.
func deliveries(t testing.TB, b driver.Bound[*sql.Tx], ref driver.ID) (text string) {
	t.Helper()
	err := b.View(t.Context(), func(tx *sql.Tx) error {
		row := make([]any, 33)
		into := make([]any, len(row))
		for i := range row {
			into[i] = &row[i]
		}
		err := tx.QueryRow(`SELECT d.*, d.rowid FROM consign_delivery d WHERE ref = ?`, ref[:]).Scan(into...)
		text = fmt.Sprint(row)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}
