package dispatch

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/consign-go/consign/internal/lifecycle"
)

// Definite is an error that says for certain what became of an effect. Whoever
// makes one vouches for it. With EvUnknown it only adds to an unknown outcome what
// else is known: the wish to be left alone, the status code.
type Definite struct {
	Event lifecycle.EventKind // EvNotSent, EvRefused, EvRejected or EvUnknown
	Wait  time.Duration       // what the receiver asked for; 0: nothing
	HTTP  int                 // its status code; 0: none
	Err   error
}

// Error names the class and the cause.
func (d *Definite) Error() string {
	class := strings.ReplaceAll(d.Event.String(), "_", " ")
	if d.Err == nil {
		return class
	}
	return class + ": " + d.Err.Error()
}

// Unwrap returns the cause.
func (d *Definite) Unwrap() error { return d.Err }

// Stop is an error that ends a delivery before its effect.
type Stop struct {
	Code lifecycle.Code
	Err  error
}

// Error names the code and the cause.
func (s *Stop) Error() string {
	if s.Err == nil {
		return string(s.Code)
	}
	return string(s.Code) + ": " + s.Err.Error()
}

// Unwrap returns the cause.
func (s *Stop) Unwrap() error { return s.Err }

// single finds an error of type E along a chain of single wraps. A joined error
// says several things at once, so nothing definite can be read from a part of it:
// errors.As would find "not sent" inside a join with a broken connection.
func single[E error](err error) (E, bool) {
	for err != nil {
		if found, ok := err.(E); ok {
			return found, true
		}
		err = errors.Unwrap(err) // nil for errors that wrap several
	}
	var none E
	return none, false
}

// verdict is what is known of an effect when it has ended.
type verdict struct {
	kind lifecycle.EventKind
	wish time.Duration // what the receiver asked to be left alone for
	http int
	text string
	err  error
}

// judge says what the end of an effect means. Whatever its error does, there is a
// verdict: without one the outcome would stay unwritten.
func judge(err error) (v verdict) {
	if err == nil {
		return verdict{kind: lifecycle.EvSucceeded}
	}
	v = verdict{kind: lifecycle.EvUnknown, err: err}
	v.text = errorText(v.err)
	contain(func() error {
		v.kind, v.wish, v.http = classify(v.err)
		return nil
	})
	return v
}

// classify says what the error of an effect means. Only what was asked for by
// name is definite; everything else is unknown.
func classify(err error) (kind lifecycle.EventKind, wish time.Duration, http int) {
	if err == nil {
		return lifecycle.EvSucceeded, 0, 0
	}
	if d, ok := single[*Definite](err); ok && d != nil {
		switch d.Event {
		case lifecycle.EvNotSent, lifecycle.EvRefused, lifecycle.EvRejected, lifecycle.EvUnknown:
			return d.Event, max(d.Wait, 0), d.HTTP
		}
	}
	return lifecycle.EvUnknown, 0, 0
}

// panicked is what a panic of user code becomes. Its text names the type of the
// value only: the value may hold content.
type panicked struct{ value any }

func (p *panicked) Error() string {
	if err, ok := p.value.(error); ok {
		return fmt.Sprintf("panic: %T", err)
	}
	return fmt.Sprintf("panic: a value of type %T", p.value)
}

// contain runs user code and turns its panic into an error.
func contain(fn func() error) (err error) {
	defer caught(&err)
	return fn()
}

// caught is deferred: it turns a panic into an error.
func caught(err *error) {
	switch v := recover().(type) {
	case nil:
	case *panicked: // it was contained before, in another goroutine
		*err = v
	default:
		*err = &panicked{v}
	}
}

// maxErrorText is how much of an error is kept with an attempt, in bytes.
const maxErrorText = 1024

// errorText is what is stored of an error: bounded, valid UTF-8, without NUL, so
// that no database refuses the record of an outcome because of its wording. An
// error that panics when it is asked for its text has that panic's.
func errorText(err error) (s string) {
	if err == nil {
		return ""
	}
	if broken := contain(func() error { s = err.Error(); return nil }); broken != nil {
		s = broken.Error()
	}
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) <= maxErrorText {
		return s
	}
	cut := maxErrorText
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}

// Told is what an error says of an attempt that its caller made without Effect: as
// an effect that ended with it, with what is kept of its text. Nil says nothing.
func Told(err error) (outcome lifecycle.Outcome, http int, text string) {
	v := judge(err)
	switch v.kind {
	case lifecycle.EvNotSent:
		outcome = lifecycle.NotSent
	case lifecycle.EvRefused:
		outcome = lifecycle.Refused
	case lifecycle.EvRejected:
		outcome = lifecycle.Rejected
	default:
		outcome = lifecycle.Unknown
	}
	return outcome, v.http, v.text
}
