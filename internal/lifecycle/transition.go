package lifecycle

import "time"

// Answer says what a transition means for its caller.
type Answer uint8

const (
	// Apply: the store must compare and set.
	Apply Answer = iota + 1
	// Unchanged: there is nothing to do, and that is no fault: a claim that is
	// not possible, a repeated mark, a sweep that came too early.
	Unchanged
	// Refuse: the write is fenced or not allowed in this status. Nothing changes;
	// an observed outcome is appended as late evidence.
	Refuse
	// TooLate: the owner's lease no longer has room for the effect. Nothing
	// changes; the owner gives the delivery back.
	TooLate
)

// String returns the answer's name.
func (a Answer) String() string {
	return word("answer", int(a), "", "apply", "unchanged", "refuse", "too_late")
}

// Change is an instruction for a stored point in time: [Keep] it, [Clear] it,
// or set it to that long after the database's now.
type Change time.Duration

const (
	// Keep leaves the stored time as it is.
	Keep Change = -1 << 62
	// Clear removes the stored time.
	Clear Change = -1<<62 + 1
	// AtLeaseEnd sets the time to the end of the current lease.
	AtLeaseEnd Change = -1<<62 + 2
)

// After is the change that sets a time to d after the database's now; a
// negative d counts as zero.
func After(d time.Duration) Change { return Change(max(d, 0)) }

// Fence is what must still be so for a write to change anything.
type Fence struct {
	Status     Status
	Generation int64
	Revision   int64
	Owner      Token
}

// Require is what must hold on the database clock at the instant of the write.
// Only what time can take away is asked again; that a lease or deadline is over
// stays true for as long as the revision is the same.
type Require struct {
	LeaseLeft    time.Duration // > 0: at least this much of the lease remains
	DeadlineLeft bool          // the deadline, if there is one, has not passed
}

// Transition is the whole instruction for one write to one delivery. The store
// adds one to the revision of what it changes, and decides nothing.
type Transition struct {
	Ref     [16]byte // filled in by the caller
	Answer  Answer
	Code    Code // what to report; for Refuse and TooLate it is never stored
	Fence   Fence
	Require Require
	Set     Columns
	Log     *Attempt // written in the same write as the change
}

// Columns are the new values of the mutable part.
type Columns struct {
	Status      Status
	Generation  int64
	Owner       Token
	InFlight    bool
	Attempts    int
	Crashes     int
	Uncertain   bool
	Digest      Digest
	Code        Code
	Due         Change // capped at the deadline by the store, so that the deadline is noticed in time
	Lease       Change
	Review      Change // from when on a person is asked to look; cleared by an end that needs nobody
	Started     bool   // stamp the start
	Erased      bool   // stamp the erasure; the store removes content in the same transaction
	SetError    bool   // replace the last error by Error (empty: none)
	Error       string
	SetContract bool // copy Contract; a deadline that is not set yet is the due time plus MaxAge
	Contract    Contract
}

// Attempt is a row of the attempt log. Plain successes have none.
type Attempt struct {
	Generation int64
	Number     int
	Outcome    Outcome
	Code       Code
	Error      string
	HTTPStatus int
	Wait       time.Duration // what the receiver or the schedule asked for
	Late       bool          // appended after the claim was lost
	Proof      string        // what the receiver has signed; empty: nothing
}
