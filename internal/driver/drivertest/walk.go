package drivertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

func walkTests[TX any]() []test[TX] {
	return []test[TX]{
		{"finds what is overdue and nothing else", "the sweep sees passed deadlines and leases that are over", overdueFinds[TX]},
		{"pages through everything once", "a walk with any limit sees each open delivery once", overduePages[TX]},
		{"goes on while rows change", "a sweep that changes what it walks over misses nothing and comes to an end", overdueWhileChanging[TX]},
		{"a walk of nothing ends", "an empty index is a finished walk", overdueEmpty[TX]},
		{"leaves unclaimed contracts alone", "what has no deadline yet is not overdue, and stays due", overdueUnclaimed[TX]},
		{"Routes names what is open", "what nobody serves is found by its route", routesNames[TX]},
	}
}

// walk pages through the open deliveries and calls fn for each overdue one.
func (b *bench[TX]) walk(limit int, fn func(driver.Overdue)) (pages int) {
	b.t.Helper()
	var at driver.Cursor
	for {
		found, next, err := b.Bound.Overdue(b.ctx, driver.OverdueRequest{After: at, Limit: limit})
		b.ok("overdue", err)
		pages++
		b.that(len(found) <= limit, "a page of %d, the limit is %d", len(found), limit)
		for _, o := range found {
			fn(o)
		}
		if next == (driver.Cursor{}) {
			return pages
		}
		b.that(pages < 1000, "the walk does not end")
		at = next
	}
}

func overdueFinds[TX any](b *bench[TX]) {
	short := with(scheduled, func(c *lifecycle.Contract) { c.MaxAge = 5 * time.Minute })
	fresh := b.add(b.message("mail"))
	expired := b.add(b.message("mail", under(short)))
	leased := b.add(b.work("triaged"))
	b.take(leased)
	started := b.inFlight(b.message("sms"))
	waiting := b.inFlight(b.message("mail"))
	b.apply(waiting, lifecycle.Event{Kind: lifecycle.EvRefused, Wait: time.Hour})
	ended := b.inFlight(b.message("mail"))
	b.apply(ended, is(lifecycle.EvSucceeded))
	b.inFlight(b.message("loop", under(looped)))
	b.insert(b.message("mail", under(short), about("customer:1")))
	_, err := b.Bound.Erase(b.ctx, []string{"customer:1"})
	b.ok("erase", err)
	held := b.add(b.message("mail", under(with(scheduled, func(c *lifecycle.Contract) { c.Lease = 5 * time.Hour }))))
	b.take(held)
	b.shift(lease + time.Minute)
	found := map[driver.ID]driver.Overdue{}
	b.walk(100, func(o driver.Overdue) { found[o.Ref] = o })
	b.that(len(found) == 3, "found %d, want 3; fresh %s, held %s, waiting %s", len(found), fresh, held, waiting)
	for _, ref := range []driver.ID{expired, leased, started} {
		o, r := found[ref], b.record(ref)
		want := r.State
		want.DueIn, want.LeaseLeft, want.DeadlineLeft, want.GateOpen = o.State.DueIn, o.State.LeaseLeft, o.State.DeadlineLeft, o.State.GateOpen
		b.that(o.State == want && o.Route == r.Intent.Route(), "found %+v, stored %+v", o, r.State)
		near := func(a, b time.Duration) bool { return (a - b).Abs() < slack }
		b.that(near(o.State.LeaseLeft, r.State.LeaseLeft) && near(o.State.DeadlineLeft, r.State.DeadlineLeft) &&
			near(o.State.DueIn, r.State.DueIn), "found %+v, stored %+v", o.State, r.State)
	}
}

func overduePages[TX any](b *bench[TX]) {
	var rows []driver.New
	for i := range 23 {
		rows = append(rows, b.message(fmt.Sprint("channel ", i%3)), b.work("triaged"))
	}
	want := b.insert(rows...)
	b.shift(25 * time.Hour)
	slices.SortFunc(want, compareIDs)
	for _, limit := range []int{1, 2, 5, 45, 46, 47, 1000} {
		var seen []driver.ID
		b.walk(limit, func(o driver.Overdue) { seen = append(seen, o.Ref) })
		slices.SortFunc(seen, compareIDs)
		b.that(slices.Equal(seen, want), "limit %d: %d visits of %d deliveries", limit, len(seen), len(want))
	}
	found, _, err := b.Bound.Overdue(b.ctx, driver.OverdueRequest{})
	b.ok("overdue", err)
	b.that(len(found) == len(want), "the default limit finds %d", len(found))
}

func compareIDs(a, b driver.ID) int { return slices.Compare(a[:], b[:]) }

func overdueWhileChanging[TX any](b *bench[TX]) {
	var rows []driver.New
	for range 20 {
		rows = append(rows, b.message("mail"))
	}
	want := b.insert(rows...)
	b.shift(25 * time.Hour)
	seen := map[driver.ID]int{}
	b.walk(3, func(o driver.Overdue) {
		seen[o.Ref]++
		if len(seen)%2 == 0 { // ends, and leaves the index behind the walk
			t := policy.Apply(o.State, is(lifecycle.EvSweep))
			t.Ref = o.Ref
			b.that(b.compareAndSet(t), "a sweep did not hold")
		}
		if len(seen) == 7 { // a row that the walk has not come to vanishes, others come
			b.apply(want[19], is(lifecycle.EvCancel))
			b.insert(b.message("mail"), b.message("aaa"))
		}
	})
	b.that(seen[want[19]] == 0, "what ended before the walk came to it was found")
	for i, ref := range want[:19] {
		b.that(seen[ref] == 1, "row %d was visited %d times", i, seen[ref])
	}
}

func overdueEmpty[TX any](b *bench[TX]) {
	found, next, err := b.Bound.Overdue(b.ctx, driver.OverdueRequest{Limit: 5})
	b.ok("overdue", err)
	b.that(len(found) == 0 && next == driver.Cursor{}, "found %v, go on at %v", found, next)
	b.insert(b.message("mail"))
	b.that(b.walk(1, func(driver.Overdue) { b.that(false, "found something") }) <= 2, "a walk of one row takes more than two pages")
	routes, err := b.Bound.Routes(b.ctx)
	b.ok("routes", err)
	b.that(len(routes) == 1, "%d routes", len(routes))
}

func overdueUnclaimed[TX any](b *bench[TX]) {
	open := b.add(b.message("fax", under(lifecycle.Contract{})))
	b.shift(100 * time.Hour)
	b.walk(5, func(driver.Overdue) { b.that(false, "overdue without a deadline or a lease") })
	due, err := b.Bound.Due(b.ctx, request(5, "m:fax"))
	b.ok("due", err)
	b.that(slices.Equal(due, []driver.ID{open}), "due %v", due)
}

func routesNames[TX any](b *bench[TX]) {
	work := b.work("triaged")
	newer := b.work("triaged", func(n *driver.New) { n.Version, n.Fingerprint = "2", [32]byte{2} })
	b.insert(work)
	b.shift(time.Minute)
	b.insert(newer, b.work("triaged"), b.message("mail"))
	now, err := b.Bound.Now(b.ctx)
	b.ok("now", err)
	b.insert(b.message("later", notBefore(now.Add(time.Hour))))
	leased := b.add(b.message("leased"))
	b.take(leased)
	ended := b.inFlight(b.message("ended"))
	b.apply(ended, is(lifecycle.EvSucceeded))
	routes, err := b.Bound.Routes(b.ctx)
	b.ok("routes", err)
	byRoute := map[string]driver.Route{}
	for _, r := range routes {
		_, twice := byRoute[r.Route]
		b.that(!twice, "route %s twice", r.Route)
		byRoute[r.Route] = r
	}
	want := []driver.Route{
		{Route: work.Route(), Profile: lifecycle.Work, Kind: "triaged", Version: "1", Fingerprint: work.Fingerprint},
		{Route: newer.Route(), Profile: lifecycle.Work, Kind: "triaged", Version: "2", Fingerprint: newer.Fingerprint},
		{Route: "m:mail", Profile: lifecycle.Message, Kind: "mail"},
		{Route: "m:later", Profile: lifecycle.Message, Kind: "later"},
		{Route: "m:leased", Profile: lifecycle.Message, Kind: "leased"},
	}
	b.that(len(routes) == len(want), "%d routes, want %d: %+v", len(routes), len(want), routes)
	for _, w := range want {
		got := byRoute[w.Route]
		w.OldestDue = got.OldestDue
		b.that(got == w, "route %+v, want %+v", got, w)
	}
	b.that(byRoute[work.Route()].OldestDue.Equal(b.record(work.Ref).DueAt), "oldest due %s", byRoute[work.Route()].OldestDue)
}
