package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/consign-go/consign/internal/driver"
)

// SQLite's result codes that are told apart here.
const (
	codeBusy       = 5
	codeLocked     = 6
	codeReadOnly   = 8
	codeFull       = 13
	codeConstraint = 19
	codeTrigger    = codeConstraint | 7<<8 // a trigger called RAISE
	codeSnapshot   = codeBusy | 2<<8       // another connection has written since this transaction first read
)

// resultCode finds SQLite's result code in err, the extended one where the driver
// gives it, whatever the driver: modernc has a method Code, mattn has fields. 0 is
// unknown.
func resultCode(err error) int {
	for ; err != nil; err = errors.Unwrap(err) {
		if c, ok := err.(interface{ Code() int }); ok {
			return c.Code()
		}
		v := reflect.Indirect(reflect.ValueOf(err))
		if v.Kind() != reflect.Struct {
			continue
		}
		for _, name := range []string{"ExtendedCode", "Code"} {
			if f := v.FieldByName(name); f.IsValid() && f.CanInt() && f.Int() != 0 {
				return int(f.Int())
			}
		}
	}
	return 0
}

// says reports whether err has one of the primary result codes or, where the
// driver gives no code, SQLite's own text for it.
func says(err error, text string, codes ...int) bool {
	if err == nil {
		return false
	}
	if code := resultCode(err); code != 0 {
		for _, c := range codes {
			if code&0xff == c {
				return true
			}
		}
		return false
	}
	return strings.Contains(err.Error(), text)
}

func isBusy(err error) bool     { return says(err, "is locked", codeBusy, codeLocked) }
func isReadOnly(err error) bool { return says(err, "readonly database", codeReadOnly) }

// missesTable reports whether a table does not exist. All tables that this package
// names are its own.
func missesTable(err error) bool { return strings.Contains(err.Error(), "no such table") }

// notCommitted reports whether a COMMIT that failed with err has certainly
// committed nothing. After an I/O error that is not certain: the log may reach the
// disk after all, and count when it is next recovered.
func notCommitted(err error) bool {
	return isBusy(err) || isReadOnly(err) || says(err, "is full", codeFull) || says(err, "constraint failed", codeConstraint)
}

// busyError: a call did not get its turn in time.
type busyError struct {
	what   string
	waited time.Duration
	err    error
}

const (
	lockBusy = "the database is locked by another connection"
	poolBusy = "no connection of the pool was free; is a transaction of this program open in the same call?"
)

func (b *busyError) Error() string {
	return fmt.Sprintf("%s (waited %s)", b.what, b.waited.Round(100*time.Millisecond))
}

func (b *busyError) Unwrap() error { return b.err }

// triggerError stands for the words of somebody's trigger, which may quote the row
// that it refuses.
type triggerError struct{}

func (triggerError) Error() string {
	return fmt.Sprintf("a trigger of the database refused the write (%d)", codeTrigger)
}

func (triggerError) Code() int { return codeTrigger }

// fault says which call failed and translates what callers branch on. SQLite names
// tables, columns and constraints in its errors, never a value; a trigger says what
// it likes.
func (e *engine) fault(op string, err error) error {
	if err == nil {
		return nil
	}
	var conflict *driver.ConflictError
	text := err.Error()
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &conflict), errors.Is(err, driver.ErrUnconfirmed):
	case errors.Is(err, sql.ErrTxDone), errors.Is(err, sql.ErrConnDone), text == "sql: database is closed":
		err = driver.ErrClosed
	case resultCode(err) == codeTrigger && !strings.Contains(text, "consign: rows of "+e.prefix):
		err = triggerError{}
	case missesTable(err):
		err = fmt.Errorf("%w: %w", driver.ErrNoSchema, err)
	case strings.Contains(text, "UNIQUE constraint failed: "+e.prefix+"intent.ref"),
		strings.Contains(text, "UNIQUE constraint failed: "+e.prefix+"delivery.ref"):
		err = driver.ErrTaken
	case resultCode(err) == codeSnapshot:
		err = fmt.Errorf("%w: another connection has written since this transaction first read; "+
			"open the database with _txlock=immediate, or write before reading", err)
	}
	return fmt.Errorf("sqlite: %s: %w", op, err)
}
