package drivertest

import (
	"context"
	"errors"
	"fmt"

	"github.com/consign-go/consign/internal/driver"
)

func viewTests[TX any]() []test[TX] {
	return []test[TX]{
		{"sees what is committed", "a view reads the database as it is", viewSees[TX]},
		{"refuses writes", "a write through a view fails", viewRefuses[TX]},
		{"hands on the error of its function", "what the reader found out is not lost", viewErrors[TX]},
		{"in a transaction sees its writes", "a view inside a run reads what the run has changed", viewInSees[TX]},
		{"in a transaction refuses writes, then no more", "the transaction writes again when the view is over", viewInRefuses[TX]},
		{"in a transaction survives a failed write", "a write that a view refused leaves the transaction usable", viewInSurvives[TX]},
		{"in a transaction that ends inside is refused", "what ended the run's transaction does not pass for an answer", viewInEnds[TX]},
	}
}

func viewSees[TX any](b *bench[TX]) {
	raw, tx := b.begin()
	b.ok("write", b.Write(b.ctx, raw, "order"))
	if b.ConcurrentReads {
		b.that(!b.reads("order"), "an uncommitted row is seen")
	}
	b.ok("commit", tx.Commit(b.ctx))
	b.that(b.reads("order"), "a committed row is not seen")
	b.that(!b.reads("nothing"), "a row is seen that nobody wrote")
	b.ok("view", b.Bound.View(b.ctx, func(tx TX) error {
		schema, err := b.Bound.Join(tx).Schema(b.ctx)
		b.that(err == nil && schema.Version == driver.SchemaVersion, "schema in a view: %+v, %v", schema, err)
		if b.Now == nil {
			return nil
		}
		now, err := b.Harness.Now(b.ctx, tx)
		b.that(err == nil && near(now, b.clock()), "the clock in a view shows %s, %v", now, err)
		return nil
	}))
}

// writes lists every way to write through tx.
func (b *bench[TX]) writes(tx TX) map[string]func(context.Context) error {
	join := b.Bound.Join(tx)
	return map[string]func(context.Context) error{
		"a row of the caller": func(ctx context.Context) error { return b.Write(ctx, tx, "order") },
		"an intent": func(ctx context.Context) error {
			return join.Insert(ctx, []driver.New{b.message("mail"), b.work("triaged")})
		},
		"a proposal": func(ctx context.Context) error { return join.Propose(ctx, proposal(), ttl) },
		"a run": func(ctx context.Context) error {
			return join.OpenRun(ctx, driver.Run{ID: driver.NewID(), Operation: "triage", Actor: "staff:7", Tenant: "tenant:1"})
		},
	}
}

func viewRefuses[TX any](b *bench[TX]) {
	before := b.everything()
	var none TX
	for what := range b.writes(none) {
		err := b.Bound.View(b.ctx, func(tx TX) error {
			err := b.writes(tx)[what](b.ctx)
			b.that(err != nil, "%s was written through a view", what)
			return nil // a reader that swallows the error changes nothing either
		})
		if err != nil {
			b.t.Logf("a view in which %s was refused ends with: %v", what, err)
		}
	}
	b.that(b.everything() == before && !b.reads("order"), "a view has written")
	// The connection that the views used writes again.
	for range 8 {
		raw, tx := b.begin()
		b.ok("write", b.Write(b.ctx, raw, "order"))
		b.ok("rollback", tx.Rollback(b.ctx))
		b.insert(b.message("mail"))
	}
}

func viewErrors[TX any](b *bench[TX]) {
	fault := errors.New("fault")
	err := b.Bound.View(b.ctx, func(TX) error { return fault })
	b.that(errors.Is(err, fault), "view: %v", err)
	raw, tx := b.begin()
	err = b.Bound.ViewIn(b.ctx, raw, func(TX) error { return fault })
	b.that(errors.Is(err, fault), "view in a transaction: %v", err)
	b.ok("write", b.Write(b.ctx, raw, "order"))
	b.ok("commit", tx.Commit(b.ctx))
	b.that(b.reads("order"), "nothing was written after the fault")
}

func viewInSees[TX any](b *bench[TX]) {
	raw, tx := b.begin()
	b.ok("write", b.Write(b.ctx, raw, "order"))
	for range 2 {
		b.ok("view", b.Bound.ViewIn(b.ctx, raw, func(tx TX) error {
			there, err := b.Read(b.ctx, tx, "order")
			b.that(err != nil || there, "the transaction's own write is not seen")
			return err
		}))
	}
	b.ok("rollback", tx.Rollback(b.ctx))
}

func viewInRefuses[TX any](b *bench[TX]) {
	var none TX
	for what := range b.writes(none) {
		raw, tx := b.begin()
		m := b.message("mail")
		b.ok("insert", tx.Insert(b.ctx, []driver.New{m}))
		err := b.Bound.ViewIn(b.ctx, raw, func(tx TX) error { return b.writes(tx)[what](b.ctx) })
		b.that(err != nil, "%s was written through a view", what)
		b.ok("write after the view", b.Write(b.ctx, raw, fmt.Sprint("after ", what)))
		b.ok("commit", tx.Commit(b.ctx))
		b.record(m.Ref)
		b.that(b.reads(fmt.Sprint("after ", what)) && !b.reads("order"), "%s: wrong rows are there", what)
	}
	b.that(b.count("intent") == len(b.writes(none)) && b.count("run") == 0, "a view has written")
}

func viewInSurvives[TX any](b *bench[TX]) {
	raw, tx := b.begin()
	b.ok("write", b.Write(b.ctx, raw, "before"))
	err := b.Bound.ViewIn(b.ctx, raw, func(tx TX) error {
		b.that(b.Write(b.ctx, tx, "order") != nil, "written through a view")
		return nil // swallowed
	})
	if err != nil {
		b.t.Logf("a view in which a write was refused ends with: %v", err)
	}
	run := driver.Run{ID: driver.NewID(), Operation: "triage", Actor: "staff:7", Tenant: "tenant:1"}
	b.ok("open run after the view", tx.OpenRun(b.ctx, run))
	run.SecurityVersion, run.Target, run.TargetVersion = "v3", "ticket:9", "4"
	b.ok("seal run after the view", tx.SealRun(b.ctx, run))
	b.ok("commit", tx.Commit(b.ctx))
	b.that(b.reads("before") && !b.reads("order"), "wrong rows are there")
}

func viewInEnds[TX any](b *bench[TX]) {
	for _, end := range []func(driver.Tx) error{
		func(tx driver.Tx) error { return tx.Rollback(b.ctx) }, func(tx driver.Tx) error { return tx.Commit(b.ctx) },
	} {
		raw, tx := b.begin()
		err := b.Bound.ViewIn(b.ctx, raw, func(TX) error { return end(tx) })
		b.that(errors.Is(err, driver.ErrClosed), "the view ends with %v, want ErrClosed", err)
		raw, tx = b.begin()
		b.ok("write in the next transaction", b.Write(b.ctx, raw, "order"))
		b.ok("rollback", tx.Rollback(b.ctx))
	}
}
