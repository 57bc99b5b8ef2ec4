package lifecycle

import "time"

// EventKind names what happened to a delivery.
type EventKind uint8

const (
	// EvClaim: an owner takes the delivery (T2, T2b, T2c).
	EvClaim EventKind = iota + 1
	// EvStart: the owner marks that the effect may now happen (T3, T3b).
	EvStart
	// EvSucceeded: the owner observed a success (T4).
	EvSucceeded
	// EvNotSent: the owner knows that nothing complete was sent (T5).
	EvNotSent
	// EvRefused: a definite no that may be tried again (T5).
	EvRefused
	// EvRejected: a definite, final no (T5b).
	EvRejected
	// EvUnknown: the effect ended without a known outcome (T6).
	EvUnknown
	// EvStopped: the owner stops before the start, with Code (T7).
	EvStopped
	// EvUndecided: nothing could be decided before the start (T11).
	EvUndecided
	// EvPanicked: user code panicked before the start (T11b).
	EvPanicked
	// EvReleased: a graceful release before the start (T14).
	EvReleased
	// EvCallbackFailed: the handler failed after its effect succeeded (T9).
	EvCallbackFailed
	// EvInterrupted: shutdown ends a process-owned loop between attempts.
	EvInterrupted
	// EvSweep: nobody in particular looks at a delivery whose time may be over
	// (T8, T11b, T13).
	EvSweep
	// EvUnserved: no live program serves the kind or channel, with Code (T15).
	EvUnserved
	// EvCancel: an operator cancels (T12).
	EvCancel
	// EvResolved: a person recorded a finding, or a successor was sent.
	EvResolved
	// EvErase: the content is being erased.
	EvErase
	// EvHandClaim: claim and start in one write, for messages driven by hand.
	EvHandClaim
	// EvHandAttempt: the caller recorded an attempt that did not succeed.
	EvHandAttempt
	// EvHandDelivered: the caller marks the message delivered.
	EvHandDelivered
	// EvHandFailed: the caller gives up.
	EvHandFailed
	evEnd
)

var eventNames = [...]string{
	EvClaim: "claim", EvStart: "start", EvSucceeded: "succeeded", EvNotSent: "not_sent", EvRefused: "refused",
	EvRejected: "rejected", EvUnknown: "unknown", EvStopped: "stopped", EvUndecided: "undecided",
	EvPanicked: "panicked", EvReleased: "released", EvCallbackFailed: "callback_failed",
	EvInterrupted: "interrupted", EvSweep: "sweep", EvUnserved: "unserved", EvCancel: "cancel",
	EvResolved: "resolved", EvErase: "erase", EvHandClaim: "hand_claim", EvHandAttempt: "hand_attempt",
	EvHandDelivered: "hand_delivered", EvHandFailed: "hand_failed",
}

// String returns the event's name.
func (k EventKind) String() string { return word("event", int(k), eventNames[:]...) }

// EventKinds lists every event.
func EventKinds() []EventKind {
	kinds := make([]EventKind, 0, evEnd-1)
	for k := EvClaim; k < evEnd; k++ {
		kinds = append(kinds, k)
	}
	return kinds
}

// observes returns the outcome that an owner's event reports, and whether it
// reports one: an observed outcome is kept as late evidence when it is fenced.
// Giving up by hand says nothing about an attempt.
func (e *Event) observes() (Outcome, bool) {
	switch e.Kind {
	case EvSucceeded, EvHandDelivered:
		return Accepted, true
	case EvNotSent:
		return NotSent, true
	case EvRefused:
		return Refused, true
	case EvRejected:
		return Rejected, true
	case EvUnknown:
		return Unknown, true
	case EvHandAttempt:
		return e.told(), true
	}
	return 0, false
}

// told is the outcome of an attempt that its caller made by hand and that did not
// succeed. It is definite only where the caller vouches for it: without a word it
// may have timed out.
func (e *Event) told() Outcome {
	switch e.Told {
	case NotSent, Refused, Rejected:
		return e.Told
	}
	return Unknown
}

// owned reports whether only the holder of the claim may report the event.
func (k EventKind) owned() bool {
	switch k {
	case EvClaim, EvSweep, EvUnserved, EvCancel, EvResolved, EvErase, EvHandClaim:
		return false
	}
	return true
}

// Event is one thing that happened. Which fields count depends on Kind.
type Event struct {
	Kind EventKind

	// Owner and Generation name the claim: for EvClaim and EvHandClaim the new
	// owner, for what an owner reports the claim under which it acts.
	Owner      Token
	Generation int64

	// Attempt is the number of the attempt that an outcome belongs to. By hand the
	// caller counts its marks, so that late evidence of one never hides another.
	Attempt int

	// Digest is what EvStart and EvHandClaim bind.
	Digest Digest

	// Wait is how long to wait before the next attempt.
	Wait time.Duration

	// Code is why: for EvStopped, EvUnserved.
	Code Code

	// Contract is copied by EvClaim where the intent has none yet, and by
	// EvHandClaim always (its Lease is the caller's).
	Contract Contract

	// Told is what the caller of EvHandAttempt or EvHandFailed knows of its failure:
	// NotSent, Refused, Rejected, or else Unknown. An attempt of which nothing is
	// told is unknown; giving up tells of a failure only where this is set.
	Told Outcome

	// Retryable lets a rejection on the schedule be retried like a refusal,
	// where the channel's contract allows a number of such retries.
	Retryable bool

	// Error is the text kept with the attempt; it is never looked at here.
	Error string

	// HTTPStatus is the receiver's status code, 0 if there was none.
	HTTPStatus int

	// Proof is what the receiver has signed, checked by whoever reports the event.
	// Beside a failure it contradicts it, so that the outcome is uncertain; what it
	// says is never looked at here.
	Proof string
}
