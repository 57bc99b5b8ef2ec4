package drivertest

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

func insertTests[TX any]() []test[TX] {
	return []test[TX]{
		{"commits with the caller's transaction", "an intent commits with the domain row", commitsTogether[TX]},
		{"rolls back with the caller's transaction", "a rolled-back transaction leaves no row", rollsBackTogether[TX]},
		{"joins a transaction of the caller", "the caller's own transaction type is joined", joinsCaller[TX]},
		{"starts pending at generation 0", "creation gives pending, nothing counted, one time for all", startsPending[TX]},
		{"reads back what was stored", "content is data, byte for byte", readsBack[TX]},
		{"takes many rows at once", "a bulk writes all its rows", takesMany[TX]},
		{"repeats leave everything as it is", "the same ref with the same content is the same intent", repeats[TX]},
		{"not-before sets the first due time", "due times and deadlines are set on the database clock", notBeforeDelays[TX]},
		{"an unclaimed contract stays open", "a channel unknown to the creator is filled in at the first claim", unclaimedStaysOpen[TX]},
		{"a redelivery carries over", "a redelivery keeps key, digest and mark", redeliveryCarriesOver[TX]},
		{"an intent has one successor", "only the end of a chain can be sent again", oneSuccessor[TX]},
		{"a work key is taken once in its run", "a work key is unique within its run: its ref says both", keyTaken[TX]},
		{"a closed transaction is refused", "enqueue into a finished transaction writes nothing", closedRefused[TX]},
		{"a savepoint undoes its part", "a failed join undoes itself alone", savepoints[TX]},
		{"says its schema", "a program checks the schema before it writes", saysSchema[TX]},
	}
}

func commitsTogether[TX any](b *bench[TX]) {
	raw, tx := b.begin()
	b.ok("write", b.Write(b.ctx, raw, "order"))
	m, w := b.message("mail"), b.work("triaged")
	b.ok("insert", tx.Insert(b.ctx, []driver.New{m, w}))
	if b.ConcurrentReads {
		seen, err := b.Bound.Load(b.ctx, []driver.ID{m.Ref, w.Ref})
		b.ok("load", err)
		b.that(len(seen) == 0, "%d uncommitted rows are visible to others", len(seen))
		due, err := b.Bound.Due(b.ctx, request(9, m.Route(), w.Route()))
		b.ok("due", err)
		b.that(len(due) == 0, "%d uncommitted rows are due", len(due))
	}
	if b.ConcurrentWriters {
		got := b.claim(request(9, m.Route(), w.Route()))
		b.that(len(got) == 0, "%d uncommitted rows were claimed", len(got))
	}
	b.ok("commit", tx.Commit(b.ctx))
	b.that(b.reads("order"), "the domain row is not there after the commit")
	b.that(b.claimable(m.Ref) && b.claimable(w.Ref), "the committed intents cannot be claimed")
}

// reads reports whether the caller's row key is committed.
func (b *bench[TX]) reads(key string) (there bool) {
	b.t.Helper()
	b.ok("view", b.Bound.View(b.ctx, func(tx TX) (err error) {
		there, err = b.Read(b.ctx, tx, key)
		return err
	}))
	return there
}

func rollsBackTogether[TX any](b *bench[TX]) {
	before := b.everything()
	raw, tx := b.begin()
	b.ok("write", b.Write(b.ctx, raw, "order"))
	run := driver.Run{ID: driver.NewID(), Operation: "triage", Actor: "staff:7", Tenant: "tenant:1"}
	b.ok("open run", tx.OpenRun(b.ctx, run))
	b.ok("insert", tx.Insert(b.ctx, []driver.New{b.message("mail"), b.work("triaged")}))
	run.SecurityVersion, run.Target, run.TargetVersion = "v3", "ticket:9", "4"
	b.ok("seal run", tx.SealRun(b.ctx, run))
	b.ok("rollback", tx.Rollback(b.ctx))
	b.that(!b.reads("order"), "the domain row is there after the rollback")
	b.that(b.everything() == before, "rows are left after the rollback")
}

func joinsCaller[TX any](b *bench[TX]) {
	raw, own := b.begin()
	m := b.message("mail")
	b.ok("insert", b.Bound.Join(raw).Insert(b.ctx, []driver.New{m}))
	b.ok("insert nothing", b.Bound.Join(raw).Insert(b.ctx, nil))
	b.ok("commit", own.Commit(b.ctx))
	b.record(m.Ref)
}

func startsPending[TX any](b *bench[TX]) {
	for _, n := range []driver.New{b.message("mail"), b.work("triaged")} {
		b.add(n)
		r := b.record(n.Ref)
		want := lifecycle.State{
			Profile: n.Profile, Contract: n.Contract, Status: lifecycle.Pending, GateOpen: true,
			DueIn: r.State.DueIn, DeadlineLeft: r.State.DeadlineLeft,
		}
		b.that(r.State == want, "state is %+v, want %+v", r.State, want)
		b.that(r.State.DueIn <= 0 && r.State.DeadlineLeft > 0, "due in %s, deadline in %s", r.State.DueIn, r.State.DeadlineLeft)
		b.that(r.LastError == "" && r.Program == "" && r.StartedAt.IsZero() && r.LeaseUntil.IsZero() &&
			r.ReviewAt.IsZero() && r.ErasedAt.IsZero(), "record is not fresh: %+v", r)
		b.that(r.UpdatedAt.Equal(r.Intent.CreatedAt) && r.DueAt.Equal(r.Intent.CreatedAt),
			"created %s, updated %s, due %s, want one time", r.Intent.CreatedAt, r.UpdatedAt, r.DueAt)
		b.that(r.Deadline.Equal(r.DueAt.Add(24*time.Hour)), "deadline %s is not 24 h after %s", r.Deadline, r.DueAt)
	}
}

func readsBack[TX any](b *bench[TX]) {
	all := func(n *driver.New) {
		n.Payload = []byte(`{"a":"ü 漢 \u0001 \\ ' \" \r\n","status":3}`)
		n.Subject, n.Trace = "customer:ä", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	}
	m := b.message("mail", all, task("order 7's", math.MaxInt32))
	w := b.work("triaged", all)
	bare := b.message("mail", func(n *driver.New) { n.Address = "" })
	for _, n := range []driver.New{m, w, bare} {
		b.add(n)
		stored := b.record(n.Ref).Intent
		given := n.Intent
		given.CreatedAt = stored.CreatedAt
		b.that(!stored.CreatedAt.IsZero(), "no creation time")
		b.that(reflect.DeepEqual(stored, given), "loaded %+v, want %+v", stored, given)
		claimed := b.take(n.Ref).Intent
		b.that(claimed.CreatedAt.Equal(stored.CreatedAt), "a claim shows another creation time")
		claimed.CreatedAt = given.CreatedAt
		b.that(reflect.DeepEqual(claimed, given), "claimed %+v, want %+v", claimed, given)
	}
}

func takesMany[TX any](b *bench[TX]) {
	rows := make([]driver.New, 0, 700)
	for i := range cap(rows) {
		if i%2 == 0 {
			rows = append(rows, b.message("mail", func(n *driver.New) { n.Given = i%4 == 0 }))
		} else {
			rows = append(rows, b.work("triaged"))
		}
	}
	refs := b.insert(rows...)
	records, err := b.Bound.Load(b.ctx, refs)
	b.ok("load", err)
	b.that(len(records) == len(rows), "%d of %d rows are there", len(records), len(rows))
	stored := map[driver.ID]string{}
	for _, r := range records {
		stored[r.Intent.Ref] = string(r.Intent.Payload)
	}
	for _, n := range rows {
		b.that(stored[n.Ref] == string(n.Payload), "payloads are mixed up")
	}
}

func repeats[TX any](b *bench[TX]) {
	m := b.message("mail", task("order 7", 0), about("customer:1"))
	again := m
	_, tx := b.begin()
	b.ok("insert, twice in one call", tx.Insert(b.ctx, []driver.New{m, again}))
	b.ok("insert, again in the transaction", tx.Insert(b.ctx, []driver.New{again}))
	b.ok("commit", tx.Commit(b.ctx))
	b.that(b.count("intent") == 1 && b.count("delivery") == 1, "%d intents", b.count("intent"))
	b.take(m.Ref)
	b.apply(m.Ref, is(lifecycle.EvStart))
	before := b.deliveryOf(m.Ref) + b.rawOf("intent", m.Ref)
	again.NotBefore, again.Contract = time.Now().Add(time.Hour), looped // not content either
	b.insert(b.message("mail"), again)
	b.that(b.deliveryOf(m.Ref)+b.rawOf("intent", m.Ref) == before, "a repeat changed the delivery")
}

func notBeforeDelays[TX any](b *bench[TX]) {
	now, err := b.Bound.Now(b.ctx)
	b.ok("now", err)
	later := now.Add(time.Hour).Truncate(time.Second)
	delayed := b.add(b.message("mail", notBefore(later)))
	past := b.add(b.message("mail", notBefore(now.Add(-time.Hour))))
	r := b.record(delayed)
	b.that(r.DueAt.Equal(later), "due at %s, want %s", r.DueAt, later)
	b.that(r.Deadline.Equal(later.Add(24*time.Hour)), "deadline %s does not count from the first due time", r.Deadline)
	b.that(!b.claimable(delayed), "claimable before its time")
	b.that(!b.record(past).DueAt.Before(now), "a time in the past is not now")
	b.that(b.claimable(past), "not claimable with a time in the past")
	b.shift(61 * time.Minute)
	b.that(b.claimable(delayed), "not claimable at its time")
}

func unclaimedStaysOpen[TX any](b *bench[TX]) {
	ref := b.add(b.message("mail", under(lifecycle.Contract{})))
	r := b.record(ref)
	b.that(r.State.Contract == lifecycle.Contract{}, "contract is %+v, want none", r.State.Contract)
	b.that(r.Deadline.IsZero() && r.State.DeadlineLeft == lifecycle.Never, "deadline %s without a contract", r.Deadline)
	ref = b.add(b.message("mail", under(with(scheduled, func(c *lifecycle.Contract) { c.MaxAge = 0 }))))
	b.that(b.record(ref).State.DeadlineLeft == lifecycle.Never, "a deadline without a maximum age")
}

// successor makes n follow an earlier intent.
func successor(of driver.ID, link driver.Link) func(*driver.New) {
	return func(n *driver.New) {
		n.Predecessor, n.Link, n.Given = of, link, false
		if link == driver.Redelivery {
			n.Key = of
		}
	}
}

func redeliveryCarriesOver[TX any](b *bench[TX]) {
	first := b.add(b.message("mail"))
	n := b.message("mail", successor(first, driver.Redelivery), func(n *driver.New) { n.Bound, n.Uncertain = digest, true })
	b.add(n)
	r := b.record(n.Ref)
	b.that(r.Intent.Key == first && r.Intent.Predecessor == first && r.Intent.Link == driver.Redelivery, "link is %+v", r.Intent)
	b.that(r.State.Digest == digest && r.State.Uncertain && r.State.Attempts == 0, "state is %+v", r.State)
	reissue := b.message("mail", successor(n.Ref, driver.Reissue))
	b.add(reissue)
	r = b.record(reissue.Ref)
	b.that(r.Intent.Key == reissue.Ref && r.State.Digest == (lifecycle.Digest{}) && !r.State.Uncertain, "a reissue is %+v", r)
}

func oneSuccessor[TX any](b *bench[TX]) {
	first := b.add(b.message("mail"))
	b.add(b.message("mail", successor(first, driver.Reissue)))
	before := b.everything()
	err := b.tryInsert(b.message("mail", successor(first, driver.Redelivery)))
	b.that(err != nil, "a second successor was accepted")
	b.that(b.everything() == before, "a refused successor left rows")
}

func keyTaken[TX any](b *bench[TX]) {
	run := driver.NewID()
	first := b.work("triaged", inRun(run, "notice"))
	b.insert(first, b.work("triaged", inRun(run, "other")), b.work("triaged"))
	before := b.everything()
	err := b.tryInsert(b.work("triaged", inRun(run, "third")), b.work("triaged", inRun(run, "notice")))
	b.that(errors.Is(err, driver.ErrTaken), "a taken key gives %v", err)
	err = b.tryInsert(b.work("triaged", inRun(run, "twice")), b.work("closed", inRun(run, "twice")))
	b.that(errors.Is(err, driver.ErrTaken), "a key taken in the same call gives %v", err)
	b.that(b.everything() == before, "a taken key left rows")
	b.add(b.work("triaged", func(n *driver.New) { n.Run, n.WorkKey = run, "notice" }, successor(first.Ref, driver.Redelivery)))
}

func closedRefused[TX any](b *bench[TX]) {
	before := b.everything()
	for _, end := range []string{"commit", "rollback"} {
		raw, tx := b.begin()
		if end == "commit" {
			b.ok(end, tx.Commit(b.ctx))
		} else {
			b.ok(end, tx.Rollback(b.ctx))
		}
		run := driver.Run{ID: driver.NewID(), Operation: "triage", Actor: "a:1", Tenant: "t:1"}
		for _, tx := range []driver.Tx{tx, b.Bound.Join(raw)} {
			_, schema := tx.Schema(b.ctx)
			_, savepoint := tx.Savepoint(b.ctx)
			_, _, lock := tx.LockApproval(b.ctx, run.ID)
			_, decide := tx.Decide(b.ctx, driver.Decision{Approval: run.ID, Status: driver.ApprovalConfirmed, By: "a:1"})
			for what, err := range map[string]error{
				"insert": tx.Insert(b.ctx, []driver.New{b.message("mail")}), "open run": tx.OpenRun(b.ctx, run),
				"seal run": tx.SealRun(b.ctx, run), "schema": schema, "savepoint": savepoint, "commit": tx.Commit(b.ctx),
				"propose": tx.Propose(b.ctx, proposal(), ttl), "lock approval": lock, "decide": decide,
				"consume": tx.Consume(b.ctx, run.ID, run.ID),
			} {
				b.that(errors.Is(err, driver.ErrClosed), "%s after %s: %v, want ErrClosed", what, end, err)
			}
		}
		err := b.Bound.ViewIn(b.ctx, raw, func(TX) error { return nil })
		b.that(errors.Is(err, driver.ErrClosed), "view in a closed transaction: %v, want ErrClosed", err)
	}
	b.that(b.everything() == before, "a closed transaction left rows")
}

func savepoints[TX any](b *bench[TX]) {
	raw, tx := b.begin()
	var rows []driver.New
	for range 5 {
		rows = append(rows, b.message("mail"))
	}
	insert := func(i int) { b.ok("insert", tx.Insert(b.ctx, rows[i:i+1])) }
	insert(0)
	point, err := tx.Savepoint(b.ctx)
	b.ok("savepoint", err)
	insert(1)
	b.ok("write", b.Write(b.ctx, raw, "undone"))
	b.ok("savepoint rollback", point.Rollback(b.ctx))
	insert(2)
	point, err = tx.Savepoint(b.ctx)
	b.ok("savepoint", err)
	insert(3)
	b.ok("write", b.Write(b.ctx, raw, "kept"))
	b.ok("savepoint release", point.Release(b.ctx))
	point, err = tx.Savepoint(b.ctx)
	b.ok("savepoint", err)
	clash := rows[0]
	clash.Address = "other@example.org"
	var conflict *driver.ConflictError
	b.that(errors.As(tx.Insert(b.ctx, []driver.New{clash}), &conflict), "no conflict")
	b.ok("savepoint rollback", point.Rollback(b.ctx))
	insert(4)
	b.ok("commit", tx.Commit(b.ctx))
	var there []string
	for i, n := range rows {
		records, err := b.Bound.Load(b.ctx, []driver.ID{n.Ref})
		b.ok("load", err)
		if len(records) == 1 {
			there = append(there, fmt.Sprint(i))
		}
	}
	b.that(strings.Join(there, " ") == "0 2 3 4", "rows %v are there, want 0 2 3 4", there)
	b.that(b.reads("kept") && !b.reads("undone"), "the caller's rows do not follow the savepoint")
}

func saysSchema[TX any](b *bench[TX]) {
	_, tx := b.begin()
	schema, err := tx.Schema(b.ctx)
	b.ok("schema", err)
	b.that(schema.Version == driver.SchemaVersion && schema.Oldest >= 1 && schema.Oldest <= schema.Version,
		"schema is %+v, this program's is %d", schema, driver.SchemaVersion)
	b.ok("rollback", tx.Rollback(b.ctx))
}
