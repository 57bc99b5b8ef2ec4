package consign

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/consign-go/consign/internal/canon"
	"github.com/consign-go/consign/internal/driver"
)

// What callers branch on, with errors.Is. Every error that this package returns
// is an [*Error] that wraps one of these or the fault of the database; what the
// function of a run or a queue returns is handed on as it is.
var (
	// ErrInvalid: an argument breaks a rule or a limit. Error.Faults lists every
	// one of them; nothing was written.
	ErrInvalid = errors.New("invalid")

	// ErrConflict: what is asked for exists with other content: a message under
	// this ID, or work under this key of the run; or an approval was decided already.
	// It does not tell what is stored.
	ErrConflict = errors.New("exists with other content")

	// ErrNotFound: there is no such intent, or it was erased.
	ErrNotFound = errors.New("not found")

	// ErrNotPermitted: the authority said that the principal may not do this.
	ErrNotPermitted = errors.New("not permitted")

	// ErrNotApproved: the operation needs an approval, and the one named does not
	// serve, or none was. Error.Code says why; see [CodeApprovalRequired] and those
	// after it.
	ErrNotApproved = errors.New("not approved")

	// ErrRevoked: the actor has no authority in this tenant any more. An
	// [Authority] returns it as its definite no.
	ErrRevoked = errors.New("authority is revoked")

	// ErrUnavailable: the target does not exist in the principal's scope. An
	// [Authority] returns it as its definite no.
	ErrUnavailable = errors.New("target is unavailable")

	// ErrFenced: somebody else holds the intent by now, or it has ended. The write
	// changed nothing; an outcome that it told of is kept as late evidence.
	ErrFenced = errors.New("fenced")

	// ErrClosed: the transaction is finished, the run has ended, or the database was
	// closed by the program.
	ErrClosed = errors.New("closed")

	// ErrStopped: the delivery was stopped before its effect, which was not called.
	// Error.Code says why.
	ErrStopped = errors.New("stopped before the effect")

	// ErrSchema: the tables are missing, or of a version that this program does
	// not work with. Package migrate brings them up.
	ErrSchema = errors.New("database schema does not fit this program")

	// ErrUnconfirmed: the database did not confirm the commit, so the write may
	// have happened or may still happen. Look for the refs or the run returned with
	// it, or repeat the call with the same message IDs, which is harmless.
	ErrUnconfirmed = errors.New("commit was not confirmed")
)

// Error is what every call of this package returns when it fails. Its text names
// the operation, then each fault with its limit; it never contains a payload, a
// recipient or anything else that was stored or passed.
type Error struct {
	Op     string  // the operation: "enqueue", "run", …
	Code   Code    // why a delivery or a program does not go on; empty: nothing to say
	Ref    Ref     // the intent that it is about; zero: none
	Faults []Fault // what is wrong with the arguments, all of it
	Err    error   // what to branch on; never nil
}

// Fault is one thing that is wrong with an argument.
type Fault struct {
	// Field is the field as the caller wrote it, lower case: "payload.lines[2]". A
	// member of a map or of raw JSON is written {n}, the n-th from 0 (of a map in
	// the order of its keys), because its name may be content.
	Field string
	Rule  string // the rule and the limit: "4097 bytes, limit 4096"
}

// Error returns the field and the rule. A Validate method of an input may return
// a Fault, or several joined.
func (f Fault) Error() string { return f.Field + " " + f.Rule }

// Error returns "consign: operation: what is wrong", with the code if there is one.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("consign: " + e.Op + ": ")
	if e.Code != "" {
		b.WriteString(string(e.Code) + ": ")
	}
	if len(e.Faults) == 0 {
		b.WriteString(e.Err.Error())
		return b.String()
	}
	for i, f := range e.Faults {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(f.Field + " " + f.Rule)
	}
	return b.String()
}

// Unwrap returns what to branch on.
func (e *Error) Unwrap() error { return e.Err }

// faults collects what is wrong with the arguments of one call.
type faults []Fault

func (fs *faults) add(field, rule string) { *fs = append(*fs, Fault{field, rule}) }

// addCanon adds what the canonicaliser found in the value called field.
func (fs *faults) addCanon(field string, err error) {
	var c *canon.Error
	if !errors.As(err, &c) {
		fs.add(field, err.Error())
		return
	}
	for _, f := range c.Faults {
		path := field
		if f.Path != "" && !strings.HasPrefix(f.Path, "[") {
			path += "."
		}
		fs.add(path+f.Path, f.Rule)
	}
}

// err returns nil if nothing is wrong.
func (fs faults) err(op string) error {
	if len(fs) == 0 {
		return nil
	}
	return &Error{Op: op, Faults: fs, Err: ErrInvalid}
}

// text checks a short text: min to max bytes of printable ASCII.
func (fs *faults) text(field, s string, min, max int) {
	if len(s) < min || len(s) > max {
		fs.add(field, strconv.Itoa(len(s))+" bytes, limit "+strconv.Itoa(min)+" to "+strconv.Itoa(max))
		return
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			fs.add(field, "byte "+strconv.Itoa(i)+" is not printable ASCII")
			return
		}
	}
}

// failure turns an error of a store or of user code into an *Error of op. What
// is one already keeps its own operation.
func failure(op string, err error) error {
	var own *Error
	var conflict *driver.ConflictError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return err
	case errors.As(err, &conflict):
		return &Error{Op: op, Err: ErrConflict}
	case errors.Is(err, driver.ErrTaken):
		return &Error{Op: op, Err: ErrConflict}
	case errors.Is(err, driver.ErrClosed):
		return &Error{Op: op, Err: wrapped{ErrClosed, "the transaction, or the database, is closed"}}
	case errors.Is(err, driver.ErrNoSchema):
		return &Error{Op: op, Err: wrapped{ErrSchema, "the tables are missing where this store looks for them; " +
			"run migrate.Up, or give the store the schema or prefix that they are in"}}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &Error{Op: op, Err: err}
	}
	return &Error{Op: op, Err: err}
}

// wrapped is a sentinel with a text of its own.
type wrapped struct {
	error
	text string
}

func (w wrapped) Error() string { return w.text }
func (w wrapped) Unwrap() error { return w.error }
