package memory

import (
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// delivery is a row of the delivery table. A stored row is never changed in
// place: a change makes a new one, so that a batch which fails half-way has
// changed nothing. A zero time is none.
type delivery struct {
	ref       driver.ID
	createdAt time.Time
	route     string
	task      string // "": takes no part in any order
	taskIndex int
	gated     bool // task counts; an erasure ends that

	// state holds the stored part; what is relative to now is filled in by
	// tables.state.
	state lifecycle.State

	dueAt      time.Time // set while somebody may still claim it
	leaseUntil time.Time
	deadline   time.Time
	startedAt  time.Time
	updatedAt  time.Time
	reviewAt   time.Time
	erasedAt   time.Time
	program    string
	lastError  string
}

// newDelivery is how the delivery of n begins (T1).
func newDelivery(n *driver.New, now time.Time) *delivery {
	d := &delivery{
		ref: n.Ref, createdAt: now, updatedAt: now, route: n.Route(), dueAt: now,
		state: lifecycle.State{
			Profile: n.Profile, Contract: n.Contract, Status: lifecycle.Pending, Digest: n.Bound, Uncertain: n.Uncertain,
		},
	}
	if n.NotBefore.After(now) {
		d.dueAt = n.NotBefore.UTC().Truncate(time.Microsecond)
	}
	if n.Gated() {
		d.task, d.taskIndex, d.gated = n.Task, n.Index, true
	}
	d.fixDeadline()
	return d
}

// fixDeadline sets the deadline, once: the first due time plus the maximum age.
func (d *delivery) fixDeadline() {
	if d.deadline.IsZero() && d.state.Contract.MaxAge > 0 {
		d.deadline = d.dueAt.Add(d.state.Contract.MaxAge)
	}
}

// state returns what is known of d at now.
func (t *tables) state(d *delivery, now time.Time) lifecycle.State {
	s := d.state
	s.GateOpen = t.gateOpen(d, now)
	s.DeadlineLeft = lifecycle.Never
	if !d.dueAt.IsZero() {
		s.DueIn = d.dueAt.Sub(now)
	}
	if !d.leaseUntil.IsZero() {
		s.LeaseLeft = d.leaseUntil.Sub(now)
	}
	if !d.deadline.IsZero() {
		s.DeadlineLeft = d.deadline.Sub(now)
	}
	return s
}

// gateOpen reports whether no lower index of the same task stands before d.
func (t *tables) gateOpen(d *delivery, now time.Time) bool {
	if !d.gated {
		return true
	}
	for _, other := range t.tasks[d.task] {
		if other.taskIndex < d.taskIndex && other.standsBefore(now) {
			return false
		}
	}
	return true
}

// standsBefore reports whether higher indexes of the task wait for d: while it
// may still be started, or is being delivered. One whose lease is over counts for as
// long as somebody may claim it again, or its owner may still write that it was
// refused: it would be pending again, and a higher index have slipped in between.
func (d *delivery) standsBefore(now time.Time) bool {
	s := &d.state
	switch s.Status {
	case lifecycle.Pending, lifecycle.Leased:
		return true
	case lifecycle.Delivering:
		if d.leaseUntil.After(now) {
			return true
		}
		spent := s.Attempts
		if s.Profile == lifecycle.Message && s.InFlight {
			spent++ // the crash would count it
		}
		return s.Contract.Retry == lifecycle.Schedule &&
			(d.deadline.IsZero() || d.deadline.After(now)) &&
			(s.Contract.MaxAttempts == 0 || spent < s.Contract.MaxAttempts)
	}
	return false
}

// holds reports whether t may be applied to d at now.
func (d *delivery) holds(t *lifecycle.Transition, now time.Time) bool {
	s, f := &d.state, &t.Fence
	if s.Status != f.Status || s.Generation != f.Generation || s.Revision != f.Revision || s.Owner != f.Owner {
		return false
	}
	if t.Require.LeaseLeft > 0 && d.leaseUntil.Sub(now) < t.Require.LeaseLeft {
		return false
	}
	return !t.Require.DeadlineLeft || d.deadline.IsZero() || d.deadline.After(now)
}

// after returns the row that t makes of d. Relative times count from now.
func (d *delivery) after(t *lifecycle.Transition, now time.Time) *delivery {
	n, c := *d, &t.Set
	s := &n.state
	s.Status, s.Generation, s.Owner, s.InFlight = c.Status, c.Generation, c.Owner, c.InFlight
	s.Attempts, s.Crashes, s.Uncertain = c.Attempts, c.Crashes, c.Uncertain
	s.Digest, s.Code = c.Digest, c.Code
	s.Revision++
	if !d.state.Status.Terminal() { // else it stays the time of the end
		n.updatedAt = now
	}
	if c.SetContract {
		s.Contract = c.Contract
		n.fixDeadline()
	}
	n.leaseUntil = changed(c.Lease, n.leaseUntil, time.Time{}, now)
	n.dueAt = changed(c.Due, n.dueAt, n.leaseUntil, now)
	if !n.dueAt.IsZero() && !n.deadline.IsZero() && n.deadline.Before(n.dueAt) {
		n.dueAt = n.deadline // so that its passing is noticed in time
	}
	n.reviewAt = changed(c.Review, n.reviewAt, n.leaseUntil, now)
	if c.Started {
		n.startedAt = now
	}
	if c.SetError {
		n.lastError = c.Error
	}
	if c.Erased {
		s.Erased, n.erasedAt, n.gated = true, now, false
	}
	return &n
}

// changed carries out one instruction for a stored time.
func changed(c lifecycle.Change, stored, leaseEnd, now time.Time) time.Time {
	switch c {
	case lifecycle.Keep:
		return stored
	case lifecycle.Clear:
		return time.Time{}
	case lifecycle.AtLeaseEnd:
		return leaseEnd
	}
	return now.Add(time.Duration(c)).Truncate(time.Microsecond)
}

// logged is the log row that belongs to the change t of d.
func (d *delivery) logged(t *lifecycle.Transition, now time.Time) driver.Logged {
	l := driver.Logged{Ref: d.ref, Attempt: *t.Log, At: now}
	if d.state.Status == lifecycle.Delivering {
		l.StartedAt = d.startedAt
	}
	return l
}
