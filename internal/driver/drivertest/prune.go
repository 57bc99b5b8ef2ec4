package drivertest

import (
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

func pruneTests[TX any]() []test[TX] {
	return []test[TX]{
		{"only what has ended", "never pending, leased or delivering ones, never what waits in review", pruneOnlyEnded[TX]},
		{"strictly older", "a record created at the very time stays", pruneStrictly[TX]},
		{"in bounded batches, and counted", "each call removes at most its limit; the sum is kept", pruneBatches[TX]},
		{"with everything that hangs on it", "attempts and resolutions go with their intent, nobody else's do", pruneWhole[TX]},
		{"tombstones stay", "an erased ref can never be used again", pruneTombstones[TX]},
		{"a pruned ref is free", "what was pruned is as if it had never been", pruneFrees[TX]},
	}
}

func (b *bench[TX]) prune(p lifecycle.Profile, before time.Time, limit int) int {
	b.t.Helper()
	n, err := b.Bound.Prune(b.ctx, p, before, limit)
	b.ok("prune", err)
	return n
}

// clock reads the database clock.
func (b *bench[TX]) clock() time.Time {
	b.t.Helper()
	now, err := b.Bound.Now(b.ctx)
	b.ok("now", err)
	return now
}

func pruneOnlyEnded[TX any](b *bench[TX]) {
	long := with(scheduled, func(c *lifecycle.Contract) { c.MaxAge = 0 })
	b.insert(b.message("mail", under(long)), b.work("triaged", under(long)))
	leased := b.add(b.work("triaged", under(long)))
	b.take(leased)
	b.inFlight(b.message("mail", under(long)))
	b.inFlight(b.message("loop", under(looped))) // stranded
	review := b.inFlight(b.work("triaged"))
	b.apply(review, is(lifecycle.EvRejected))
	unsure := b.inFlight(b.message("mail", under(with(scheduled, once))))
	b.apply(unsure, is(lifecycle.EvUnknown))
	before := b.everything()
	later := b.clock().Add(time.Hour)
	for _, p := range []lifecycle.Profile{lifecycle.Work, lifecycle.Message} {
		b.that(b.prune(p, later, 100) == 0, "%s: pruned what is open or in review", p)
	}
	b.that(b.everything() == before, "rows changed")
	b.apply(review, is(lifecycle.EvResolved))
	b.apply(unsure, is(lifecycle.EvResolved))
	b.that(b.prune(lifecycle.Work, later, 100) == 1 && b.prune(lifecycle.Message, later, 100) == 1, "what left review is not pruned")
}

// ended inserts n messages that have succeeded.
func (b *bench[TX]) ended(n int, change ...func(*driver.New)) []driver.ID {
	b.t.Helper()
	var refs []driver.ID
	for range n {
		ref := b.inFlight(b.message("mail", change...))
		b.apply(ref, is(lifecycle.EvSucceeded))
		refs = append(refs, ref)
	}
	return refs
}

func pruneStrictly[TX any](b *bench[TX]) {
	refs := b.ended(1)
	b.shift(time.Hour)
	refs = append(refs, b.ended(1)...)
	created := b.record(refs[1]).Intent.CreatedAt // not shifted since
	b.that(b.prune(lifecycle.Message, created.Add(-2*time.Hour), 100) == 0, "pruned what is younger")
	b.that(b.prune(lifecycle.Work, created.Add(time.Hour), 100) == 0, "pruned the other profile")
	b.that(b.prune(lifecycle.Message, created, 100) == 1, "want exactly the older one pruned")
	b.record(refs[1])
	b.that(b.prune(lifecycle.Message, created.Add(time.Second), 100) == 1, "want the other one pruned")
}

func pruneBatches[TX any](b *bench[TX]) {
	b.ended(5)
	cancelled := b.add(b.work("triaged"))
	b.apply(cancelled, is(lifecycle.EvCancel))
	later := b.clock().Add(time.Hour)
	b.that(b.prune(lifecycle.Message, later, 0) == 0, "a limit of none removes some")
	for i, want := range []int{2, 2, 1, 0} {
		got := b.prune(lifecycle.Message, later, 2)
		b.that(got == want, "batch %d removed %d, want %d", i, got, want)
	}
	b.that(b.prune(lifecycle.Work, later, 2) == 1, "work is not pruned")
	b.that(b.count("intent") == 0 && b.count("delivery") == 0, "rows are left")
	rows, err := b.Rows(b.ctx, "setting")
	b.ok("rows", err)
	sum := ""
	for _, row := range rows {
		if text, _ := b.format(asText, row["name"], time.Time{}, 0); text == `"pruned"` {
			sum, err = b.format(asText, row["value"], time.Time{}, 0)
			b.ok("value", err)
		}
	}
	b.that(sum == `"6"`, "the setting pruned is %s, want 6", sum)
}

func pruneWhole[TX any](b *bench[TX]) {
	fail := func(text string) driver.ID {
		ref := b.inFlight(b.message("mail"))
		b.apply(ref, lifecycle.Event{Kind: lifecycle.EvRejected, Error: text})
		b.ok("append", b.Bound.Append(b.ctx, []driver.Logged{late(ref, lifecycle.Unknown)}))
		b.ok("put", b.Put(b.ctx, "resolution", b.resolution(ref, "seen")))
		return ref
	}
	gone := fail("no")
	b.shift(time.Hour)
	kept := fail("no either")
	texts := []string{b.rawOf("attempt", kept), b.rawOf("resolution", kept), b.deliveryOf(kept), b.rawOf("intent", kept)}
	b.that(b.prune(lifecycle.Message, b.clock().Add(-30*time.Minute), 10) == 1, "wrong count")
	for i, table := range []string{"attempt", "resolution", "delivery", "intent"} {
		b.that(b.rawOf(table, gone) == "", "rows of %s are left", table)
		b.that(b.rawOf(table, kept) == texts[i], "rows of %s changed", table)
	}
}

func pruneTombstones[TX any](b *bench[TX]) {
	refs := b.ended(2, about("customer:1"))
	b.insert(b.message("mail", about("customer:1")))
	b.erase("customer:1")
	b.that(b.prune(lifecycle.Message, b.clock().Add(time.Hour), 10) == 0, "a tombstone was pruned")
	b.that(b.record(refs[0]).State.Erased, "the tombstone is gone")
}

func pruneFrees[TX any](b *bench[TX]) {
	m := b.message("mail", task("a", 0))
	ref := b.inFlight(m)
	b.apply(ref, is(lifecycle.EvSucceeded))
	b.that(b.prune(lifecycle.Message, b.clock().Add(time.Hour), 10) == 1, "wrong count")
	records, err := b.Bound.Load(b.ctx, []driver.ID{ref})
	b.that(err == nil && len(records) == 0 && len(b.history(ref)) == 0, "loaded %v, %v", records, err)
	b.add(m)
	b.that(b.record(ref).State.Generation == 0, "a new intent starts with an old generation")
}
