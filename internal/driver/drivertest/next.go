package drivertest

import (
	"slices"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

func nextTests[TX any]() []test[TX] {
	return []test[TX]{
		{"the lowest index behind", "a task goes on where it is, whatever else is due", nextIsLowest[TX]},
		{"of any channel that is asked for", "the next message of a task may be another channel's", nextOnAnotherChannel[TX]},
		{"nothing where nothing stands behind", "the end of a task, or no task, brings nothing else", nextOfNothing[TX]},
		{"two of the same index", "there is word of more than one", nextTwins[TX]},
		{"not past a closed gate", "a lower index that came late goes first", nextBehindLate[TX]},
		{"past what is stranded", "what stands before nobody is passed over", nextPastStranded[TX]},
		{"only what may be claimed", "not due, cancelled, a suspect: it is not taken", nextNotClaimable[TX]},
		{"limits hold", "no more is taken than there is room for", nextLimits[TX]},
	}
}

// next asks what a claim of what stands next would bring, looks, and makes it.
func (b *bench[TX]) next(r driver.ClaimRequest, steps ...driver.Step) []driver.ID {
	b.t.Helper()
	r.Next = steps
	due, err := b.Bound.Due(b.ctx, r)
	b.ok("due", err)
	got := refsOf(b.claim(r))
	b.that(slices.Equal(due, got), "due are %v, claimed %v", due, got)
	return got
}

// ends claims ref and delivers it.
func (b *bench[TX]) ends(ref driver.ID) {
	b.t.Helper()
	b.take(ref)
	b.apply(ref, is(lifecycle.EvStart))
	b.apply(ref, is(lifecycle.EvSucceeded))
}

func nextIsLowest[TX any](b *bench[TX]) {
	refs := b.insert(b.message("mail"), b.message("mail", task("a", 7)), b.message("mail", task("b", 0)),
		b.message("mail", task("a", 3)), b.message("mail", task("a", 0)), b.message("mail", task("b", 1)))
	b.ends(refs[4])
	got := b.next(request(9, "m:mail"), driver.Step{Task: "a", Index: 0})
	b.that(slices.Equal(got, refs[3:4]), "behind 0: %v of %v", got, refs)
	got = b.next(request(9, "m:mail"), driver.Step{Task: "a", Index: 3})
	b.that(len(got) == 0, "behind a leased one: %v", got)
	b.apply(refs[3], is(lifecycle.EvStart))
	b.apply(refs[3], is(lifecycle.EvSucceeded))
	b.ends(refs[2])
	got = b.next(request(9, "m:mail"), driver.Step{Task: "b", Index: 0}, driver.Step{Task: "a", Index: 3}, driver.Step{Task: "a", Index: 0})
	b.that(len(got) == 2 && slices.Contains(got, refs[1]) && slices.Contains(got, refs[5]), "of two tasks: %v of %v", got, refs)
}

func nextOnAnotherChannel[TX any](b *bench[TX]) {
	refs := b.insert(b.message("mail", task("a", 0)), b.message("fax", task("a", 1)), b.message("mail", task("a", 2)))
	b.ends(refs[0])
	step := driver.Step{Task: "a", Index: 0}
	got := b.next(request(9, "m:mail"), step)
	b.that(len(got) == 0, "its channel is not asked for: %v of %v", got, refs)
	got = b.next(request(9, "m:mail", "m:sms", "m:fax"), step)
	b.that(slices.Equal(got, refs[1:2]), "claimed %v of %v", got, refs)
}

func nextOfNothing[TX any](b *bench[TX]) {
	refs := b.insert(b.message("mail"), b.message("mail", task("a", 0)), b.message("mail", task("b", 0)))
	for _, step := range []driver.Step{{Task: "a", Index: 0}, {Task: "c", Index: -1}, {Task: "", Index: -1}} {
		got := b.next(request(9, "m:mail"), step)
		b.that(len(got) == 0, "behind %v: %v of %v", step, got, refs)
	}
	b.apply(refs[1], is(lifecycle.EvCancel))
	b.add(b.message("mail", task("a", 1), successor(refs[1], driver.Reissue)))
	got := b.next(request(9, "m:mail"), driver.Step{Task: "a", Index: 0})
	b.that(len(got) == 0, "a reissued one has no place in the task: %v", got)
}

func nextTwins[TX any](b *bench[TX]) {
	refs := b.insert(b.message("mail", task("a", 1)), b.message("mail", task("a", 1)), b.message("mail", task("a", 1)), b.message("mail", task("a", 2)))
	got := b.next(request(9, "m:mail"), driver.Step{Task: "a", Index: 0})
	b.that(len(got) == 2 && !slices.Contains(got, refs[3]), "claimed %v of %v", got, refs)
}

func nextBehindLate[TX any](b *bench[TX]) {
	refs := b.insert(b.message("mail", task("a", 1)), b.message("mail", task("a", 2)))
	b.ends(refs[0])
	low := b.add(b.message("mail", task("a", 0)))
	step := driver.Step{Task: "a", Index: 1}
	got := b.next(request(9, "m:mail"), step)
	b.that(len(got) == 0, "past a lower index: %v", got)
	b.apply(low, is(lifecycle.EvCancel))
	got = b.next(request(9, "m:mail"), step)
	b.that(slices.Equal(got, refs[1:]), "claimed %v of %v", got, refs)
}

func nextPastStranded[TX any](b *bench[TX]) {
	refs := b.insert(b.message("mail", task("a", 0)), b.message("mail", task("a", 1), under(looped)), b.message("mail", task("a", 2)))
	b.ends(refs[0])
	b.take(refs[1])
	b.apply(refs[1], is(lifecycle.EvStart))
	step := driver.Step{Task: "a", Index: 0}
	got := b.next(request(9, "m:mail"), step)
	b.that(len(got) == 0, "while it is delivered: %v", got)
	b.shift(lease + time.Minute)
	got = b.next(request(9, "m:mail"), step)
	b.that(slices.Equal(got, refs[2:]), "claimed %v of %v", got, refs)
}

func nextNotClaimable[TX any](b *bench[TX]) {
	step := driver.Step{Task: "a", Index: 0}
	ref := b.add(b.message("mail", task("a", 1)))
	b.inState(ref, lifecycle.EvUndecided, time.Hour)
	got := b.next(request(9, "m:mail"), step)
	b.that(len(got) == 0, "before its time: %v", got)
	b.shift(61 * time.Minute)
	b.take(ref)
	b.shift(lease + time.Minute)
	got = b.next(request(9, "m:mail"), step)
	b.that(len(got) == 0, "a suspect: %v", got)
	r := request(9, "m:mail")
	r.Suspects = true
	got = b.next(r, step)
	b.that(slices.Equal(got, []driver.ID{ref}), "suspects asked for: %v", got)
}

func nextLimits[TX any](b *bench[TX]) {
	var steps []driver.Step
	for _, name := range []string{"a", "b", "c"} {
		b.add(b.message("mail", task(name, 1)))
		steps = append(steps, driver.Step{Task: name, Index: 0})
	}
	r := request(9, "m:mail")
	r.Limit = 2
	got := b.next(r, steps...)
	b.that(len(got) == 2, "%d claimed, limit 2", len(got))
	got = b.next(request(0, "m:mail"), steps...)
	b.that(len(got) == 0, "%d claimed, limit of the route 0", len(got))
	got = b.next(request(9, "m:mail"), steps...)
	b.that(len(got) == 1, "%d claimed of 1 that is left", len(got))
}
