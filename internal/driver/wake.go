package driver

import "context"

// Waker is what stores implement that can carry hints between the programs on one
// database. A hint only shortens a wait: it may be lost, may come twice, and may
// come for nothing. Scanning finds everything without it.
type Waker interface {
	// Notify hints every program that listens on the same tables, this one
	// included, that something was committed, and says which engine hints: the zero
	// ID is none. It is called after the commit and in no transaction of anybody's.
	// Many calls at once are the caller's to avoid.
	Notify(ctx context.Context, from ID) error

	// Listen calls wake for every hint until ctx ends, and returns nil then. It
	// keeps a connection of its own, and makes a new one with growing pauses where
	// it was lost. It calls state with nil each time that hints were seen to
	// arrive, and with the reason once they do so no longer; what was hinted
	// between the two is lost. Both functions must not block.
	//
	// It gives up with ErrNoListen where the way to the database carries no hints,
	// and with ErrClosed where the database is closed.
	Listen(ctx context.Context, wake func(from ID), state func(err error)) error
}
