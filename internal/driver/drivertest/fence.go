package drivertest

import (
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

func fenceTests[TX any]() []test[TX] {
	return []test[TX]{
		{"on each part of the fence", "a write that names another generation, revision, owner or status changes no byte", fenceParts[TX]},
		{"a former owner at every step", "a stale owner's writes are refused whatever they are", formerOwner[TX]},
		{"a cut-off write that arrives late", "a write applied after another one changes nothing", lateWrite[TX]},
		{"an ended delivery", "a terminal status never changes", endedStays[TX]},
		{"a deleted delivery", "nothing is written for what is gone", goneStays[TX]},
	}
}

func fenceParts[TX any](b *bench[TX]) {
	ref := b.inFlight(b.message("mail"))
	b.ok("append", b.Bound.Append(b.ctx, []driver.Logged{late(ref, lifecycle.Unknown)}))
	before := b.everything()
	for what, change := range map[string]func(f *lifecycle.Fence){
		"an older generation":   func(f *lifecycle.Fence) { f.Generation-- },
		"a newer generation":    func(f *lifecycle.Fence) { f.Generation++ },
		"an older revision":     func(f *lifecycle.Fence) { f.Revision-- },
		"a newer revision":      func(f *lifecycle.Fence) { f.Revision++ },
		"another owner":         func(f *lifecycle.Fence) { f.Owner = token() },
		"no owner":              func(f *lifecycle.Fence) { f.Owner = lifecycle.Token{} },
		"the status before":     func(f *lifecycle.Fence) { f.Status = lifecycle.Leased },
		"the status afterwards": func(f *lifecycle.Fence) { f.Status = lifecycle.Succeeded },
	} {
		for _, k := range []lifecycle.EventKind{lifecycle.EvSucceeded, lifecycle.EvRefused, lifecycle.EvUnknown} {
			t := b.decide(ref, is(k))
			stays := t.Set.Generation == t.Fence.Generation
			change(&t.Fence)
			b.that(!b.compareAndSet(t), "%s with %s held", k, what)
			if stays { // as one who believes it writes it: a driver may tell the two apart
				t.Set.Generation = t.Fence.Generation
				b.that(!b.compareAndSet(t), "%s that sets and expects %s held", k, what)
			}
			b.that(b.everything() == before, "%s with %s changed rows", k, what)
		}
	}
	pending := b.add(b.message("mail"))
	before = b.everything()
	t := b.decide(pending, is(lifecycle.EvCancel))
	t.Fence.Owner = token()
	b.that(!b.compareAndSet(t), "an owner of what nobody owns held")
	b.that(b.everything() == before, "an owner of what nobody owns changed rows")
	b.apply(ref, is(lifecycle.EvSucceeded))
}

// formerOwner lets an owner prepare each of its writes, another one take over, and
// then the first one send them all.
func formerOwner[TX any](b *bench[TX]) {
	kinds := map[lifecycle.Status][]lifecycle.EventKind{
		lifecycle.Leased: {lifecycle.EvStart, lifecycle.EvUndecided, lifecycle.EvPanicked, lifecycle.EvReleased},
		lifecycle.Delivering: {lifecycle.EvSucceeded, lifecycle.EvNotSent, lifecycle.EvRefused, lifecycle.EvRejected,
			lifecycle.EvUnknown},
	}
	for status, events := range kinds {
		ref := b.add(b.message("mail"))
		b.take(ref)
		if status == lifecycle.Delivering {
			b.apply(ref, is(lifecycle.EvStart))
		}
		var stale []lifecycle.Transition
		for _, k := range events {
			stale = append(stale, b.decide(ref, is(k)))
		}
		b.shift(lease + policy.SettleMargin + time.Minute)
		b.take(ref)
		b.refuseAll(stale, "the next owner has claimed")
		b.apply(ref, is(lifecycle.EvStart))
		b.refuseAll(stale, "the next owner has started")
		b.apply(ref, is(lifecycle.EvSucceeded))
		b.refuseAll(stale, "the next owner has settled")
	}
}

// refuseAll sends transitions that must all be fenced, one by one and at once.
func (b *bench[TX]) refuseAll(stale []lifecycle.Transition, when string) {
	b.t.Helper()
	before := b.everything()
	for _, t := range stale {
		b.that(!b.compareAndSet(t), "%s: a write of the former owner to %s held", when, t.Set.Status)
	}
	b.that(b.everything() == before, "%s: a former owner changed rows", when)
}

func lateWrite[TX any](b *bench[TX]) {
	ref := b.add(b.message("mail"))
	b.take(ref)
	cut := b.decide(ref, is(lifecycle.EvStart)) // sent, but it does not arrive
	released := b.decide(ref, is(lifecycle.EvReleased))
	b.that(b.compareAndSet(released), "the release did not hold")
	before := b.everything()
	b.that(!b.compareAndSet(cut), "a start arrived after the release of its claim and held")
	b.that(b.everything() == before, "a late start changed rows")
	// The same owner, generation and status again: only the revision differs.
	loop := b.inFlight(b.message("loop", under(looped)))
	b.apply(loop, is(lifecycle.EvRefused))
	cut = b.decide(loop, is(lifecycle.EvInterrupted))
	b.apply(loop, is(lifecycle.EvStart))
	b.apply(loop, is(lifecycle.EvRefused))
	before = b.everything()
	b.that(!b.compareAndSet(cut), "a write arrived two revisions late and held")
	b.that(b.everything() == before, "a late write changed rows")
}

func endedStays[TX any](b *bench[TX]) {
	ref := b.inFlight(b.work("triaged", under(with(scheduled, once))))
	var stale []lifecycle.Transition
	for _, k := range []lifecycle.EventKind{lifecycle.EvSucceeded, lifecycle.EvRefused, lifecycle.EvRejected} {
		stale = append(stale, b.decide(ref, is(k)))
	}
	b.apply(ref, is(lifecycle.EvUnknown))
	b.refuseAll(stale, "ended")
	for _, k := range lifecycle.EventKinds() {
		t := b.decide(ref, lifecycle.Event{Kind: k, Code: lifecycle.HandlerMissing, Contract: looped})
		if t.Answer == lifecycle.Apply && b.compareAndSet(t) {
			b.that(b.record(ref).State.Status == lifecycle.ReconciliationRequired, "%s changed a terminal status", k)
		}
	}
}

func goneStays[TX any](b *bench[TX]) {
	ref := b.add(b.message("mail"))
	b.take(ref)
	t := b.decide(ref, is(lifecycle.EvPanicked))
	t.Ref = driver.NewID()
	before := b.everything()
	b.that(!b.compareAndSet(t), "a write to nothing held")
	b.that(b.everything() == before, "a write to nothing changed rows")
}
