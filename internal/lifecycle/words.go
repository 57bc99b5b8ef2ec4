package lifecycle

import "strconv"

// Profile says which of the two shapes of intent a delivery belongs to.
type Profile uint8

const (
	// Work is the typed post-commit delivery of an admitted operation. It is
	// always schedule-owned.
	Work Profile = 1
	// Message is a stored payload that a channel sends as it is.
	Message Profile = 2
)

// String returns "work" or "message".
func (p Profile) String() string { return word("profile", int(p), "", "work", "message") }

// Status is the state of a delivery. The numbers are stored; they never change.
type Status uint8

const (
	// Pending waits for its due time and a claim.
	Pending Status = 0
	// Leased is held by an owner that has not started its effect.
	Leased Status = 1
	// Delivering is started: bytes may have left.
	Delivering Status = 2
	// Succeeded is terminal: a success was observed.
	Succeeded Status = 3
	// Failed is terminal, and the only way in which a message stops.
	Failed Status = 4
	// Cancelled is terminal: work that was certainly never accepted by the far
	// side and will not be sent.
	Cancelled Status = 5
	// ReconciliationRequired is terminal: a person must look at this work.
	ReconciliationRequired Status = 6
)

// Statuses lists every status in the order of its number.
var Statuses = []Status{Pending, Leased, Delivering, Succeeded, Failed, Cancelled, ReconciliationRequired}

// String returns the status as it is written in documents and output.
func (s Status) String() string {
	return word("status", int(s), "pending", "leased", "delivering", "succeeded", "failed", "cancelled",
		"reconciliation_required")
}

// Terminal reports whether s is an end: a terminal status never changes.
func (s Status) Terminal() bool { return s >= Succeeded }

// Public returns the word shown for s: work shows every status by its own name;
// messages show exactly pending (also while leased), delivering, delivered and
// failed.
func (s Status) Public(p Profile) string {
	if p == Message {
		switch s {
		case Leased:
			return Pending.String()
		case Succeeded:
			return "delivered"
		}
	}
	return s.String()
}

// RetryOwner says who may start an effect again.
type RetryOwner uint8

const (
	// Unclaimed is the retry owner of a message whose creating program did not
	// know its channel: the contract is copied at the first claim.
	Unclaimed RetryOwner = 0
	// Process: only the process that holds the claim, in a bounded loop. Nothing
	// else ever starts the message again.
	Process RetryOwner = 1
	// Schedule: definite outcomes, and unknown ones of idempotent deliveries, go
	// back to the database with a due time.
	Schedule RetryOwner = 2
)

// String returns "unclaimed", "process" or "schedule".
func (r RetryOwner) String() string { return word("retry", int(r), "unclaimed", "process", "schedule") }

// Outcome is what is known about one attempt. The numbers are stored.
type Outcome uint8

const (
	// NotSent: proof that no complete request was seen by the far side.
	NotSent Outcome = 1
	// Refused: a definite no that asks to be tried again.
	Refused Outcome = 2
	// Rejected: a definite, final no.
	Rejected Outcome = 3
	// Unknown: some effect may have happened and nobody knows.
	Unknown Outcome = 4
	// Accepted: a success was observed. Logged only as late evidence, since a
	// plain success writes no log row.
	Accepted Outcome = 5
	// Crashed: the owner vanished, or its code panicked before the effect.
	Crashed Outcome = 6
)

// String returns the outcome as it is written in documents and output.
func (o Outcome) String() string {
	return word("outcome", int(o), "", "not_sent", "refused", "rejected", "unknown", "accepted", "crashed")
}

// word returns names[n]; a number that this version does not know is printed
// with its kind, so that a newer row never looks like an older word.
func word(kind string, n int, names ...string) string {
	if n < len(names) && names[n] != "" {
		return names[n]
	}
	return kind + "(" + strconv.Itoa(n) + ")"
}
