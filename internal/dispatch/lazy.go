package dispatch

import (
	"context"
	"sync"
	"time"
)

// lazyContext is a context with a deadline that makes its timer and its channel
// when somebody first asks for its end. Many effects and preparations never do, and
// the two are a fifth of what a delivery costs without a database.
type lazyContext struct {
	parent context.Context
	end    time.Time

	mu     sync.Mutex
	made   context.Context // nil: nobody has waited for its end yet
	cancel context.CancelFunc
	err    error // that it has ended with before
}

// Deadline returns the earlier of its own and its parent's.
func (c *lazyContext) Deadline() (time.Time, bool) {
	if d, ok := c.parent.Deadline(); ok && d.Before(c.end) {
		return d, true
	}
	return c.end, true
}

// Done is that of the context that is made. Whoever derives a context asks for it
// first, and so derives it from that one.
func (c *lazyContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil {
		if c.err == context.Canceled {
			c.made, c.cancel = context.WithCancel(c.parent)
			c.cancel()
		} else {
			c.made, c.cancel = context.WithDeadline(c.parent, c.end)
		}
	}
	return c.made.Done()
}

// Err makes nothing.
func (c *lazyContext) Err() error { return c.errAt(time.Now()) }

// errAt is Err where the time was just read.
func (c *lazyContext) errAt(now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made != nil {
		return c.made.Err()
	}
	if c.err == nil {
		c.err = c.parent.Err()
	}
	if c.err == nil && !now.Before(c.end) {
		c.err = context.DeadlineExceeded
	}
	return c.err
}

// errAt is ctx.Err where the time was just read: to read it is most of what a lazy
// context takes to tell.
func errAt(ctx context.Context, now time.Time) error {
	if lazy, ok := ctx.(*lazyContext); ok {
		return lazy.errAt(now)
	}
	return ctx.Err()
}

// Value is the parent's, and what package context itself asks for.
func (c *lazyContext) Value(key any) any {
	c.mu.Lock()
	from := c.made
	c.mu.Unlock()
	if from == nil {
		from = c.parent
	}
	return from.Value(key)
}

// stop ends the context, also for whoever asks later. If it was over before and
// nobody has seen that, nobody will.
func (c *lazyContext) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made != nil {
		c.cancel()
	} else if c.err == nil {
		c.err = context.Canceled
	}
}
