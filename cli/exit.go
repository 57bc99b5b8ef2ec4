package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/operator"
)

// The exit codes.
const (
	ExitDone    = 0 // it is done
	ExitFailed  = 1 // it failed
	ExitUsage   = 2 // the command, an argument or the configuration was not understood
	ExitRefused = 3 // refused: fenced, a conflict, not permitted
	ExitNothing = 4 // nothing matched
)

// Error is an error of a command with its exit code and its second line.
type Error struct {
	Code int    // one of ExitFailed to ExitNothing
	Err  error  // what happened
	Next string // what to do next, a whole sentence
}

// Error returns what happened.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// usage is an error about the arguments.
func usage(format string, args ...any) error {
	return &Error{Code: ExitUsage, Err: fmt.Errorf(format, args...)}
}

// judge returns the exit code of an error and what to do next.
func judge(name, command string, err error) (int, string) {
	code, next := ExitFailed, ""
	var own *Error
	if errors.As(err, &own) {
		code, next = own.Code, own.Next
	} else {
		code, next = known(name, err)
	}
	switch {
	case next != "":
	case code == ExitUsage:
		next = fmt.Sprintf("See \"%s help\".", strings.TrimSpace(name+" "+command))
	default:
		next = fmt.Sprintf("Run \"%s doctor\": it looks for the usual causes.", name)
	}
	return code, next
}

// known are the errors of the library that a command has nothing to add to.
func known(name string, err error) (int, string) {
	switch {
	case errors.Is(err, consign.ErrInvalid):
		return ExitUsage, ""
	case errors.Is(err, consign.ErrNotFound):
		return ExitNothing, "Check the ref: it may have been pruned or erased, or be in another database."
	case errors.Is(err, consign.ErrConflict):
		return ExitRefused, "Use another ID, or repeat the call with the content that it was first made with."
	case errors.Is(err, consign.ErrFenced):
		return ExitRefused, "Look at it again: somebody else holds it, or it has ended."
	case errors.Is(err, operator.ErrChanged):
		return ExitRefused, "Look at it again, then decide again: somebody else was first."
	case errors.Is(err, operator.ErrRefused):
		return ExitRefused, "Look at what is possible by show."
	case errors.Is(err, consign.ErrNotPermitted), errors.Is(err, consign.ErrRevoked):
		return ExitRefused, "Ask somebody who is permitted."
	case errors.Is(err, consign.ErrSchema):
		return ExitFailed, fmt.Sprintf("Run \"%s migrate up\" on this database, or update the program.", name)
	case errors.Is(err, migrate.ErrNewer):
		return ExitRefused, "Update this program to the version that the database was migrated by, or a newer one."
	case errors.Is(err, migrate.ErrChanged):
		return ExitRefused, "Use a released program: an applied migration is never edited."
	case errors.Is(err, consign.ErrUnconfirmed):
		return ExitFailed, "Repeat the call with the same --id: what is there already stays as it is."
	case errors.Is(err, context.Canceled):
		return ExitFailed, "It was interrupted; what had been committed by then stays."
	}
	return ExitFailed, ""
}
