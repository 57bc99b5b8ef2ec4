package drivertest

import (
	"reflect"
	"strings"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

func eraseTests[TX any]() []test[TX] {
	return []test[TX]{
		{"in every status", "content goes whatever the status; a tombstone stays", eraseEveryStatus[TX]},
		{"fences the late owner", "a late settle of an erased intent changes nothing, and its bare outcome is kept", eraseFences[TX]},
		{"stops every start", "nothing of an erased subject is claimed, started or swept", eraseStops[TX]},
		{"texts go too", "attempt errors, addresses and evidence of the subject are erased", eraseTexts[TX]},
		{"runs and approvals", "what is stored about the subject elsewhere goes too", eraseRuns[TX]},
		{"only the subjects named", "blank subjects match nothing, an empty list removes nothing", eraseOnly[TX]},
		{"opens the gate", "an erased lower index holds nobody back", eraseOpensGate[TX]},
		{"of one intent", "a transition that erases removes the content in its own write", eraseOne[TX]},
		{"once", "an erasure that is repeated finds nothing", eraseOnce[TX]},
	}
}

const secret = "needle in the haystack"

// erase erases subjects and returns how many intents went.
func (b *bench[TX]) erase(subjects ...string) int {
	b.t.Helper()
	n, err := b.Bound.Erase(b.ctx, subjects)
	b.ok("erase", err)
	return n
}

func eraseEveryStatus[TX any](b *bench[TX]) {
	whose := about("customer:1")
	secretly := func(n *driver.New) { n.Payload = []byte(`"` + secret + `"`) }
	pending := b.add(b.message("mail", whose, secretly, func(n *driver.New) { n.Address = secret }, task(secret, 3)))
	leased := b.add(b.work("triaged", whose, secretly))
	b.take(leased)
	started := b.inFlight(b.message("mail", whose, secretly))
	loop := b.inFlight(b.message("loop", whose, secretly, under(looped)))
	b.apply(loop, is(lifecycle.EvRefused))
	succeeded := b.inFlight(b.work("triaged", whose, secretly))
	b.apply(succeeded, is(lifecycle.EvSucceeded))
	review := b.inFlight(b.work("triaged", whose, secretly, under(with(scheduled, once))))
	b.apply(review, is(lifecycle.EvUnknown))
	refs := []driver.ID{pending, leased, started, loop, succeeded, review}
	var before []driver.Record
	for _, ref := range refs {
		before = append(before, b.record(ref))
	}
	b.that(b.erase("customer:1") == len(refs), "wrong count")
	b.that(b.count("intent") == 0 && b.count("delivery") == len(refs), "%d intents, %d tombstones", b.count("intent"), b.count("delivery"))
	b.that(!strings.Contains(b.everything(), secret), "content is left")
	for i, ref := range refs {
		r, was := b.record(ref), before[i].State
		b.that(reflect.DeepEqual(r.Intent, driver.Intent{Ref: ref}), "intent is %+v, want its ref alone", r.Intent)
		b.that(r.State.Status == was.Status && r.State.Erased && !r.ErasedAt.IsZero(), "%s: state is %+v", was.Status, r.State)
		b.that(r.State.Uncertain == (was.Uncertain || was.InFlight) && !r.State.InFlight, "%s: state is %+v", was.Status, r.State)
		b.that(r.State.Generation == was.Generation+1 && r.State.Owner == lifecycle.Token{}, "%s: the owner is not fenced", was.Status)
		b.that(r.State.Revision == was.Revision+1, "%s: revision %d, was %d", was.Status, r.State.Revision, was.Revision)
		b.that(r.DueAt.IsZero() && r.LeaseUntil.IsZero() && r.ReviewAt.IsZero() && r.LastError == "", "%s: record is %+v", was.Status, r)
		want := was.Digest
		if want == (lifecycle.Digest{}) {
			want = before[i].Intent.Digest
		}
		b.that(r.State.Digest == want, "%s: the digest is not the bound one, or the payload's", was.Status)
	}
}

func eraseFences[TX any](b *bench[TX]) {
	ref := b.inFlight(b.message("mail", about("customer:1")))
	stale := []lifecycle.Transition{
		b.decide(ref, is(lifecycle.EvSucceeded)), b.decide(ref, is(lifecycle.EvRefused)), b.decide(ref, is(lifecycle.EvUnknown)),
	}
	owner := b.record(ref).State.Owner
	b.erase("customer:1")
	b.refuseAll(stale, "erased")
	t := b.decide(ref, lifecycle.Event{Kind: lifecycle.EvSucceeded, Owner: owner, Generation: 1, Error: secret, Proof: secret})
	b.that(t.Answer == lifecycle.Refuse && t.Log != nil && t.Log.Error == "" && t.Log.Proof == "", "a late success is answered %+v", t)
	l := late(ref, lifecycle.Accepted) // decided before the erasure, arriving after it
	l.Error, l.Proof = secret, secret
	b.ok("append", b.Bound.Append(b.ctx, []driver.Logged{l}))
	log := b.history(ref)
	b.that(len(log) == 1 && log[0].Late && log[0].Outcome == lifecycle.Accepted && log[0].Error == "" && log[0].Proof == "" && log[0].HTTPStatus == 201, "log is %+v", log)
}

func eraseStops[TX any](b *bench[TX]) {
	pending := b.add(b.message("mail", about("customer:1")))
	leased := b.add(b.message("mail", about("customer:1")))
	b.take(leased)
	start := b.decide(leased, is(lifecycle.EvStart))
	started := b.inFlight(b.message("mail", about("customer:1")))
	b.erase("customer:1")
	b.that(!b.compareAndSet(start), "started after the erasure")
	for range 2 {
		for _, suspects := range []bool{false, true} {
			r := request(9, "m:mail")
			r.Suspects = suspects
			r.Refs = []driver.ID{pending, leased, started}
			b.that(len(b.claim(r)) == 0, "an erased intent was claimed")
		}
		routes, err := b.Bound.Routes(b.ctx)
		b.ok("routes", err)
		b.that(len(routes) == 0, "an erased intent has a route")
		b.shift(25 * time.Hour)
		b.walk(10, func(driver.Overdue) { b.that(false, "an erased intent is overdue") })
	}
	for _, k := range lifecycle.EventKinds() {
		for _, ref := range []driver.ID{pending, leased, started} {
			e := lifecycle.Event{Kind: k, Owner: token(), Code: lifecycle.ChannelMissing, Contract: looped}
			b.that(b.decide(ref, e).Answer != lifecycle.Apply, "%s applies to an erased intent", k)
		}
	}
}

func eraseTexts[TX any](b *bench[TX]) {
	ref := b.inFlight(b.message("mail", about("customer:1"), under(with(scheduled, once))))
	b.apply(ref, lifecycle.Event{Kind: lifecycle.EvRefused, Error: secret, HTTPStatus: 503})
	b.shift(time.Hour)
	b.take(ref)
	b.apply(ref, is(lifecycle.EvStart))
	l := late(ref, lifecycle.NotSent)
	l.Error, l.Proof = secret, secret
	b.ok("append", b.Bound.Append(b.ctx, []driver.Logged{l}))
	b.apply(ref, lifecycle.Event{Kind: lifecycle.EvUnknown, Error: secret, Proof: secret})
	b.ok("put", b.Put(b.ctx, "resolution", b.resolution(ref, secret)))
	other := b.add(b.message("mail", about("customer:2")))
	b.ok("put", b.Put(b.ctx, "resolution", b.resolution(other, "other evidence")))
	b.ok("append", b.Bound.Append(b.ctx, []driver.Logged{late(other, lifecycle.Unknown)}))
	untouched := b.rawOf("resolution", other) + b.rawOf("attempt", other) + b.rawOf("intent", other) + b.deliveryOf(other)
	b.that(strings.Contains(b.everything(), secret), "nothing to erase")
	b.erase("customer:1")
	b.that(!strings.Contains(b.everything(), secret), "a text is left")
	log := b.history(ref)
	b.that(len(log) == 3, "%d log rows, want 3: outcomes stay", len(log))
	b.that(log[0].Outcome == lifecycle.Refused && log[0].HTTPStatus == 503, "log is %+v", log)
	b.that(b.count("resolution") == 2, "a finding vanished with its text")
	b.that(b.rawOf("resolution", other)+b.rawOf("attempt", other)+b.rawOf("intent", other)+b.deliveryOf(other) == untouched,
		"another subject's rows changed")
}

// resolution is a person's finding about ref.
func (b *bench[TX]) resolution(ref driver.ID, evidence string) map[string]any {
	b.t.Helper()
	now, err := b.Bound.Now(b.ctx)
	b.ok("now", err)
	return map[string]any{
		"id": driver.NewID(), "ref": ref, "at": now, "outcome": 1, "source": 1, "made_by": "staff:7", "evidence": evidence,
	}
}

func eraseRuns[TX any](b *bench[TX]) {
	run := driver.Run{ID: driver.NewID(), Operation: "triage", Actor: "staff:7", Tenant: "tenant:1", Subject: secret}
	kept := driver.Run{ID: driver.NewID(), Operation: "triage", Actor: "staff:7", Tenant: "tenant:1", Subject: "customer:2"}
	for _, r := range []driver.Run{run, kept} {
		_, tx := b.begin()
		b.ok("open run", tx.OpenRun(b.ctx, r))
		r.SecurityVersion, r.Target, r.TargetVersion, r.Receipt = "v3", "ticket:9", "4", []byte(`"receipt of `+r.Subject+`"`)
		b.ok("seal run", tx.SealRun(b.ctx, r))
		b.ok("commit", tx.Commit(b.ctx))
	}
	now, err := b.Bound.Now(b.ctx)
	b.ok("now", err)
	b.ok("put", b.Put(b.ctx, "approval", map[string]any{
		"id": driver.NewID(), "created_at": now, "expires_at": now.Add(time.Hour), "operation": "triage", "actor": "staff:7",
		"tenant": "tenant:1", "target": "of " + secret, "subject": secret, "input_digest": digest[:], "proposer": "staff:8", "status": 0,
	}))
	b.that(b.erase(secret) == 0, "a run was counted as an intent")
	b.that(!strings.Contains(b.everything(), secret), "content is left")
	b.that(b.count("run") == 2 && b.count("approval") == 1, "that something took place was erased")
	b.that(strings.Contains(b.everything(), "receipt of customer:2"), "another subject's receipt went")
}

func eraseOnly[TX any](b *bench[TX]) {
	b.insert(b.message("mail"), b.work("triaged"), b.message("mail", about("customer:1")), b.message("mail", about("customer:11")),
		b.work("triaged", about("Customer:1")), b.message("mail", about("customer:%")))
	_, tx := b.begin()
	b.ok("open run", tx.OpenRun(b.ctx, driver.Run{ID: driver.NewID(), Operation: "triage", Actor: "staff:7", Tenant: "tenant:1"}))
	b.ok("commit", tx.Commit(b.ctx))
	before := b.everything()
	for _, subjects := range [][]string{nil, {}, {""}, {" ", "\t", ""}, {"customer"}, {"customer:_"}, {"customer:2"}} {
		b.that(b.erase(subjects...) == 0, "%q erased something", subjects)
	}
	b.that(b.everything() == before, "an erasure of nothing changed rows")
	b.that(b.erase("customer:%", "", "customer:%", "customer:1") == 2, "wrong count")
	b.that(b.count("intent") == 4, "%d intents are left, want 4", b.count("intent"))
}

func eraseOpensGate[TX any](b *bench[TX]) {
	refs := b.insert(b.message("mail", task("a", 1)), b.message("mail", task("a", 0), about("customer:1")))
	b.gate(refs[0], false, "before")
	b.take(refs[1])
	b.erase("customer:1")
	b.gate(refs[0], true, "lower index erased")
}

func eraseOne[TX any](b *bench[TX]) {
	secretly := func(n *driver.New) { n.Payload = []byte(`"` + secret + `"`) }
	ref := b.inFlight(b.message("mail", secretly))
	b.apply(ref, lifecycle.Event{Kind: lifecycle.EvRefused, Error: secret})
	kept := b.add(b.message("mail"))
	b.that(b.apply(ref, is(lifecycle.EvErase)).State.Digest == digest, "another digest than the bound one is kept")
	b.that(!strings.Contains(b.everything(), secret), "content is left")
	b.that(b.count("intent") == 1 && b.claimable(kept), "another intent went")
	stale := b.decide(kept, is(lifecycle.EvErase))
	stale.Fence.Revision++
	b.refuseAll([]lifecycle.Transition{stale}, "fenced")
	b.that(b.count("intent") == 1, "an erasure that did not hold removed content")
}

func eraseOnce[TX any](b *bench[TX]) {
	b.insert(b.message("mail", about("customer:1")), b.message("mail", about("customer:2")))
	b.that(b.erase("customer:1") == 1, "wrong count")
	before := b.everything()
	b.that(b.erase("customer:1") == 0, "erased twice")
	b.that(b.everything() == before, "a repeated erasure changed rows")
	late := b.add(b.message("mail", about("customer:1")))
	b.that(b.erase("customer:1", "customer:2") == 2, "wrong count")
	b.that(b.record(late).State.Erased, "not erased")
}
