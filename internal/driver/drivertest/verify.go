package drivertest

import (
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// slack is how far apart two readings of a running clock may lie in one test.
const slack = 30 * time.Second

// verify checks that after is what t makes of before, column by column.
func (b *bench[TX]) verify(before driver.Record, t lifecycle.Transition, after driver.Record) {
	b.t.Helper()
	c, s := &t.Set, after.State
	contract := before.State.Contract
	if c.SetContract {
		contract = c.Contract
	}
	want := lifecycle.State{
		Profile: before.State.Profile, Contract: contract, Status: c.Status, Generation: c.Generation,
		Revision: before.State.Revision + 1, Owner: c.Owner, InFlight: c.InFlight, Attempts: c.Attempts,
		Crashes: c.Crashes, Uncertain: c.Uncertain, Digest: c.Digest, Code: c.Code,
		Erased: before.State.Erased || c.Erased,
	}
	want.GateOpen, want.DueIn, want.LeaseLeft, want.DeadlineLeft = s.GateOpen, s.DueIn, s.LeaseLeft, s.DeadlineLeft
	b.that(s == want, "state is\n%+v, want\n%+v", s, want)

	b.that(!after.UpdatedAt.Before(before.UpdatedAt), "updated time went back")
	now := after.UpdatedAt
	deadline := before.Deadline
	if c.SetContract && deadline.IsZero() && contract.MaxAge > 0 {
		deadline = before.DueAt.Add(contract.MaxAge)
	}
	b.that(after.Deadline.Equal(deadline), "deadline %s, want %s", after.Deadline, deadline)
	b.changed("lease", c.Lease, before.LeaseUntil, after.LeaseUntil, after.LeaseUntil, now, time.Time{})
	b.changed("due", c.Due, before.DueAt, after.DueAt, after.LeaseUntil, now, deadline)
	b.changed("review", c.Review, before.ReviewAt, after.ReviewAt, after.LeaseUntil, now, time.Time{})

	if c.Started {
		b.that(near(after.StartedAt, now), "started %s, changed %s", after.StartedAt, now)
	} else {
		b.that(after.StartedAt.Equal(before.StartedAt), "started time changed to %s", after.StartedAt)
	}
	b.that(after.ErasedAt.IsZero() != after.State.Erased, "erased at %s", after.ErasedAt)
	text := before.LastError
	if c.SetError {
		text = c.Error
	}
	b.that(after.LastError == text, "last error %q, want %q", after.LastError, text)
	b.that(after.Program == before.Program, "program changed to %q", after.Program)
}

// changed checks one stored time against the instruction for it.
func (b *bench[TX]) changed(what string, c lifecycle.Change, before, after, leaseEnd, now, limit time.Time) {
	b.t.Helper()
	want := before
	switch c {
	case lifecycle.Keep:
	case lifecycle.Clear:
		want = time.Time{}
	case lifecycle.AtLeaseEnd:
		want = leaseEnd
	default:
		want = now.Add(time.Duration(c))
	}
	if !limit.IsZero() && want.After(limit) {
		want = limit
	}
	b.that(want.IsZero() == after.IsZero() && near(want, after), "%s is %s, want %s", what, after, want)
}

func near(a, b time.Time) bool { return a.Sub(b).Abs() < slack }
