package drivertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

func applyTests[TX any]() []test[TX] {
	tests := []test[TX]{
		{"every kind of transition is told", "the stories below miss no event", storiesMissNothing[TX]},
		{"a batch holds row by row", "one lost fence undoes nobody else's write", batchMixed[TX]},
		{"a batch of every kind", "what one row of a batch does not say is not taken from its neighbour", batchOfKinds[TX]},
		{"only answers that ask for it", "what is not to be applied changes nothing", onlyApplyAnswers[TX]},
		{"due times stop at the deadline", "a passing deadline is noticed in time", dueCapped[TX]},
		{"needs the lease on the database clock", "a start has to have room for its effect", needsLease[TX]},
		{"needs the deadline on the database clock", "nothing starts, and nothing is rescheduled, past its deadline", needsDeadline[TX]},
		{"a loop leaves the due list", "a started process-owned message is nobody else's, and is reviewed when its lease ends", loopLeavesDueList[TX]},
		{"a hand-driven claim is a start", "a message driven by hand is claimed and started in one write", handClaimStarts[TX]},
	}
	for _, s := range stories[TX]() {
		tests = append(tests, test[TX]{s.name, "each column becomes what lifecycle decided", s.tell})
	}
	return tests
}

func batchMixed[TX any](b *bench[TX]) {
	refs := b.insert(b.message("mail"), b.message("mail"), b.message("mail"), b.work("triaged"), b.message("mail"))
	var ts []lifecycle.Transition
	for _, ref := range refs {
		b.take(ref)
		ts = append(ts, b.decide(ref, is(lifecycle.EvStart)))
	}
	b.apply(refs[1], is(lifecycle.EvReleased)) // moved on meanwhile
	ts[2].Ref = driver.NewID()                 // gone
	ts = append(ts, lifecycle.Transition{Ref: refs[2], Answer: lifecycle.TooLate})
	untouched := b.deliveryOf(refs[1]) + b.deliveryOf(refs[2])
	held, err := b.Bound.Apply(b.ctx, ts)
	b.ok("apply", err)
	want := "[true false false true true false]"
	b.that(fmt.Sprint(held) == want, "held %v, want %s", held, want)
	b.that(b.deliveryOf(refs[1])+b.deliveryOf(refs[2]) == untouched, "a transition that did not hold changed a row")
	for _, i := range []int{0, 3, 4} {
		b.that(b.record(refs[i]).State.InFlight, "row %d did not start", i)
	}
	ts = nil
	for _, i := range []int{0, 3, 4} {
		ts = append(ts, b.decide(refs[i], lifecycle.Event{Kind: lifecycle.EvRefused, Wait: time.Minute, Error: fmt.Sprint("no ", i)}))
	}
	ts[1].Fence.Revision--
	held, err = b.Bound.Apply(b.ctx, ts)
	b.ok("apply", err)
	b.that(fmt.Sprint(held) == "[true false true]", "held %v", held)
	for _, i := range []int{0, 3, 4} {
		rows := 1
		if i == 3 {
			rows = 0
		}
		b.that(len(b.history(refs[i])) == rows, "row %d has %d log rows: a log row is written with its change or not at all", i, len(b.history(refs[i])))
	}
	held, err = b.Bound.Apply(b.ctx, nil)
	b.that(err == nil && len(held) == 0, "apply of nothing: %v, %v", held, err)
}

// batchOfKinds sends transitions of as many kinds as there are in one batch, each
// way round, and checks every column of every row.
func batchOfKinds[TX any](b *bench[TX]) {
	for round := range 2 {
		leased := func(n driver.New) driver.ID {
			ref := b.add(n)
			b.take(ref)
			return ref
		}
		again := b.inFlight(b.message("mail"))
		b.apply(again, lifecycle.Event{Kind: lifecycle.EvUnknown, Error: "before"})
		b.shift(time.Minute)
		b.take(again)
		steps := []struct {
			ref driver.ID
			e   lifecycle.Event
		}{
			{leased(b.message("mail")), is(lifecycle.EvStart)},
			{b.add(b.work("triaged")), is(lifecycle.EvCancel)},
			{b.inFlight(b.work("triaged")), lifecycle.Event{Kind: lifecycle.EvRefused, Wait: time.Hour, Error: "later", HTTPStatus: 503}},
			{leased(b.message("loop", under(looped))), is(lifecycle.EvStart)},
			{b.inFlight(b.message("mail")), is(lifecycle.EvSucceeded)},
			{leased(b.work("triaged")), lifecycle.Event{Kind: lifecycle.EvPanicked, Wait: time.Minute, Error: "panic"}},
			{again, is(lifecycle.EvStart)},
			{b.add(b.message("hand", under(lifecycle.Contract{}))), lifecycle.Event{Kind: lifecycle.EvHandClaim, Owner: token(), Contract: looped}},
			{leased(b.work("triaged")), lifecycle.Event{Kind: lifecycle.EvStopped, Code: lifecycle.RecordChanged, Error: "changed"}},
			{leased(b.message("mail")), is(lifecycle.EvReleased)},
			{b.add(b.message("mail", about("customer:1"))), is(lifecycle.EvErase)},
			{b.inFlight(b.work("triaged", under(with(scheduled, once)))), lifecycle.Event{Kind: lifecycle.EvUnknown, Error: "timeout"}},
		}
		if round == 1 {
			slices.Reverse(steps)
		}
		var ts []lifecycle.Transition
		var before []driver.Record
		for _, s := range steps {
			ts = append(ts, b.decide(s.ref, s.e))
			before = append(before, b.record(s.ref))
		}
		held, err := b.Bound.Apply(b.ctx, ts)
		b.ok("apply", err)
		for i, s := range steps {
			b.that(held[i], "%s did not hold in a batch", s.e.Kind)
			after := b.record(s.ref)
			if ts[i].Set.Erased && after.State.Digest != before[i].State.Digest {
				ts[i].Set.Digest = before[i].Intent.Digest // what a tombstone keeps instead
			}
			b.verify(before[i], ts[i], after)
			log := b.history(s.ref)
			if want := ts[i].Log; want != nil {
				b.that(len(log) > 0 && log[len(log)-1].Attempt == *want, "%s logged %+v, want %+v", s.e.Kind, log, *want)
			}
		}
	}
}

func onlyApplyAnswers[TX any](b *bench[TX]) {
	ref := b.add(b.message("mail"))
	b.take(ref)
	before := b.everything()
	for _, answer := range []lifecycle.Answer{lifecycle.Unchanged, lifecycle.Refuse, lifecycle.TooLate} {
		t := b.decide(ref, is(lifecycle.EvStart))
		t.Answer = answer
		t.Log = &lifecycle.Attempt{Generation: 1, Number: 1, Outcome: lifecycle.Unknown, Late: true}
		b.that(!b.compareAndSet(t), "%s was applied", answer)
	}
	b.that(b.everything() == before, "rows changed")
}

func dueCapped[TX any](b *bench[TX]) {
	ref := b.inFlight(b.message("mail", under(with(scheduled, func(c *lifecycle.Contract) { c.MaxAge = 2 * time.Hour }))))
	r := b.apply(ref, lifecycle.Event{Kind: lifecycle.EvRefused, Wait: 90 * time.Minute})
	b.that(r.DueAt.Before(r.Deadline), "due %s, deadline %s", r.DueAt, r.Deadline)
	b.shift(91 * time.Minute)
	b.take(ref)
	r = b.apply(ref, lifecycle.Event{Kind: lifecycle.EvUndecided, Wait: 90 * time.Minute})
	b.that(r.DueAt.Equal(r.Deadline), "due %s, want the deadline %s", r.DueAt, r.Deadline)
}

func needsLease[TX any](b *bench[TX]) {
	for _, again := range []bool{false, true} {
		ref := b.add(b.message("loop", under(looped)))
		b.take(ref)
		if again {
			b.apply(ref, is(lifecycle.EvStart))
			b.apply(ref, is(lifecycle.EvRefused))
		}
		late := b.decide(ref, is(lifecycle.EvStart))
		b.that(late.Require.LeaseLeft == looped.Timeout+policy.SettleMargin, "requires %s", late.Require.LeaseLeft)
		b.shift(lease - looped.Timeout - policy.SettleMargin + time.Minute)
		before := b.everything()
		b.that(!b.compareAndSet(late), "started without room for the effect")
		b.that(b.everything() == before, "rows changed")
		b.that(b.decide(ref, is(lifecycle.EvStart)).Answer == lifecycle.TooLate, "the state does not show how little is left")
	}
	ref := b.add(b.message("loop", under(looped)))
	b.take(ref)
	t := b.decide(ref, is(lifecycle.EvStart))
	b.shift(lease - looped.Timeout - policy.SettleMargin - time.Minute)
	b.that(b.compareAndSet(t), "refused with room for the effect")
	t = b.decide(ref, is(lifecycle.EvRefused))
	b.shift(lease)
	b.that(!b.compareAndSet(t), "a loop goes on after its lease")
	b.apply(ref, is(lifecycle.EvRefused))
	b.that(b.record(ref).State.Status == lifecycle.Failed, "a stranded message did not fail")
}

func needsDeadline[TX any](b *bench[TX]) {
	long := with(scheduled, func(c *lifecycle.Contract) { c.Lease = 48 * time.Hour })
	leased := b.add(b.work("triaged", under(long)))
	b.take(leased)
	undecided := b.add(b.work("triaged", under(long)))
	b.take(undecided)
	started := b.inFlight(b.work("triaged", under(long)))
	endless := b.add(b.work("triaged", under(with(long, func(c *lifecycle.Contract) { c.MaxAge = 0 }))))
	b.take(endless)
	ts := []lifecycle.Transition{
		b.decide(leased, is(lifecycle.EvStart)), b.decide(undecided, is(lifecycle.EvUndecided)), b.decide(started, is(lifecycle.EvRefused)),
		b.decide(endless, is(lifecycle.EvStart)),
	}
	b.shift(25 * time.Hour)
	held, err := b.Bound.Apply(b.ctx, ts)
	b.ok("apply", err)
	b.that(fmt.Sprint(held) == "[false false false true]", "past the deadline held %v", held)
	for i, e := range []lifecycle.EventKind{lifecycle.EvStart, lifecycle.EvUndecided, lifecycle.EvRefused} {
		r := b.apply(driver.ID(ts[i].Ref), is(e))
		b.that(r.State.Code == lifecycle.DeadlineExpired && r.State.Status == lifecycle.Cancelled, "%s: %s %s", e, r.State.Status, r.State.Code)
	}
}

func loopLeavesDueList[TX any](b *bench[TX]) {
	ref := b.inFlight(b.message("loop", under(looped)))
	r := b.record(ref)
	b.that(r.DueAt.IsZero(), "due at %s", r.DueAt)
	b.that(!r.ReviewAt.IsZero() && r.ReviewAt.Equal(r.LeaseUntil), "review at %s, lease until %s", r.ReviewAt, r.LeaseUntil)
	routes, err := b.Bound.Routes(b.ctx)
	b.ok("routes", err)
	b.that(len(routes) == 0, "routes %v", routes)
	b.shift(48 * time.Hour)
	found, _, err := b.Bound.Overdue(b.ctx, driver.OverdueRequest{})
	b.ok("overdue", err)
	b.that(len(found) == 0, "the sweep sees %d", len(found))
	s := b.record(ref).State
	b.that(s.Stranded(), "not stranded")
}

func handClaimStarts[TX any](b *bench[TX]) {
	ref := b.add(b.message("hand", under(lifecycle.Contract{})))
	r := b.apply(ref, lifecycle.Event{Kind: lifecycle.EvHandClaim, Owner: token(), Contract: looped})
	b.that(r.State.Status == lifecycle.Delivering && r.State.InFlight && r.State.Attempts == 0 && r.State.Generation == 1, "state is %+v", r.State)
	b.that(r.State.Contract.MaxAttempts == 0 && r.State.Contract.Retry == lifecycle.Process, "contract is %+v", r.State.Contract)
	b.that(r.DueAt.IsZero() && near(r.ReviewAt, r.LeaseUntil) && !r.StartedAt.IsZero(), "record is %+v", r)
	for range 5 {
		b.shift(time.Minute)
		r = b.apply(ref, lifecycle.Event{Kind: lifecycle.EvHandAttempt, Error: "busy"})
	}
	b.that(r.State.Attempts == 5 && r.LastError == "busy", "attempts %d, error %q", r.State.Attempts, r.LastError)
	b.that(b.apply(ref, is(lifecycle.EvHandAttempt)).LastError == "", "an attempt without an error leaves the old one")
	high := b.add(b.message("hand", task("a", 1)))
	b.add(b.message("hand", task("a", 0)))
	t := b.decide(high, lifecycle.Event{Kind: lifecycle.EvHandClaim, Owner: token(), Contract: looped})
	b.that(t.Answer == lifecycle.Unchanged, "a closed gate gives %s", t.Answer)
}
