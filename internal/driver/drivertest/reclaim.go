package drivertest

import (
	"slices"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

func reclaimTests[TX any]() []test[TX] {
	return []test[TX]{
		{"after a lease that was never started", "T2b: definitely unsent, one crash counted", reclaimsUnstarted[TX]},
		{"until the crash budget is spent", "T11b: an intent that kills its process cannot loop for ever", crashBudget[TX]},
		{"suspects are asked for alone", "one poisonous intent never takes others down with it", suspectsAlone[TX]},
		{"in flight, a settle margin after the lease", "T2c: same key and digest, uncertain", reclaimsInFlight[TX]},
		{"never what is not idempotent", "what is not idempotent is not started again", neverOnce[TX]},
		{"never what a process owns", "no other process starts a process-owned message again", neverLooped[TX]},
		{"not without attempts left", "a crashed last attempt is the sweep's to end", notWithoutAttempts[TX]},
		{"not past the deadline", "nothing starts after its deadline", notPastDeadline[TX]},
		{"the generation only rises", "every claim has a generation of its own", generationRises[TX]},
	}
}

func reclaimsUnstarted[TX any](b *bench[TX]) {
	for _, n := range []driver.New{b.message("mail"), b.work("triaged"), b.message("loop", under(looped)),
		b.message("once", under(with(scheduled, once)))} {
		ref := b.add(n)
		first := b.take(ref)
		b.shift(lease + time.Minute)
		second := b.take(ref)
		s := second.State
		b.that(s.Status == lifecycle.Leased && s.Generation == 2 && s.Crashes == 1 && !s.Uncertain && s.Attempts == 0,
			"%s: state is %+v", n.Kind, s)
		b.that(s.Owner != first.State.Owner && s.Revision == first.State.Revision+1, "%s: state is %+v", n.Kind, s)
		b.that(len(b.history(ref)) == 0, "%s: a lease that was never started is in the log", n.Kind)
		b.apply(ref, is(lifecycle.EvStart))
		b.that(b.record(ref).State.Crashes == 0, "%s: a start leaves the crash count", n.Kind)
	}
}

func crashBudget[TX any](b *bench[TX]) {
	ref := b.add(b.message("mail"))
	for i := range policy.CrashBudget {
		b.that(b.claimable(ref), "not claimable after %d crashes", i)
		got := b.take(ref)
		b.that(got.State.Crashes == i, "%d crashes, want %d", got.State.Crashes, i)
		b.shift(lease + time.Minute)
	}
	b.that(!b.claimable(ref), "claimable with the crash budget spent")
	r := b.apply(ref, is(lifecycle.EvSweep))
	b.that(r.State.Status == lifecycle.Failed && r.State.Code == lifecycle.Poisoned, "swept to %s %s", r.State.Status, r.State.Code)
}

func suspectsAlone[TX any](b *bench[TX]) {
	refs := b.insert(b.message("mail"), b.message("mail"), b.message("mail"))
	vanished, panicked := refs[0], refs[1]
	b.take(vanished)
	b.shift(lease + time.Minute)
	b.take(panicked)
	b.apply(panicked, is(lifecycle.EvPanicked))
	r := request(9, "m:mail")
	b.that(slices.Equal(refsOf(b.claim(r)), refs[2:]), "suspects were claimed with the others")
	r = request(9, "m:mail")
	r.Suspects = true
	due, err := b.Bound.Due(b.ctx, r)
	b.ok("due", err)
	b.that(len(due) == 2 && !slices.Contains(due, refs[2]), "suspects are %v, want the first two of %v", due, refs)
	r.Routes[0].Limit = 1
	got := b.claim(r)
	b.that(len(got) == 1 && got[0].Intent.Ref == vanished, "claimed %v, want %v", refsOf(got), vanished)
	b.apply(vanished, is(lifecycle.EvReleased))
	due, err = b.Bound.Due(b.ctx, request(9, "m:mail"))
	b.ok("due", err)
	b.that(len(due) == 0, "a release clears the suspicion of %v", due)
}

func reclaimsInFlight[TX any](b *bench[TX]) {
	for _, n := range []driver.New{b.message("mail"), b.work("triaged")} {
		ref := b.inFlight(n)
		before := b.record(ref)
		b.shift(lease + policy.SettleMargin - time.Minute)
		b.that(!b.claimable(ref), "%s: claimable within the settle margin", n.Kind)
		b.shift(2 * time.Minute)
		got := b.take(ref)
		s := got.State
		b.that(s.Status == lifecycle.Leased && s.Uncertain && !s.InFlight && s.Generation == 2 && s.Crashes == 0,
			"%s: state is %+v", n.Kind, s)
		b.that(s.Attempts == 1, "%s: %d attempts, want 1", n.Kind, s.Attempts)
		b.that(s.Digest == digest && got.Intent.Key == n.Key, "%s: key or digest changed", n.Kind)
		log := b.history(ref)
		b.that(len(log) == 1, "%s: %d log rows, want 1", n.Kind, len(log))
		want := lifecycle.Attempt{Generation: 1, Number: 1, Outcome: lifecycle.Crashed, Code: lifecycle.OutcomeUnknown}
		b.that(log[0].Attempt == want, "%s: log row is %+v, want %+v", n.Kind, log[0].Attempt, want)
		b.that(!log[0].StartedAt.IsZero() && log[0].StartedAt.Before(before.StartedAt.Add(slack)), "%s: started %s", n.Kind, log[0].StartedAt)
		b.that(!log[0].At.Before(log[0].StartedAt), "%s: logged at %s, started %s", n.Kind, log[0].At, log[0].StartedAt)
	}
}

func neverOnce[TX any](b *bench[TX]) {
	ref := b.inFlight(b.work("triaged", under(with(scheduled, once))))
	b.shift(lease + policy.SettleMargin + time.Minute)
	b.that(!b.claimable(ref), "claimable after a crash in flight")
	r := b.apply(ref, is(lifecycle.EvSweep))
	b.that(r.State.Status == lifecycle.ReconciliationRequired && r.State.Code == lifecycle.OutcomeUnknown && r.State.Uncertain,
		"swept to %+v", r.State)
	b.that(!b.claimable(ref), "claimable after its end")
	log := b.history(ref)
	b.that(len(log) == 1 && log[0].Outcome == lifecycle.Crashed && !log[0].StartedAt.IsZero(), "log is %+v", log)
}

func neverLooped[TX any](b *bench[TX]) {
	ref := b.inFlight(b.message("loop", under(with(looped, func(c *lifecycle.Contract) { c.Idempotent = true }))))
	b.shift(lease + policy.SettleMargin + time.Minute)
	b.that(!b.claimable(ref), "in flight: claimable by another process")
	b.that(b.decide(ref, is(lifecycle.EvSweep)).Answer == lifecycle.Unchanged, "in flight: swept")
	waiting := b.inFlight(b.message("loop", under(looped)))
	b.apply(waiting, is(lifecycle.EvRefused))
	b.shift(lease + policy.SettleMargin + time.Minute)
	b.that(!b.claimable(waiting), "waiting: claimable by another process")
}

func notWithoutAttempts[TX any](b *bench[TX]) {
	for _, n := range []driver.New{b.message("mail"), b.work("triaged")} {
		n.Contract.MaxAttempts = 1
		ref := b.inFlight(n)
		b.shift(lease + policy.SettleMargin + time.Minute)
		b.that(!b.claimable(ref), "%s: claimable with no attempt left", n.Kind)
		r := b.apply(ref, is(lifecycle.EvSweep))
		b.that(r.State.Status.Terminal() && r.State.Attempts == 1 && r.State.Uncertain && !r.ReviewAt.IsZero(), "%s: swept to %+v", n.Kind, r.State)
	}
}

func notPastDeadline[TX any](b *bench[TX]) {
	short := with(scheduled, func(c *lifecycle.Contract) { c.MaxAge = 15 * time.Minute })
	leased := b.add(b.message("mail", under(short)))
	b.take(leased)
	started := b.inFlight(b.work("triaged", under(short)))
	b.shift(16 * time.Minute)
	for _, ref := range []driver.ID{leased, started} {
		b.that(!b.claimable(ref), "claimable past its deadline")
		r := b.apply(ref, is(lifecycle.EvSweep))
		b.that(r.State.Status.Terminal(), "swept to %s", r.State.Status)
	}
}

func generationRises[TX any](b *bench[TX]) {
	ref := b.add(b.message("mail"))
	for i := range 4 {
		got := b.take(ref)
		b.that(got.State.Generation == int64(i+1), "generation %d, want %d", got.State.Generation, i+1)
		b.apply(ref, is(lifecycle.EvReleased))
	}
	r := b.apply(ref, is(lifecycle.EvCancel))
	b.that(r.State.Generation == 5, "a cancellation leaves the generation at %d", r.State.Generation)
}
