package operator

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

var (
	// ErrChanged: somebody else was first, another person or a program. Nothing was
	// written. Look again, then decide again.
	ErrChanged = errors.New("changed meanwhile")

	// ErrRefused: what the intent is does not allow this. The text says why, and what
	// to do instead. Nothing was written.
	ErrRefused = errors.New("refused")
)

// Operator acts on one database. It is safe for concurrent use, holds no connection
// while idle and runs nothing by itself. It checks no rights: whoever can call it may
// do everything.
type Operator struct {
	desk  driver.Desk
	look  func(ctx context.Context) (driver.Schema, error)
	fits  atomic.Bool // the schema was seen to fit this program
	retry int         // how often an action is decided anew where a program was faster
}

// New returns the operator of store. It does no IO.
func New[TX any](store consign.Store[TX]) (*Operator, error) {
	if any(store) == nil {
		return nil, &consign.Error{Op: "operator", Faults: []consign.Fault{{Field: "store", Rule: "is nil"}}, Err: consign.ErrInvalid}
	}
	bound := store.Driver(driver.Key{})
	desk, ok := bound.(driver.Desk)
	if !ok {
		return nil, &consign.Error{Op: "operator", Err: fmt.Errorf("%w: the store keeps no desk", consign.ErrInvalid)}
	}
	o := &Operator{desk: desk, retry: 20}
	o.look = func(ctx context.Context) (driver.Schema, error) {
		_, tx, err := bound.Begin(ctx)
		if err != nil {
			return driver.Schema{}, err
		}
		defer tx.Rollback(context.WithoutCancel(ctx))
		return tx.Schema(ctx)
	}
	return o, nil
}

// ready finds out once whether the schema fits this program.
func (o *Operator) ready(ctx context.Context, op string) error {
	if o.fits.Load() {
		return nil
	}
	s, err := o.look(ctx)
	if err != nil {
		return failure(op, err)
	}
	if s.Version < driver.SchemaVersion || s.Oldest > driver.SchemaVersion {
		return &consign.Error{Op: op, Err: said{consign.ErrSchema, fmt.Sprintf(
			"the database schema is version %d and works with programs from version %d on; this one needs %d",
			s.Version, s.Oldest, driver.SchemaVersion)}}
	}
	o.fits.Store(true)
	return nil
}

// By is who acts and why, for the audit.
type By struct {
	// Who is the person, as the caller knows them: 1 to 128 bytes of UTF-8 without
	// control characters.
	Who string

	// Why is the reason: 1 to 1,024 bytes of UTF-8 without control characters. It
	// survives an erasure, so it must not tell whose data it is about.
	Why string
}

// faults collects what is wrong with the arguments of one call.
type faults []consign.Fault

func (fs *faults) add(field, rule string) { *fs = append(*fs, consign.Fault{Field: field, Rule: rule}) }

// text checks a text: min to max bytes of UTF-8 without control characters; lines
// may end where lines is set.
func (fs *faults) text(field, s string, min, max int, lines bool) {
	switch {
	case len(s) < min || len(s) > max:
		fs.add(field, strconv.Itoa(len(s))+" bytes, limit "+strconv.Itoa(min)+" to "+strconv.Itoa(max))
	case !utf8.ValidString(s):
		fs.add(field, "is not valid UTF-8")
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && !(lines && (r == '\n' || r == '\t' || r == '\r')) }):
		fs.add(field, "contains a control character")
	case min > 0 && strings.TrimSpace(s) == "":
		fs.add(field, "is blank")
	}
}

func (fs *faults) by(by By) {
	fs.text("by.who", by.Who, 1, 128, false)
	fs.text("by.why", by.Why, 1, 1024, true)
}

func (fs *faults) ref(ref consign.Ref) {
	if ref.IsZero() {
		fs.add("ref", "is the zero ID")
	}
}

// kind checks the name of a kind or channel as the root package does.
func (fs *faults) kind(s string, min int) {
	fs.text("kind", s, min, 128, false)
	if i := strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }); i >= 0 {
		fs.add("kind", "byte "+strconv.Itoa(i)+" is not printable ASCII")
	}
}

// profile returns the stored profile; zero for none, where that is allowed.
func (fs *faults) profile(p consign.Profile, needed bool) lifecycle.Profile {
	switch {
	case p == consign.ProfileWork:
		return lifecycle.Work
	case p == consign.ProfileMessage:
		return lifecycle.Message
	case p != "" || needed:
		fs.add("profile", `is neither "work" nor "message"`)
	}
	return 0
}

// time checks a time that a database can hold.
func (fs *faults) time(field string, t time.Time) {
	if y := t.Year(); !t.IsZero() && (y < 1970 || y > 9999) {
		fs.add(field, "year "+strconv.Itoa(y)+", limit 1970 to 9999")
	}
}

func (fs faults) err(op string) error {
	if len(fs) == 0 {
		return nil
	}
	return &consign.Error{Op: op, Faults: fs, Err: consign.ErrInvalid}
}

// said is a sentinel with a text of its own.
type said struct {
	error
	text string
}

func (s said) Error() string { return s.text }
func (s said) Unwrap() error { return s.error }

// refused and changed are the two noes.
func refused(op, why string) error { return &consign.Error{Op: op, Err: said{ErrRefused, why}} }
func changed(op, why string) error { return &consign.Error{Op: op, Err: said{ErrChanged, why}} }

// reason is the text of an error without the operation.
func reason(err error) string {
	var own *consign.Error
	if errors.As(err, &own) && own.Err != nil {
		return own.Err.Error()
	}
	return err.Error()
}

// failure turns an error of a store into one of op.
func failure(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrClosed):
		err = said{consign.ErrClosed, "the database is closed"}
	case errors.Is(err, driver.ErrNoSchema):
		err = said{consign.ErrSchema, "the tables are missing where this store looks for them; run migrate.Up, " +
			"or give the store the schema or prefix that they are in"}
	case errors.Is(err, driver.ErrUnconfirmed):
		err = fmt.Errorf("%w: %w", consign.ErrUnconfirmed, err)
	}
	return &consign.Error{Op: op, Err: err}
}
