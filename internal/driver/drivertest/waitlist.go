package drivertest

import (
	"bytes"
	"slices"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

func waitlistTests[TX any]() []test[TX] {
	return []test[TX]{
		{"by task, then index", "a lower index of a task comes before a higher one; those without a task come first", waitingInOrder[TX]},
		{"only what was never started", "what may have been sent is not offered again", waitingUnstarted[TX]},
		{"in pages", "each page goes on behind the last, whatever changes in between", waitingPages[TX]},
	}
}

// waiting returns one page.
func (b *bench[TX]) waiting(after driver.Turn, limit int) []driver.Turn {
	b.t.Helper()
	w, ok := any(b.Bound).(driver.Waitlist)
	b.that(ok, "the driver is no driver.Waitlist")
	turns, err := w.Waiting(b.ctx, after, limit)
	b.ok("waiting", err)
	return turns
}

func waitingRefs(turns []driver.Turn) []driver.ID {
	refs := make([]driver.ID, len(turns))
	for i, t := range turns {
		refs[i] = t.Ref
	}
	return refs
}

func waitingInOrder[TX any](b *bench[TX]) {
	b.that(len(b.waiting(driver.Turn{}, 10)) == 0, "something waits in an empty database")
	at := func(name string, index int) driver.ID { return b.add(b.message("mail", task(name, index))) }
	a10, b0, a2, upper, accent := at("a", 10), at("b", 0), at("a", 2), at("B", 7), at("ä", 0)
	none := b.add(b.message("sms"))
	late := b.add(b.message("zzz", func(n *driver.New) { n.Index = 3 })) // an index without a task
	twin := b.insert(b.message("mail", task("a", 2)), b.message("sms", task("a", 2)))
	b.insert(b.work("triaged"), b.work("mail"))
	want := []driver.ID{none, late, upper, a2, twin[0], twin[1], a10, b0, accent}
	slices.SortFunc(want[3:6], compareIDs) // one turn, so by ref
	got := b.waiting(driver.Turn{}, 100)
	b.that(slices.Equal(waitingRefs(got), want), "waiting\n%v, want\n%v", got, want)
	b.that(got[3].Task == "a" && got[3].Index == 2 && got[1] == driver.Turn{Index: 3, Ref: late}, "turns are %+v", got)
}

func waitingUnstarted[TX any](b *bench[TX]) {
	fresh := b.add(b.message("mail"))
	unclaimed := b.add(b.message("fax", under(lifecycle.Contract{})))
	later := b.add(b.message("mail", notBefore(b.clock().Add(time.Hour))))
	gated := b.insert(b.message("mail", task("order 7", 0)), b.message("mail", task("order 7", 1)))
	released := b.add(b.message("mail"))
	b.take(released)
	b.apply(released, is(lifecycle.EvReleased))

	leased := b.add(b.message("mail"))
	b.take(leased)
	b.inFlight(b.message("mail"))
	b.inFlight(b.message("loop", under(looped)))
	retried := b.inFlight(b.message("mail"))
	b.apply(retried, is(lifecycle.EvRefused))
	ended := b.inFlight(b.message("mail"))
	b.apply(ended, is(lifecycle.EvSucceeded))
	cancelled := b.add(b.message("mail"))
	b.apply(cancelled, is(lifecycle.EvCancel))
	byHand := b.add(b.message("mail"))
	b.apply(byHand, lifecycle.Event{Kind: lifecycle.EvHandClaim, Owner: token(), Contract: looped})
	b.insert(b.message("mail", about("customer:1")))
	b.erase("customer:1")

	want := append([]driver.ID{fresh, unclaimed, later, released}, gated...)
	slices.SortFunc(want, compareIDs)
	got := waitingRefs(b.waiting(driver.Turn{}, 100))
	slices.SortFunc(got, compareIDs)
	b.that(slices.Equal(got, want), "waiting %v, want %v", got, want)
}

func waitingPages[TX any](b *bench[TX]) {
	var rows []driver.New
	for i := range 23 {
		rows = append(rows, b.message("mail", task([]string{"", "a", "b"}[i%3], i/6)))
	}
	b.insert(rows...)
	all := b.waiting(driver.Turn{}, 100)
	b.that(len(all) == len(rows), "%d of %d wait", len(all), len(rows))
	b.that(len(b.waiting(driver.Turn{}, 0)) == 0, "a limit of none finds some")
	for _, limit := range []int{1, 4, 23, 24} {
		var seen []driver.Turn
		var after driver.Turn
		for {
			page := b.waiting(after, limit)
			b.that(len(page) <= limit, "a page of %d, the limit is %d", len(page), limit)
			if len(page) == 0 {
				break
			}
			seen = append(seen, page...)
			after = page[len(page)-1]
		}
		b.that(slices.Equal(seen, all), "limit %d: seen %v, want %v", limit, seen, all)
	}
	b.apply(all[5].Ref, is(lifecycle.EvCancel)) // the page before ended here
	rest := b.waiting(all[5], 100)
	b.that(slices.Equal(rest, all[6:]), "behind one that is gone: %v, want %v", rest, all[6:])
	b.that(bytes.Compare(all[0].Ref[:], all[1].Ref[:]) < 0, "equal turns are not in the order of refs")
}
