package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/consign-go/consign/internal/driver"
)

// Error is an error of the server, without what it says about rows. It is made
// from the errors of any PostgreSQL driver.
type Error struct {
	Code       string // the SQLSTATE: five characters, by which callers decide to retry
	Message    string // empty where it could quote a value
	Constraint string // name of the violated constraint or unique index; empty: none
	Table      string
}

// Error returns the message, or the class of it, with the SQLSTATE.
func (e *Error) Error() string {
	var b strings.Builder
	switch {
	case e.Constraint != "":
		b.WriteString("constraint " + e.Constraint + " is violated")
	case e.Message != "":
		b.WriteString(e.Message)
	default:
		b.WriteString("the server refused a value")
	}
	return b.String() + " (SQLSTATE " + e.Code + ")"
}

// SQLState returns Code, under the name that the errors of all drivers have.
func (e *Error) SQLState() string { return e.Code }

// stated is what the error types of all PostgreSQL drivers have in common.
type stated interface {
	error
	SQLState() string
}

// clean turns an error of a driver into one that may be shown: the contract's own
// where it has one, otherwise an *Error for what the server said, and the error
// as it is where no server was involved. op says what was being done.
func clean(op string, err error) error {
	if err == nil {
		return nil
	}
	if already := (*Error)(nil); errors.As(err, &already) {
		return fmt.Errorf("%s: %w", op, err)
	}
	if own := known(err); own != nil {
		return fmt.Errorf("%s: %w", op, own)
	}
	var s stated
	if !errors.As(err, &s) {
		return fmt.Errorf("%s: %w", op, withoutValues(err))
	}
	e := &Error{Code: s.SQLState()}
	e.Constraint, e.Table = named(s)
	if speaks(e.Code) {
		e.Message = wording(s)
	}
	switch {
	case e.Code == "42P01" || e.Code == "3F000": // undefined table, invalid schema name
		return fmt.Errorf("%s: %w", op, driver.ErrNoSchema)
	case e.Code == "23505" && slices.Contains(refKeys, e.Constraint):
		return fmt.Errorf("%s: %w", op, driver.ErrTaken)
	}
	return fmt.Errorf("%s: %w", op, e)
}

// known returns the contract's error for what the client libraries say without
// asking the server.
func known(err error) error {
	for _, own := range []error{driver.ErrClosed, driver.ErrNoSchema, driver.ErrTaken, driver.ErrUnconfirmed} {
		if errors.Is(err, own) {
			return err
		}
	}
	switch {
	case errors.Is(err, pgx.ErrTxClosed), errors.Is(err, sql.ErrTxDone):
		return driver.ErrClosed
	case err.Error() == "closed pool", err.Error() == "sql: database is closed":
		return driver.ErrClosed // both libraries keep the value to themselves
	}
	return nil
}

// speaks reports whether messages of this SQLSTATE are about the statement or the
// server and quote no value. Class 22 (data) quotes input, class P0 is whatever
// somebody's trigger raises, and a syntax error can quote the statement, which in
// the simple protocol holds the values.
func speaks(state string) bool {
	if len(state) != 5 || state == "42601" {
		return false
	}
	switch state[:2] {
	case "08", "23", "25", "26", "28", "2D", "3D", "40", "42", "53", "54", "55", "57", "58":
		return true
	}
	return false
}

// refKeys are the constraints that hold that a ref is used once.
var refKeys = []string{"intent_pkey", "delivery_pkey"}

// named returns constraint and table of a server's error.
func named(err stated) (constraint, table string) {
	if pg, ok := err.(*pgconn.PgError); ok {
		return pg.ConstraintName, pg.TableName
	}
	// Other drivers keep them in fields of their own; the message names what a
	// unique violation is about, in quotes, in every language.
	text := err.Error()
	for _, key := range refKeys {
		if err.SQLState() == "23505" && strings.Contains(text, `"`+key+`"`) {
			return key, strings.TrimSuffix(key, "_pkey")
		}
	}
	return "", ""
}

func wording(err stated) string {
	if pg, ok := err.(*pgconn.PgError); ok && pg.Where == "" {
		return pg.Message // with a context it comes from somebody's function, and may quote a row
	}
	return "" // what else the text of another driver's error holds is not known
}

// withoutValues drops the text of errors that arise while a parameter is encoded:
// it quotes the parameter.
func withoutValues(err error) error {
	var network net.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.As(err, &network):
		return err
	case strings.Contains(err.Error(), "failed to encode"), strings.Contains(err.Error(), "unable to encode"),
		strings.Contains(err.Error(), "converting argument"):
		return errors.New("a parameter could not be encoded")
	}
	return err
}

// unconfirmed tells what a failed COMMIT means: nil if the server said that it
// did not commit, else driver.ErrUnconfirmed. When in doubt it is unconfirmed.
//
// pgconn.SafeToRetry is of no use here. Where the connection breaks after COMMIT
// was sent, pgx reports that the connection is closed, in an error that says it is
// safe to retry.
func unconfirmed(err error) error {
	var s stated
	switch {
	case known(err) != nil, errors.Is(err, pgx.ErrTxCommitRollback):
		return nil
	case errors.As(err, &s):
		// Of a session that ends (57P01 to 57P05), and after a fault of the system
		// (58, XX), nobody knows how far the commit had come.
		switch state := s.SQLState(); {
		case len(state) != 5, state[:2] == "58", state[:2] == "XX", state[:2] == "08", state[:3] == "57P":
			return driver.ErrUnconfirmed
		}
		return nil
	}
	return driver.ErrUnconfirmed
}
