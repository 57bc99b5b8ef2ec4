package drivertest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

func actTests[TX any]() []test[TX] {
	return []test[TX]{
		{"an action is whole", "change, finding, successor and audit row commit together", actWhole[TX]},
		{"an action is whole or absent", "what does not hold leaves no trace, not even in the audit", actAbsent[TX]},
		{"of many at once one wins", "two people never both decide about one intent", actOnce[TX]},
		{"a finding is corrected once", "a wrong finding is superseded, and both stay", actSupersedes[TX]},
		{"a kind is paused once", "whoever comes second is told", actPauses[TX]},
		{"an erasure is audited", "that it happened is on record, and whose data it was is not", actErases[TX]},
		{"a removal is audited", "who removed how many records is on record", actPrunes[TX]},
		{"a successor goes with its subject", "what was sent again is erased like what was sent first", actEraseChain[TX]},
		{"the audit is append-only", "nobody edits what was done", actAppendOnly[TX]},
	}
}

// desk is the driver as operators use it.
func (b *bench[TX]) desk() driver.Desk {
	b.t.Helper()
	d, ok := any(b.Bound).(driver.Desk)
	b.that(ok, "the driver is no driver.Desk")
	return d
}

// act carries an action out and reports whether it held.
func (b *bench[TX]) act(a driver.Action) bool {
	b.t.Helper()
	held, err := b.desk().Act(b.ctx, &a)
	b.ok("act", err)
	return held
}

// inReview returns work that was rejected.
func (b *bench[TX]) inReview(change ...func(*driver.New)) driver.ID {
	b.t.Helper()
	ref := b.inFlight(b.work("triaged", change...))
	b.apply(ref, is(lifecycle.EvRejected))
	return ref
}

// finding is an action that resolves ref.
func (b *bench[TX]) finding(ref driver.ID) driver.Action {
	b.t.Helper()
	t := b.decide(ref, is(lifecycle.EvResolved))
	return driver.Action{
		Change: &t,
		Resolution: &driver.Resolution{
			ID: driver.NewID(), Ref: ref, Finding: driver.FoundNotDelivered, Source: driver.FromPerson, By: "ann", Evidence: "asked them",
		},
		Audit: driver.Audited{By: "ann", Action: "resolve", Ref: ref, Reason: "weekly look", Before: `{"a":1}`, After: `{"a":2}`},
	}
}

// again is an action that sends ref again.
func (b *bench[TX]) again(ref driver.ID, link driver.Link) driver.Action {
	b.t.Helper()
	r := b.record(ref)
	n := driver.New{Intent: r.Intent, Contract: scheduled}
	n.Ref, n.Predecessor, n.Link = driver.NewID(), ref, link
	n.Bound, n.Uncertain = r.State.Digest, r.State.Uncertain
	if link == driver.Reissue {
		n.Key, n.Bound, n.Uncertain = n.Ref, lifecycle.Digest{}, false
	}
	t := b.decide(ref, is(lifecycle.EvResolved))
	return driver.Action{Change: &t, Successor: &n, Audit: driver.Audited{By: "ann", Action: "redeliver", Ref: ref}}
}

func actWhole[TX any](b *bench[TX]) {
	ref := b.inReview()
	before := b.record(ref)
	a := b.finding(ref)
	again := b.again(ref, driver.Redelivery)
	a.Successor = again.Successor
	b.that(b.act(a), "the action did not hold")
	b.verify(before, *a.Change, b.record(ref))
	found, err := b.desk().Resolutions(b.ctx, []driver.ID{ref})
	b.ok("resolutions", err)
	b.that(len(found) == 1 && near(found[0].At, b.clock()), "findings %+v", found)
	want := *a.Resolution
	want.At = found[0].At
	b.that(found[0] == want, "finding %+v, want %+v", found[0], want)
	rows, err := b.desk().Audits(b.ctx, driver.AuditRequest{Ref: ref, Limit: 10})
	b.ok("audits", err)
	b.that(len(rows) == 1 && near(rows[0].At, b.clock()) && rows[0].ID > 0, "audit %+v", rows)
	audit := a.Audit
	audit.ID, audit.At = rows[0].ID, rows[0].At
	b.that(rows[0] == audit, "audit %+v, want %+v", rows[0], audit)
	next := b.record(a.Successor.Ref)
	b.that(next.Intent.Predecessor == ref && next.Intent.Link == driver.Redelivery && next.Intent.Key == before.Intent.Key,
		"successor %+v", next.Intent)
	b.that(next.State.Digest == before.State.Digest && b.claimable(next.Intent.Ref), "successor %+v", next.State)
}

func actAbsent[TX any](b *bench[TX]) {
	ref := b.inReview()
	whole := b.finding(ref)
	whole.Successor = b.again(ref, driver.Reissue).Successor
	for name, change := range map[string]func(t *lifecycle.Transition){
		"revision":   func(t *lifecycle.Transition) { t.Fence.Revision-- },
		"generation": func(t *lifecycle.Transition) { t.Fence.Generation++ },
		"status":     func(t *lifecycle.Transition) { t.Fence.Status = lifecycle.Pending },
		"owner":      func(t *lifecycle.Transition) { t.Fence.Owner = token() },
		"ref":        func(t *lifecycle.Transition) { t.Ref = driver.NewID() },
	} {
		stale, t := whole, *whole.Change
		change(&t)
		stale.Change = &t
		before := b.everything()
		b.that(!b.act(stale), "%s: an action on what has changed held", name)
		b.that(b.everything() == before, "%s: an action that did not hold left a trace", name)
	}
	taken := whole
	taken.Pause = &driver.Pause{Profile: lifecycle.Work, Kind: "triaged", By: "ann"}
	b.that(b.act(driver.Action{Pause: taken.Pause, Audit: whole.Audit}), "pause")
	before := b.everything()
	b.that(!b.act(taken), "a second pause held")
	b.that(b.everything() == before, "an action that did not hold left a trace")
	wrong := whole
	bad := *whole.Resolution
	bad.Finding = 9
	wrong.Resolution = &bad
	held, err := b.desk().Act(b.ctx, &wrong)
	b.that(!held && err != nil, "a finding that is none was stored")
	b.that(b.everything() == before, "an action that failed left a trace")
	b.that(b.act(whole), "the action does not hold after all that")
}

func actOnce[TX any](b *bench[TX]) {
	ref := b.inReview()
	const people = 8
	actions := make([]driver.Action, people)
	for i := range actions {
		actions[i] = b.again(ref, driver.Reissue)
		if i%2 == 1 {
			actions[i] = b.finding(ref)
		}
		actions[i].Audit.By = fmt.Sprint("person ", i)
	}
	held, errs := make([]bool, people), make([]error, people)
	var all sync.WaitGroup
	for i := range actions {
		all.Go(func() { held[i], errs[i] = b.desk().Act(b.ctx, &actions[i]) })
	}
	all.Wait()
	wins := 0
	for i := range held {
		b.ok("act", errs[i])
		if held[i] {
			wins++
		}
	}
	b.that(wins == 1, "%d of %d won", wins, people)
	b.that(b.count("audit") == 1 && b.count("resolution")+b.count("intent") == 2, "%d audit rows, %d findings, %d intents",
		b.count("audit"), b.count("resolution"), b.count("intent"))
}

func actSupersedes[TX any](b *bench[TX]) {
	ref := b.inReview()
	first := b.finding(ref)
	b.that(b.act(first), "first finding")
	second := b.finding(ref)
	second.Resolution.Finding, second.Resolution.Supersedes = driver.FoundDelivered, first.Resolution.ID
	b.that(b.act(second), "second finding")
	found, err := b.desk().Resolutions(b.ctx, []driver.ID{driver.NewID(), ref})
	b.ok("resolutions", err)
	b.that(len(found) == 2 && found[0].ID == first.Resolution.ID && found[1].Supersedes == first.Resolution.ID, "findings %+v", found)
	third := b.finding(ref)
	third.Resolution.Supersedes = first.Resolution.ID
	before := b.everything()
	held, err := b.desk().Act(b.ctx, &third)
	b.that(!held && err != nil, "a finding was superseded twice")
	b.that(b.everything() == before, "an action that failed left a trace")
}

// paused returns what is paused, as text.
func (b *bench[TX]) paused() string {
	b.t.Helper()
	list, err := b.desk().Pauses(b.ctx)
	b.ok("pauses", err)
	var names []string
	for _, p := range list {
		b.that(near(p.At, b.clock()), "paused at %s", p.At)
		names = append(names, fmt.Sprintf("%s %s by %s: %s", p.Profile, p.Kind, p.By, p.Reason))
	}
	return strings.Join(names, "\n")
}

func actPauses[TX any](b *bench[TX]) {
	pause := func(p lifecycle.Profile, kind, by, why string) bool {
		return b.act(driver.Action{
			Pause: &driver.Pause{Profile: p, Kind: kind, By: by, Reason: why},
			Audit: driver.Audited{By: by, Action: "pause", Reason: why},
		})
	}
	resume := func(p lifecycle.Profile, kind string) bool {
		return b.act(driver.Action{Resume: &driver.Pause{Profile: p, Kind: kind}, Audit: driver.Audited{By: "bob", Action: "resume"}})
	}
	b.that(b.paused() == "", "something is paused")
	b.that(!resume(lifecycle.Message, "mail"), "what is not paused was resumed")
	b.that(pause(lifecycle.Message, "mail", "ann", "they are down"), "not paused")
	b.that(!pause(lifecycle.Message, "mail", "bob", "me too"), "paused twice")
	b.that(pause(lifecycle.Work, "mail", "bob", "") && pause(lifecycle.Message, "chat", "bob", ""), "another is not paused")
	b.that(b.paused() == "work mail by bob: \nmessage chat by bob: \nmessage mail by ann: they are down", "paused: %s", b.paused())
	b.that(resume(lifecycle.Message, "mail") && !resume(lifecycle.Message, "mail"), "resumed not at all, or twice")
	b.that(b.paused() == "work mail by bob: \nmessage chat by bob: ", "paused: %s", b.paused())
	b.that(b.count("audit") == 4, "%d audit rows, want 4", b.count("audit"))
}

func actErases[TX any](b *bench[TX]) {
	b.insert(b.message("mail", about(secret)), b.message("mail", about(secret)), b.message("mail"))
	n, err := b.desk().EraseFor(b.ctx, []string{secret, " "}, driver.Audited{By: "ann", Action: "erase", Reason: "asked for", Before: "{}"})
	b.ok("erase", err)
	b.that(n == 2, "%d erased, want 2", n)
	b.that(!strings.Contains(b.everything(), secret), "the subject is left")
	rows, err := b.desk().Audits(b.ctx, driver.AuditRequest{Limit: 10})
	b.ok("audits", err)
	b.that(len(rows) == 1 && rows[0].By == "ann" && rows[0].Reason == "asked for" && rows[0].Before == "{}" && rows[0].After == driver.Removed(2),
		"audit %+v", rows)
	n, err = b.desk().EraseFor(b.ctx, []string{"", "\t"}, driver.Audited{By: "ann", Action: "erase"})
	b.that(n == 0 && err == nil && b.count("audit") == 1, "an erasure of nobody is on record")
}

func actPrunes[TX any](b *bench[TX]) {
	b.ended(3)
	by := driver.Audited{By: "ann", Action: "prune", Reason: "30 days"}
	later := b.clock().Add(time.Hour)
	for _, want := range []int{2, 1, 0} {
		n, err := b.desk().PruneFor(b.ctx, lifecycle.Message, later, 2, by)
		b.ok("prune", err)
		b.that(n == want, "%d removed, want %d", n, want)
	}
	rows, err := b.desk().Audits(b.ctx, driver.AuditRequest{Limit: 10})
	b.ok("audits", err)
	b.that(len(rows) == 2 && rows[0].After == driver.Removed(1) && rows[1].After == driver.Removed(2) && rows[1].Reason == "30 days", "audit %+v", rows)
}

func actEraseChain[TX any](b *bench[TX]) {
	ref := b.inReview(about(secret))
	a := b.again(ref, driver.Redelivery)
	b.that(b.act(a), "not sent again")
	b.that(b.erase(secret) == 2, "the successor was not erased")
	b.that(b.count("intent") == 0 && b.record(a.Successor.Ref).State.Erased, "content is left")
	b.that(!b.act(driver.Action{Change: a.Change, Successor: a.Successor, Audit: a.Audit}), "what was erased was sent again")
}

func actAppendOnly[TX any](b *bench[TX]) {
	ref := b.inReview()
	b.that(b.act(b.finding(ref)), "no finding")
	before := b.everything()
	b.that(b.Set(b.ctx, "audit", ref, map[string]any{"reason": "another"}) != nil, "an audit row was changed")
	b.that(b.everything() == before, "rows changed")
}
