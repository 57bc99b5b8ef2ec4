package lifecycle

import (
	"math"
	"time"
)

// Token is the owner of a claim: random, fresh for every claim call, so that a
// program that lost the answer can recognise its own. The zero token is nobody.
type Token [16]byte

// Digest is a SHA-256 of canonical bytes. The zero digest means "not bound".
type Digest [32]byte

// Never is the DeadlineLeft of a delivery that has no deadline.
const Never = time.Duration(math.MaxInt64)

// Contract holds what of a kind or channel is copied onto an intent and decides
// everything later, so that a reconfigured program affects new intents only.
type Contract struct {
	Retry       RetryOwner
	Idempotent  bool
	MaxAttempts int           // 0: no limit, for messages driven by hand
	Lease       time.Duration // how long a claim holds; for a process-owned loop it covers the whole loop
	Timeout     time.Duration // what one effect may take
	MaxAge      time.Duration // deadline, counted from the first due time; 0: none
}

// State is what a store knows about one delivery at the instant Now of the
// database clock. Durations are relative to that instant.
type State struct {
	Profile  Profile
	Contract Contract

	Status     Status
	Generation int64 // rises with every claim and every transition made without the owner
	Revision   int64 // rises with every change
	Owner      Token
	InFlight   bool // Delivering: an attempt may be on the wire (false: waiting in a process-owned loop)
	Attempts   int  // work counts an attempt as it starts, a message as it ends
	Crashes    int  // owners in a row that vanished before start
	Uncertain  bool // an effect may have happened and nobody knows
	Digest     Digest
	Code       Code
	Erased     bool

	GateOpen     bool          // no lower index of the same task stands before it
	DueIn        time.Duration // <= 0: due
	LeaseLeft    time.Duration // <= 0: over; meaningless without a lease
	DeadlineLeft time.Duration // <= 0: passed; Never: none
}

// AttemptNo is the number of the attempt that is in flight or would start next.
// With the generation it names one attempt for ever.
func (s *State) AttemptNo() int {
	if s.Profile == Work && s.Status == Delivering {
		return s.Attempts
	}
	return s.Attempts + 1
}

// Stranded reports whether s is a process-owned message that was started and
// whose lease is over: nothing drives it again, and a person must look at it.
func (s *State) Stranded() bool {
	return !s.Erased && s.Status == Delivering && s.Contract.Retry == Process &&
		(s.Owner == Token{} || s.LeaseLeft <= 0)
}

// handDriven reports whether s was claimed by hand: its caller owns the attempts,
// so they have no limit, and one start mark covers them all.
func (s *State) handDriven() bool {
	return s.Contract.Retry == Process && s.Contract.MaxAttempts == 0
}

// attemptsLeft reports whether another attempt may start after spent more have
// been counted.
func (s *State) attemptsLeft(spent int) bool {
	return s.Contract.MaxAttempts == 0 || s.Attempts+spent < s.Contract.MaxAttempts
}

// crashed is what a crash while delivering adds to the attempts: work counted
// its attempt at the start, a message counts it now.
func (s *State) crashed() int {
	if s.Profile == Message && s.InFlight {
		return 1
	}
	return 0
}
