package driver

import (
	"errors"
	"strconv"
)

// ErrClosed: the transaction is finished, or the database is closed.
var ErrClosed = errors.New("transaction is closed")

// ErrNoSchema: the tables do not exist where the store looks for them.
var ErrNoSchema = errors.New("schema is missing")

// ErrTaken: there is an intent under a ref that the caller did not choose. Of work
// that is its key, which is taken in its run (see [WorkRef]).
var ErrTaken = errors.New("the ref is taken")

// ErrUnconfirmed: the answer to a commit was lost. Every other error of a commit
// means that nothing was committed.
var ErrUnconfirmed = errors.New("commit was not confirmed")

// ErrNoListen: hints do not arrive here, however often they are sent. A pooler that
// hands out connections for single transactions is the usual reason.
var ErrNoListen = errors.New("no notification arrives over this connection, as behind a transaction pooler")

// ConflictError: a row given to Insert exists with other content. It says which
// row of the call, and nothing about what is stored.
type ConflictError struct{ Index int }

// Error names the row's place in the call.
func (e *ConflictError) Error() string {
	return "row " + strconv.Itoa(e.Index) + " exists with other content"
}
