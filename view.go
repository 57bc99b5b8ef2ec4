package consign

import (
	"context"
	"errors"
	"sync"
)

// lookView is the view of an authority or a handler: each [Read] is a read-only
// transaction of its own, or a read-only part of a run's, over when Read returns, so
// that none is left open when the view is closed.
type lookView[TX any] struct {
	in func(ctx context.Context, fn func(tx TX) error) error

	mu     sync.Mutex
	reads  int // that are under way
	closed bool
}

// closer is a view of whatever transaction type.
type closer interface {
	View
	close() bool
	end()
}

func (*lookView[TX]) sealed() {}

func (v *lookView[TX]) read(ctx context.Context, fn func(TX) error) error {
	if !v.enter() {
		return &Error{Op: "read", Err: wrapped{ErrClosed, "the view is closed: there is none from the effect on, nor after the call it was given to"}}
	}
	defer v.leave()
	return v.in(ctx, fn)
}

func (v *lookView[TX]) enter() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.closed {
		v.reads++
	}
	return !v.closed
}

func (v *lookView[TX]) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reads--
}

// close ends the view, unless a read is under way; then it returns false, and the
// view stays open.
func (v *lookView[TX]) close() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.reads > 0 {
		return false
	}
	v.closed = true
	return true
}

// end ends the view whatever is under way.
func (v *lookView[TX]) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
}

// view opens a view of the database as it is now.
func (o *Outbox[TX]) view() closer { return &lookView[TX]{in: o.bound.View} }

// viewIn opens a view of the database as an open transaction sees it.
func (o *Outbox[TX]) viewIn(tx TX) closer {
	return &lookView[TX]{in: func(ctx context.Context, fn func(TX) error) error { return o.bound.ViewIn(ctx, tx, fn) }}
}

var errStillReads = errors.New("the authority has answered while it still reads through its view")

// asking lets ask put questions to the authority, and ends the view that it gives
// with them. An answer given while somebody still reads is none.
func asking(v closer, ask func(v View) error) error {
	defer v.end()
	err := ask(v)
	if !v.close() && err == nil {
		err = errStillReads
	}
	return err
}
