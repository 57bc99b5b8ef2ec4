package drivertest

import (
	"errors"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

func conflictTests[TX any]() []test[TX] {
	return []test[TX]{
		{"on each part of the content", "the same ref with other content is a conflict, never a reset", conflictsOnEach[TX]},
		{"leaves none of a bulk", "a bulk writes all its rows or none, and the transaction goes on", conflictInBulk[TX]},
		{"inside one transaction", "a transaction conflicts with itself too", conflictInside[TX]},
		{"after an erasure", "creating an erased ref again is a conflict", conflictErased[TX]},
		{"between two writers", "two transactions that insert one ref meet in the database", conflictRaced[TX]},
	}
}

// contents are the parts of a message that a repeat has to give again.
var contents = map[string]func(*driver.New){
	"channel": func(n *driver.New) { n.Kind = "sms" },
	"address": func(n *driver.New) { n.Address = "other@example.org" },
	"payload": func(n *driver.New) { n.Payload = []byte(`{"other":true}`) },
	"task":    func(n *driver.New) { n.Task = "order 8" },
	"no task": func(n *driver.New) { n.Task = "" },
	"index":   func(n *driver.New) { n.Index = 4 },
	"subject": func(n *driver.New) { n.Subject = "customer:2" },
	"nobody":  func(n *driver.New) { n.Subject = "" },
}

// wantConflict checks that err is a conflict of row index, and says nothing of the
// content.
func (b *bench[TX]) wantConflict(err error, index int, what string) {
	b.t.Helper()
	var conflict *driver.ConflictError
	b.that(errors.As(err, &conflict), "%s: %v, want a conflict", what, err)
	b.that(conflict.Index == index, "%s: conflict of row %d, want %d", what, conflict.Index, index)
}

func conflictsOnEach[TX any](b *bench[TX]) {
	m := b.message("mail", task("order 7", 3), about("customer:1"))
	b.add(m)
	before := b.everything()
	for what, change := range contents {
		other := m
		change(&other)
		b.wantConflict(b.tryInsert(other), 0, what)
	}
	b.that(b.everything() == before, "a conflict changed rows")
	b.insert(m)
}

func conflictInBulk[TX any](b *bench[TX]) {
	m := b.message("mail")
	b.add(m)
	other := m
	other.Address = "other@example.org"
	_, tx := b.begin()
	first, last := b.message("mail"), b.message("mail")
	b.ok("insert", tx.Insert(b.ctx, []driver.New{first}))
	err := tx.Insert(b.ctx, []driver.New{b.message("mail"), b.work("triaged"), other, b.message("mail")})
	b.wantConflict(err, 2, "bulk")
	b.ok("insert after the conflict", tx.Insert(b.ctx, []driver.New{last}))
	b.ok("commit", tx.Commit(b.ctx))
	b.that(b.count("intent") == 3 && b.count("delivery") == 3, "%d intents, want the three outside the bulk", b.count("intent"))
	b.record(first.Ref)
	b.record(last.Ref)
}

func conflictInside[TX any](b *bench[TX]) {
	m := b.message("mail")
	other := m
	other.Payload = []byte(`{"other":true}`)
	_, tx := b.begin()
	b.wantConflict(tx.Insert(b.ctx, []driver.New{m, other}), 1, "in one call")
	b.ok("insert", tx.Insert(b.ctx, []driver.New{m}))
	b.wantConflict(tx.Insert(b.ctx, []driver.New{other}), 0, "in two calls")
	b.ok("commit", tx.Commit(b.ctx))
	b.that(string(b.record(m.Ref).Intent.Payload) == string(m.Payload), "the second content won")
}

func conflictErased[TX any](b *bench[TX]) {
	m := b.message("mail", about("customer:1"))
	b.add(m)
	_, err := b.Bound.Erase(b.ctx, []string{"customer:1"})
	b.ok("erase", err)
	before := b.everything()
	b.wantConflict(b.tryInsert(m), 0, "erased")
	b.that(b.everything() == before, "a conflict with a tombstone changed rows")
}

func conflictRaced[TX any](b *bench[TX]) {
	for _, c := range []struct {
		what        string
		same        bool
		commits     bool
		wantFault   bool
		wantPayload int // whose payload is there in the end
	}{
		{"identical, first commits", true, true, false, 1},
		{"identical, first rolls back", true, false, false, 2},
		{"different, first commits", false, true, true, 1},
		{"different, first rolls back", false, false, false, 2},
	} {
		m := b.message("mail")
		second := m
		if !c.same {
			second.Payload = []byte(`{"second":true}`)
		}
		_, tx := b.begin()
		b.ok("insert", tx.Insert(b.ctx, []driver.New{m}))
		met := make(chan error, 1)
		go func() { met <- b.tryInsert(second) }()
		b.untilBlocked()
		if c.commits {
			b.ok("commit", tx.Commit(b.ctx))
		} else {
			b.ok("rollback", tx.Rollback(b.ctx))
		}
		err := <-met
		if c.wantFault {
			b.wantConflict(err, 0, c.what)
		} else {
			b.ok(c.what, err)
		}
		want := m.Payload
		if c.wantPayload == 2 {
			want = second.Payload
		}
		r := b.record(m.Ref)
		b.that(string(r.Intent.Payload) == string(want), "%s: stored %s, want %s", c.what, r.Intent.Payload, want)
		b.that(r.State.Status == lifecycle.Pending && r.State.Revision == 0, "%s: the delivery was touched", c.what)
	}
}

// untilBlocked returns once a call waits for a lock, on stores that can tell.
func (b *bench[TX]) untilBlocked() {
	b.t.Helper()
	if b.Blocked == nil {
		return
	}
	for {
		n, err := b.Blocked(b.ctx)
		b.ok("blocked", err)
		if n > 0 {
			return
		}
		time.Sleep(time.Millisecond) // asked again, not hoped for: the context ends it
	}
}
