package drivertest

import (
	"slices"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

func gateTests[TX any]() []test[TX] {
	return []test[TX]{
		{"closed by a pending lower index", "a lower index goes first, also while it is not due", gatePending[TX]},
		{"closed by a leased lower index", "a lower index that may yet start goes first, also after its lease", gateLeased[TX]},
		{"closed while a lower index is delivered", "order is kept until the lease is over", gateDelivering[TX]},
		{"closed while a lower index may be started again", "T2c and a late refusal come first", gateReclaimable[TX]},
		{"opened by an end, and stays open", "failed, delivered and stopped siblings hold nobody back", gateEnds[TX]},
		{"opened by a stranded lower index", "a stranded sibling holds nobody back", gateStranded[TX]},
		{"one claim takes one of a task", "a claim does not overtake itself", gateInOneClaim[TX]},
		{"knows nothing but the task", "equal and higher indexes, other tasks and no task are free", gateElsewhere[TX]},
		{"not for redelivered and reissued", "what is sent again has no gate and is none", gateNotForSuccessors[TX]},
		{"not closed by the uncommitted", "an uncommitted lower index is not waited for", gateUncommitted[TX]},
		{"closes again for a late lower index", "order is among committed intents", gateLate[TX]},
	}
}

// pair inserts index 0 and 1 of a task, index 0 under c.
func (b *bench[TX]) pair(c lifecycle.Contract) (low, high driver.ID) {
	b.t.Helper()
	name := driver.NewID().String()
	refs := b.insert(b.message("mail", task(name, 1)), b.message("mail", task(name, 0), under(c)))
	return refs[1], refs[0]
}

// gate checks whether the gate of ref is open, for a claim and in a record.
func (b *bench[TX]) gate(ref driver.ID, open bool, when string) {
	b.t.Helper()
	b.that(b.claimable(ref) == open, "%s: claimable is %v, want %v", when, !open, open)
	b.that(b.record(ref).State.GateOpen == open, "%s: the record's gate is open: %v, want %v", when, !open, open)
}

func gatePending[TX any](b *bench[TX]) {
	low, high := b.pair(scheduled)
	b.gate(high, false, "lower index pending")
	b.gate(low, true, "lowest index")
	b.inState(low, lifecycle.EvUndecided, time.Hour)
	b.gate(high, false, "lower index waits for its due time")
	b.shift(25 * time.Hour)
	b.that(b.record(low).State.DeadlineLeft <= 0 && !b.record(high).State.GateOpen, "a passed deadline ends nothing by itself")
}

// inState claims ref and lets event happen with a wait.
func (b *bench[TX]) inState(ref driver.ID, k lifecycle.EventKind, wait time.Duration) {
	b.t.Helper()
	b.take(ref)
	b.apply(ref, lifecycle.Event{Kind: k, Wait: wait})
}

func gateLeased[TX any](b *bench[TX]) {
	low, high := b.pair(looped)
	b.take(low)
	b.gate(high, false, "lower index leased")
	b.shift(lease + policy.SettleMargin + time.Minute)
	b.gate(high, false, "lower index leased, lease over")
	b.take(low)
	b.gate(high, false, "lower index leased again")
}

func gateDelivering[TX any](b *bench[TX]) {
	for _, c := range []lifecycle.Contract{scheduled, with(scheduled, once), looped} {
		low, high := b.pair(c)
		b.take(low)
		b.apply(low, is(lifecycle.EvStart))
		b.gate(high, false, "lower index in flight")
		if c == looped {
			b.apply(low, is(lifecycle.EvRefused))
			b.gate(high, false, "lower index waits in its loop")
		}
		b.shift(lease - time.Minute)
		b.gate(high, false, "lower index in flight, lease nearly over")
	}
}

func gateReclaimable[TX any](b *bench[TX]) {
	low, high := b.pair(scheduled)
	b.take(low)
	b.apply(low, is(lifecycle.EvStart))
	b.shift(lease + policy.SettleMargin - time.Minute)
	b.gate(high, false, "within the settle margin")
	b.shift(2 * time.Minute)
	b.gate(high, false, "behind the settle margin")
	b.take(low)
	b.gate(high, false, "claimed again")

	low, high = b.pair(with(scheduled, func(c *lifecycle.Contract) { c.MaxAttempts = 1 }))
	b.take(low)
	b.apply(low, is(lifecycle.EvStart))
	b.shift(lease + time.Minute)
	b.gate(high, true, "no attempt left to reclaim")

	low, high = b.pair(with(scheduled, once))
	b.take(low)
	b.apply(low, is(lifecycle.EvStart))
	b.shift(lease + time.Minute)
	b.gate(high, false, "its owner may still write that it was refused")
	b.apply(low, is(lifecycle.EvRefused))
	b.gate(high, false, "so it did")

	low, high = b.pair(with(scheduled, once))
	b.take(low)
	b.apply(low, is(lifecycle.EvStart))
	b.shift(lease + policy.SettleMargin + time.Minute)
	b.gate(high, false, "nobody has ended it yet")
	b.apply(low, is(lifecycle.EvSweep))
	b.gate(high, true, "not idempotent, so never reclaimed")

	low, high = b.pair(with(scheduled, func(c *lifecycle.Contract) { c.MaxAge = 5 * time.Minute }))
	b.take(low)
	b.apply(low, is(lifecycle.EvStart))
	b.shift(lease + time.Minute)
	b.gate(high, true, "past the deadline, so never reclaimed")
}

func gateEnds[TX any](b *bench[TX]) {
	for _, end := range []lifecycle.EventKind{lifecycle.EvSucceeded, lifecycle.EvRejected, lifecycle.EvUnknown} {
		low, high := b.pair(with(scheduled, once))
		b.take(low)
		b.apply(low, is(lifecycle.EvStart))
		b.apply(low, is(end))
		b.gate(high, true, end.String())
	}
	low, high := b.pair(scheduled)
	b.apply(low, is(lifecycle.EvCancel))
	b.gate(high, true, "cancelled")
	if low, high = b.pair(scheduled); b.record(low).State.Status == lifecycle.Pending {
		b.shift(25 * time.Hour)
		b.apply(low, is(lifecycle.EvSweep))
		b.that(b.record(high).State.GateOpen, "swept: the gate is closed")
	}
}

func gateStranded[TX any](b *bench[TX]) {
	low, high := b.pair(looped)
	b.take(low)
	b.apply(low, is(lifecycle.EvStart))
	b.shift(lease + time.Minute)
	b.gate(high, true, "stranded")
	b.apply(low, is(lifecycle.EvResolved))
	b.gate(high, true, "stranded and resolved")
}

func gateInOneClaim[TX any](b *bench[TX]) {
	rows := []driver.New{b.message("mail", task("a", 2)), b.message("mail", task("a", 1)), b.message("mail", task("a", 0)), b.message("mail")}
	refs := b.insert(rows...)
	got := refsOf(b.claim(request(9, "m:mail")))
	b.that(len(got) == 2 && slices.Contains(got, refs[2]) && slices.Contains(got, refs[3]), "claimed %v of %v", got, refs)
	b.that(len(b.claim(request(9, "m:mail"))) == 0, "claimed past a leased index")
	b.apply(refs[2], is(lifecycle.EvStart))
	b.apply(refs[2], is(lifecycle.EvSucceeded))
	got = refsOf(b.claim(request(9, "m:mail")))
	b.that(slices.Equal(got, refs[1:2]), "claimed %v of %v", got, refs)
}

func gateElsewhere[TX any](b *bench[TX]) {
	refs := b.insert(
		b.message("mail", task("a", 1)), b.message("sms", task("a", 1)), b.message("mail", task("b", 7)),
		b.message("mail"), b.message("mail", func(n *driver.New) { n.Index = 5 }), b.message("mail", task("a", 2)),
	)
	for i, ref := range refs {
		b.gate(ref, i < 5, []string{"equal index", "equal index of another channel", "another task", "no task", "no task, an index", "a higher index"}[i])
	}
	b.add(b.message("fax", task("a", -3)))
	for _, ref := range refs[:2] {
		b.gate(ref, false, "a lower index of another channel")
	}
}

func gateNotForSuccessors[TX any](b *bench[TX]) {
	low, high := b.pair(scheduled)
	b.apply(high, is(lifecycle.EvCancel))
	name := b.record(high).Intent.Task
	again := b.add(b.message("mail", task(name, 1), successor(high, driver.Redelivery)))
	b.gate(again, true, "redelivered, lower index pending")
	b.apply(again, is(lifecycle.EvCancel))
	fresh := b.add(b.message("mail", task(name, 1), successor(again, driver.Reissue)))
	b.gate(fresh, true, "reissued, lower index pending")
	b.apply(low, is(lifecycle.EvCancel))
	b.add(b.message("mail", task(name, 0), successor(low, driver.Reissue)))
	next := b.add(b.message("mail", task(name, 2)))
	b.gate(next, true, "lower indexes are reissued ones")
}

func gateUncommitted[TX any](b *bench[TX]) {
	high := b.add(b.message("mail", task("a", 1)))
	_, tx := b.begin()
	b.ok("insert", tx.Insert(b.ctx, []driver.New{b.message("mail", task("a", 0))}))
	if b.ConcurrentWriters {
		b.take(high)
	} else if b.ConcurrentReads {
		b.gate(high, true, "lower index uncommitted")
	}
	b.ok("rollback", tx.Rollback(b.ctx))
}

func gateLate[TX any](b *bench[TX]) {
	refs := b.insert(b.message("mail", task("a", 1)), b.message("mail", task("a", 1)))
	b.take(refs[0])
	low := b.add(b.message("mail", task("a", 0)))
	b.gate(refs[1], false, "a lower index came later")
	b.apply(refs[0], is(lifecycle.EvStart))
	b.take(low)
}
