package drivertest

import (
	"slices"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

func claimTests[TX any]() []test[TX] {
	return []test[TX]{
		{"leases what is due, oldest first", "T2: a due intent is leased under the next generation", claimsOldestFirst[TX]},
		{"only the routes asked for", "a program gets only what it serves", claimsRoutes[TX]},
		{"limits hold per route", "no more is taken than there is room for", claimsLimits[TX]},
		{"goes no further than what is due by then", "what nobody has come to is not walked through", claimsUntil[TX]},
		{"goes on behind a position", "held rows are walked past, not over again", claimsAfter[TX]},
		{"only the refs asked for", "one intent can be driven alone", claimsRefs[TX]},
		{"leaves alone what is not claimable", "not due, past its deadline, ended, erased: not claimed", claimsNothingElse[TX]},
		{"a lease excludes others", "a held intent has one owner until its lease ends", claimExcludes[TX]},
		{"Due takes nothing", "looking is not claiming", dueTakesNothing[TX]},
		{"Held finds a lost claim", "a claim whose answer was lost is looked up by its owner", heldFinds[TX]},
		{"copies a contract once", "a contract is filled in at the first claim, and stays", claimCopiesContract[TX]},
	}
}

func claimsOldestFirst[TX any](b *bench[TX]) {
	var refs []driver.ID
	for i := range 5 {
		n := b.message("mail", func(n *driver.New) { n.Ref[0] = byte(250 - i); n.Key = n.Ref }) // against the order of refs
		refs = append(refs, b.add(n))
		b.shift(time.Minute)
	}
	before := b.record(refs[0])
	r := request(3, driver.MessageRoute("mail"))
	got := b.claim(r)
	b.that(slices.Equal(refsOf(got), refs[:3]), "claimed %v, want %v", refsOf(got), refs[:3])
	for i := range got {
		s := got[i].State
		b.that(s.Status == lifecycle.Leased && s.Generation == 1 && s.Revision == 1 && s.Owner == r.Owner && s.Attempts == 0 &&
			s.Crashes == 0 && !s.Uncertain && !s.InFlight && s.GateOpen, "claimed state is %+v", s)
		b.that(s.LeaseLeft > lease-slack && s.LeaseLeft <= lease, "lease left is %s", s.LeaseLeft)
		record := b.record(refs[i])
		b.that(got[i].DueAt.Equal(record.DueAt), "position %s, stored %s", got[i].DueAt, record.DueAt)
		b.that(record.Program == "test", "program is %q", record.Program)
		stored := record.State
		stored.DueIn, stored.LeaseLeft, stored.DeadlineLeft = s.DueIn, s.LeaseLeft, s.DeadlineLeft
		b.that(stored == s, "handed out %+v, stored %+v", s, stored)
	}
	after := b.record(refs[0])
	b.that(after.UpdatedAt.After(before.UpdatedAt), "a claim leaves the updated time")
	b.that(after.DueAt.Equal(before.DueAt), "a claim touches the due time")
	rest := b.claim(request(9, driver.MessageRoute("mail")))
	b.that(slices.Equal(refsOf(rest), refs[3:]), "then claimed %v, want %v", refsOf(rest), refs[3:])
}

func claimsRoutes[TX any](b *bench[TX]) {
	mail, sms := b.message("mail"), b.message("sms")
	work, newer := b.work("triaged"), b.work("triaged", func(n *driver.New) { n.Version, n.Fingerprint = "2", [32]byte{2} })
	sameName := b.work("mail")
	b.insert(mail, sms, work, newer, sameName)
	for _, n := range []driver.New{newer, mail} {
		got := b.claim(request(9, n.Route()))
		b.that(slices.Equal(refsOf(got), []driver.ID{n.Ref}), "route %s gave %v, want %v", n.Route(), refsOf(got), n.Ref)
	}
	b.that(len(b.claim(request(9))) == 0, "claimed without a route")
	b.that(len(b.claim(request(9, "m:fax", "w:", "m:", ""))) == 0, "claimed from a route that has nothing")
	got := b.claim(request(9, sameName.Route(), sms.Route(), work.Route()))
	b.that(len(got) == 3, "%d left, want 3", len(got))
}

func claimsLimits[TX any](b *bench[TX]) {
	for range 4 {
		b.insert(b.message("mail"), b.message("sms"), b.message("fax"))
	}
	r := request(2, "m:mail", "m:sms", "m:fax")
	r.Routes[1].Limit, r.Routes[2].Limit = 3, 0
	perRoute := map[string]int{}
	for _, c := range b.claim(r) {
		perRoute[c.Intent.Kind]++
	}
	b.that(perRoute["mail"] == 2 && perRoute["sms"] == 3 && perRoute["fax"] == 0, "claimed %v, want 2, 3 and 0", perRoute)
	r = request(4, "m:fax", "m:sms", "m:mail")
	r.Limit = 6 // of all together, in the order of routes
	due, err := b.Bound.Due(b.ctx, r)
	b.ok("due", err)
	clear(perRoute)
	got := b.claim(r)
	for _, c := range got {
		perRoute[c.Intent.Kind]++
	}
	b.that(len(got) == 6 && perRoute["fax"] == 4 && perRoute["sms"] == 1 && perRoute["mail"] == 1, "claimed %v, want 4, 1 and 1", perRoute)
	b.that(len(due) == 6, "%d due, want 6", len(due))
}

func claimsUntil[TX any](b *bench[TX]) {
	var refs []driver.ID
	for range 3 {
		refs = append(refs, b.add(b.message("mail")))
		b.shift(time.Minute)
	}
	r := request(9, "m:mail")
	r.Routes[0].Until = b.record(refs[1]).DueAt
	due, err := b.Bound.Due(b.ctx, r)
	b.ok("due", err)
	b.that(slices.Equal(due, refs[:2]), "until the second: %v, want %v", due, refs[:2])
	ofRefs := r
	ofRefs.Refs = refs[1:]
	got := b.claim(ofRefs)
	b.that(slices.Equal(refsOf(got), refs[1:2]), "of two refs claimed %v, want %v", refsOf(got), refs[1:2])
	got = b.claim(r)
	b.that(slices.Equal(refsOf(got), refs[:1]), "claimed %v, want %v", refsOf(got), refs[:1])
	m := b.message("mail")
	now, err := b.Bound.Now(b.ctx)
	b.ok("now", err)
	m.NotBefore = now.Add(time.Hour)
	r.Refs = []driver.ID{b.add(m)}
	r.Routes[0].Until = m.NotBefore.Add(time.Hour)
	b.that(len(b.claim(r)) == 0, "claimed what is not due yet")
}

func claimsAfter[TX any](b *bench[TX]) {
	var refs []driver.ID
	for i := range 6 {
		refs = append(refs, b.add(b.message("mail")))
		if i%2 == 1 {
			b.shift(time.Minute)
		}
	}
	at := func(i int) driver.ClaimRequest {
		r := request(2, "m:mail")
		r.Routes[0].After = driver.Position{DueAt: b.record(refs[i]).DueAt, Ref: refs[i]}
		return r
	}
	due, err := b.Bound.Due(b.ctx, at(2))
	b.ok("due", err)
	b.that(slices.Equal(due, refs[3:5]), "behind the third: %v, want %v", due, refs[3:5])
	got := b.claim(at(2))
	b.that(slices.Equal(refsOf(got), refs[3:5]), "claimed %v, want %v", refsOf(got), refs[3:5])
	r := request(2, "m:mail")
	r.Routes[0].After = driver.Position{DueAt: got[1].DueAt, Ref: got[1].Intent.Ref}
	got = b.claim(r)
	b.that(slices.Equal(refsOf(got), refs[5:]), "claimed %v, want %v", refsOf(got), refs[5:])
	b.that(len(b.claim(at(5))) == 0, "claimed behind the last")
	got = b.claim(request(9, "m:mail"))
	b.that(slices.Equal(refsOf(got), refs[:3]), "from the front %v, want %v", refsOf(got), refs[:3])
}

func claimsRefs[TX any](b *bench[TX]) {
	refs := b.insert(b.message("mail"), b.message("mail"), b.message("mail"), b.message("sms"))
	r := request(9, "m:mail")
	r.Refs = []driver.ID{refs[1], refs[3], driver.NewID()}
	got := b.claim(r)
	b.that(slices.Equal(refsOf(got), refs[1:2]), "claimed %v, want %v", refsOf(got), refs[1:2])
	r = request(1, "m:mail")
	r.Refs = []driver.ID{refs[0], refs[2]}
	b.that(len(b.claim(r)) == 1, "the limit does not hold for refs")
}

func claimsNothingElse[TX any](b *bench[TX]) {
	now, err := b.Bound.Now(b.ctx)
	b.ok("now", err)
	b.insert(b.message("mail", notBefore(now.Add(72*time.Hour))))
	b.insert(b.message("mail", about("customer:1")))
	_, err = b.Bound.Erase(b.ctx, []string{"customer:1"})
	b.ok("erase", err)
	ended := b.inFlight(b.message("mail"))
	b.apply(ended, is(lifecycle.EvSucceeded))
	failed := b.inFlight(b.message("mail"))
	b.apply(failed, is(lifecycle.EvRejected))
	cancelled := b.add(b.work("triaged"))
	b.apply(cancelled, is(lifecycle.EvCancel))
	late := b.add(b.message("mail"))
	b.that(b.claimable(late), "not claimable before its deadline")
	b.shift(24*time.Hour + time.Minute)
	before := b.everything()
	ofWork := b.record(cancelled).Intent
	r := request(9, "m:mail", ofWork.Route())
	for _, r.Suspects = range []bool{false, true} {
		got := b.claim(r)
		b.that(len(got) == 0, "claimed %v, want nothing", refsOf(got))
	}
	b.that(b.everything() == before, "a claim of nothing changed rows")
}

func claimExcludes[TX any](b *bench[TX]) {
	ref := b.add(b.message("mail"))
	b.take(ref)
	before := b.deliveryOf(ref)
	for _, suspects := range []bool{false, true} {
		r := request(9, "m:mail")
		r.Suspects = suspects
		b.that(len(b.claim(r)) == 0, "claimed twice")
	}
	b.that(b.deliveryOf(ref) == before, "a lost claim changed the row")
	b.shift(lease - time.Minute)
	b.that(!b.claimable(ref), "claimable a minute before the lease ends")
	b.shift(2 * time.Minute)
	b.that(b.claimable(ref), "not claimable after the lease")
}

func dueTakesNothing[TX any](b *bench[TX]) {
	refs := b.insert(b.message("mail"), b.message("mail"), b.message("mail"))
	before := b.everything()
	r := request(2, "m:mail")
	due, err := b.Bound.Due(b.ctx, r)
	b.ok("due", err)
	b.that(len(due) == 2, "%d due, the limit is 2", len(due))
	b.that(b.everything() == before, "looking changed rows")
	r.Owner = lifecycle.Token{}
	due, err = b.Bound.Due(b.ctx, r)
	b.ok("due", err)
	b.that(len(due) == 2, "%d due without an owner, want 2", len(due))
	b.that(slices.Equal(due, refsOf(b.claim(request(2, "m:mail")))), "a claim takes others than %v of %v", due, refs)
}

func heldFinds[TX any](b *bench[TX]) {
	work := b.work("triaged")
	b.insert(b.message("mail"), work, b.message("mail"))
	r := request(9, "m:mail", work.Route())
	held, err := b.Bound.Held(b.ctx, r)
	b.ok("held", err)
	b.that(len(held) == 0, "%d held before the claim", len(held))
	got := b.claim(r)
	b.claim(request(9, "m:mail"))
	held, err = b.Bound.Held(b.ctx, r)
	b.ok("held", err)
	b.that(len(held) == 3 && len(got) == 3, "claimed %d, held %d, want 3", len(got), len(held))
	byRef := map[driver.ID]driver.Claimed{}
	for _, c := range held {
		byRef[c.Intent.Ref] = c
	}
	for _, c := range got {
		h := byRef[c.Intent.Ref]
		h.State.DueIn, h.State.LeaseLeft, h.State.DeadlineLeft = c.State.DueIn, c.State.LeaseLeft, c.State.DeadlineLeft
		b.that(h.State == c.State && string(h.Intent.Payload) == string(c.Intent.Payload) && h.DueAt.Equal(c.DueAt),
			"held %+v, claimed %+v", h, c)
	}
	held, err = b.Bound.Held(b.ctx, request(9, "m:mail"))
	b.ok("held", err)
	b.that(len(held) == 0, "another owner holds %d", len(held))
	r.Owner = lifecycle.Token{}
	held, err = b.Bound.Held(b.ctx, r)
	b.ok("held", err)
	b.that(len(held) == 0, "nobody holds %d", len(held))
}

func claimCopiesContract[TX any](b *bench[TX]) {
	open := b.add(b.message("fax", under(lifecycle.Contract{})))
	fixed := b.add(b.message("fax", under(looped)))
	work := b.work("triaged")
	b.add(work)
	r := request(9, "m:fax")
	r.Routes[0].Contract = lifecycle.Contract{}
	got := b.claim(r)
	b.that(slices.Equal(refsOf(got), []driver.ID{fixed}), "a program without the channel claimed %v", refsOf(got))
	b.that(got[0].State.Contract == looped, "contract is %+v", got[0].State.Contract)
	first := with(looped, func(c *lifecycle.Contract) { c.MaxAttempts, c.Lease, c.Idempotent = 7, 20*time.Minute, true })
	r = request(9, "m:fax", work.Route())
	r.Routes[0].Contract, r.Routes[1].Contract = first, first
	got = b.claim(r)
	b.that(len(got) == 2, "claimed %d, want 2", len(got))
	record := b.record(open)
	b.that(record.State.Contract == first, "contract is %+v, want %+v", record.State.Contract, first)
	b.that(record.Deadline.Equal(record.DueAt.Add(first.MaxAge)), "deadline %s, due %s", record.Deadline, record.DueAt)
	b.that(record.State.LeaseLeft > 20*time.Minute-slack, "lease left is %s", record.State.LeaseLeft)
	for i := range got {
		if got[i].Intent.Ref == open {
			b.that(got[i].State.Contract == first, "handed out under %+v", got[i].State.Contract)
		}
	}
	b.that(b.record(work.Ref).State.Contract == scheduled, "a claim changed the contract of work")
	b.apply(open, is(lifecycle.EvReleased))
	r = request(9, "m:fax")
	r.Routes[0].Contract = with(first, func(c *lifecycle.Contract) { c.MaxAttempts, c.MaxAge = 2, time.Hour })
	b.claim(r)
	again := b.record(open)
	b.that(again.State.Contract == first && again.Deadline.Equal(record.Deadline), "a later claim changed the contract")
}
