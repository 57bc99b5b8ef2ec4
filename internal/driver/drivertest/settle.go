package drivertest

import (
	"slices"
	"strings"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

func settleTests[TX any]() []test[TX] {
	return []test[TX]{
		{"a proof is kept", "what a receiver signed is kept with its attempt, settled or late, and read back by each way of reading", proofKept[TX]},
		{"a failure writes its log row", "what happened in an attempt is kept, atomically with what became of it", failureLogs[TX]},
		{"the end has its time", "what comes after the end does not move when it was", endKeepsItsTime[TX]},
		{"a success writes none and clears the error", "only what was not a plain success has a log row", successLogsNothing[TX]},
		{"applies at most once", "a settle that is repeated changes nothing", settlesOnce[TX]},
		{"late evidence is kept once", "what a fenced writer saw is appended once per attempt, and touches no delivery", lateEvidence[TX]},
		{"late evidence keeps its kind apart", "a late row never hides a settled one", lateBeside[TX]},
		{"evidence of nothing is not kept", "what was pruned stays gone", evidenceOfNothing[TX]},
	}
}

func failureLogs[TX any](b *bench[TX]) {
	for _, n := range []driver.New{b.message("mail"), b.work("triaged")} {
		ref := b.inFlight(n)
		started := b.record(ref).StartedAt
		b.apply(ref, lifecycle.Event{Kind: lifecycle.EvRefused, Wait: 90 * time.Second, Error: "käputt 503", HTTPStatus: 503, Proof: "v1,c2lnbmVk"})
		log := b.history(ref)
		b.that(len(log) == 1, "%d log rows, want 1", len(log))
		want := lifecycle.Attempt{Generation: 1, Number: 1, Outcome: lifecycle.Refused, Error: "käputt 503", HTTPStatus: 503, Wait: 90 * time.Second, Proof: "v1,c2lnbmVk"}
		b.that(log[0].Attempt == want, "log row is %+v, want %+v", log[0].Attempt, want)
		b.that(log[0].Ref == ref && log[0].StartedAt.Equal(started), "log row of %s started %s, want %s", log[0].Ref, log[0].StartedAt, started)
		b.that(near(log[0].At, b.record(ref).UpdatedAt), "logged at %s", log[0].At)
		b.shift(2 * time.Minute)
		b.take(ref)
		b.apply(ref, lifecycle.Event{Kind: lifecycle.EvPanicked, Error: "panic"})
		log = b.history(ref)
		b.that(len(log) == 2 && log[1].StartedAt.IsZero() && log[1].Outcome == lifecycle.Crashed && log[1].Error == "panic",
			"a panic before the start is logged as %+v", log)
	}
}

func successLogsNothing[TX any](b *bench[TX]) {
	ref := b.inFlight(b.message("mail"))
	b.that(b.apply(ref, lifecycle.Event{Kind: lifecycle.EvUnknown, Error: "timeout"}).LastError == "timeout", "no last error")
	b.shift(time.Minute)
	b.take(ref)
	b.apply(ref, is(lifecycle.EvStart))
	r := b.apply(ref, is(lifecycle.EvSucceeded))
	b.that(r.LastError == "" && !r.State.Uncertain && r.State.Code == "" && r.DueAt.IsZero() && r.ReviewAt.IsZero(), "record is %+v", r)
	b.that(r.State.Attempts == 2 && len(b.history(ref)) == 1, "%d attempts, log %+v", r.State.Attempts, b.history(ref))
}

func settlesOnce[TX any](b *bench[TX]) {
	for _, k := range []lifecycle.EventKind{lifecycle.EvSucceeded, lifecycle.EvRefused, lifecycle.EvRejected, lifecycle.EvUnknown} {
		ref := b.inFlight(b.message("mail"))
		t := b.decide(ref, is(k))
		b.that(b.compareAndSet(t), "%s did not hold", k)
		before := b.deliveryOf(ref) + b.rawOf("attempt", ref)
		b.that(!b.compareAndSet(t), "%s held twice", k)
		b.that(b.deliveryOf(ref)+b.rawOf("attempt", ref) == before, "%s repeated changed rows", k)
	}
}

func proofKept[TX any](b *bench[TX]) {
	long := "v1a," + strings.Repeat("cHJvb2Y+", 127) // as long as one may be, but for a few bytes
	settled, seenLate, none := b.inFlight(b.message("mail")), b.inFlight(b.work("triaged")), b.inFlight(b.message("mail"))
	b.apply(settled, lifecycle.Event{Kind: lifecycle.EvRejected, HTTPStatus: 400, Proof: long})
	l := late(seenLate, lifecycle.Accepted)
	l.Proof = long
	b.ok("append", b.Bound.Append(b.ctx, []driver.Logged{l}))
	b.apply(none, lifecycle.Event{Kind: lifecycle.EvRejected, HTTPStatus: 400})
	for ref, want := range map[driver.ID]string{settled: long, seenLate: long, none: ""} {
		log := b.history(ref)
		b.that(len(log) == 1 && log[0].Proof == want, "history is %+v", log)
		logs, err := b.desk().Logs(b.ctx, []driver.ID{ref})
		b.ok("logs", err)
		b.that(slices.Equal(logs, log), "logs are %+v, want %+v", logs, log)
	}
	b.that(b.decide(seenLate, lifecycle.Event{Kind: lifecycle.EvSucceeded, Proof: long}).Log == nil, "a success that holds has a log row")
}

// late is evidence of attempt 1 under generation 1.
func late(ref driver.ID, o lifecycle.Outcome) driver.Logged {
	return driver.Logged{Ref: ref, Attempt: lifecycle.Attempt{
		Generation: 1, Number: 1, Outcome: o, Code: lifecycle.Fenced, Error: "seen late", HTTPStatus: 201, Late: true, Proof: "v1,bGF0ZQ==",
	}}
}

func lateEvidence[TX any](b *bench[TX]) {
	ref := b.inFlight(b.message("mail"))
	started := b.record(ref).StartedAt
	b.shift(lease + policy.SettleMargin + time.Minute)
	b.take(ref)
	before, log := b.deliveryOf(ref), b.history(ref)
	l := late(ref, lifecycle.Accepted)
	l.StartedAt = started
	other := l
	other.Number = 2
	b.ok("append", b.Bound.Append(b.ctx, []driver.Logged{l, other}))
	got := b.history(ref)
	b.that(len(got) == len(log)+2, "%d log rows, want %d", len(got), len(log)+2)
	at := slices.IndexFunc(got, func(g driver.Logged) bool { return g.Late && g.Number == 1 })
	b.that(at >= 0 && got[at].Attempt == l.Attempt, "log is %+v, want %+v in it", got, l.Attempt)
	b.that(got[at].StartedAt.Equal(started) && !got[at].At.IsZero(), "started %s, logged %s", got[at].StartedAt, got[at].At)
	rows := b.rawOf("attempt", ref)
	again := late(ref, lifecycle.Rejected)
	b.ok("append again", b.Bound.Append(b.ctx, []driver.Logged{l, again}))
	b.that(b.rawOf("attempt", ref) == rows, "evidence was kept twice, or replaced")
	b.that(b.deliveryOf(ref) == before, "evidence touched the delivery")
	b.ok("append nothing", b.Bound.Append(b.ctx, nil))
}

func lateBeside[TX any](b *bench[TX]) {
	ref := b.inFlight(b.work("triaged"))
	b.apply(ref, lifecycle.Event{Kind: lifecycle.EvUnknown, Error: "timeout"})
	b.ok("append", b.Bound.Append(b.ctx, []driver.Logged{late(ref, lifecycle.Accepted)}))
	log := b.history(ref)
	b.that(len(log) == 2 && !log[0].Late && log[0].Error == "timeout" && log[1].Late && log[1].Outcome == lifecycle.Accepted, "log is %+v", log)
}

func evidenceOfNothing[TX any](b *bench[TX]) {
	ref := b.inFlight(b.message("mail"))
	b.apply(ref, is(lifecycle.EvSucceeded))
	b.shift(time.Hour)
	now, err := b.Bound.Now(b.ctx)
	b.ok("now", err)
	_, err = b.Bound.Prune(b.ctx, lifecycle.Message, now, 10)
	b.ok("prune", err)
	there := b.add(b.message("mail"))
	b.ok("append", b.Bound.Append(b.ctx, []driver.Logged{late(ref, lifecycle.Accepted), late(driver.NewID(), lifecycle.Accepted), late(there, lifecycle.Unknown)}))
	b.that(b.count("attempt") == 1 && len(b.history(there)) == 1, "%d log rows, want the one of the delivery that exists", b.count("attempt"))
}

func endKeepsItsTime[TX any](b *bench[TX]) {
	ref := b.inFlight(b.work("k"))
	ended := b.apply(ref, is(lifecycle.EvSucceeded)).UpdatedAt
	b.shift(time.Second)
	moved := b.record(ref).UpdatedAt // Shift moves stored times back
	b.that(!ended.IsZero() && !moved.IsZero(), "it has no time")
	after := b.apply(ref, is(lifecycle.EvCallbackFailed))
	b.that(after.State.Code == lifecycle.PostEffectCallbackFailed && after.UpdatedAt.Equal(moved),
		"%s, and the time of the end went from %v to %v", after.State.Code, moved, after.UpdatedAt)
}
