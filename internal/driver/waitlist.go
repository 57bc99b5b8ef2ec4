package driver

import "context"

// Waitlist is what stores implement that can list the messages which wait to be
// started for the first time, for callers that drive them by hand.
type Waitlist interface {
	// Waiting returns up to limit messages behind after that are pending and were
	// never started, whoever may claim them and whether or not their gate is open,
	// in the order of task (none first, then byte by byte), index and ref. A zero
	// after is before the first. It looks at every open message to find them.
	Waiting(ctx context.Context, after Turn, limit int) ([]Turn, error)
}

// Turn is the place of a message in the order in which those of all tasks are
// started.
type Turn struct {
	Task  string // empty: none
	Index int
	Ref   ID
}
