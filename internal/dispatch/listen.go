package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/consign-go/consign/internal/driver"
)

// stretch is how much rarer the looks of an idle engine become while hints make
// them unnecessary.
const stretch = 5

// deafPause is how long a program to which no hints find their way relies on polling
// before it listens anew: a pooler may have been taken out of the way, or told to
// keep sessions.
const deafPause = 5 * time.Minute

// listening hears the hints of other programs until ctx ends.
func (e *Engine) listening(ctx context.Context) {
	if e.Waker == nil || len(e.Served) == 0 {
		return
	}
	wake := func(from driver.ID) {
		e.heard.Store(true)
		if from != e.id { // whose hint it is has looked already
			e.Wake()
		}
	}
	for said := false; ; { // that nothing is heard
		err := e.Waker.Listen(ctx, wake, func(err error) {
			said = false
			e.listens(err)
		})
		e.hears.Store(false)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = driver.ErrNoListen // it went away without a word
		}
		if !said {
			said = true
			e.listens(err)
		}
		if errors.Is(err, driver.ErrClosed) || !sleep(ctx, deafPause) {
			return
		}
	}
}

// listens notes whether hints are seen to arrive, and looks: what was hinted while
// they were not heard is lost.
func (e *Engine) listens(err error) {
	e.hears.Store(err == nil)
	e.observe(Observation{Event: "listen", Err: err})
	e.Wake()
}

// notify sends one hint to other programs.
func (e *Engine) notify(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, hintLimit)
	defer cancel()
	err := e.Waker.Notify(limited, e.id)
	if err != nil {
		e.observe(Observation{Event: "error", Err: err})
	}
	return err
}

// learn draws the conclusion from how something came to light: by a hint of
// another program, or by a full poll that nobody had hinted at.
func (f *feeder) learn(polled bool) {
	switch {
	case polled:
		f.hinted = false
	case f.heard.Swap(false):
		f.hinted = true
	}
}

// longestPause is the longest time between two looks. That hints arrive is not
// enough to look more rarely: programs that commit in transactions of their own
// need not send any. What came last must have been hinted at.
func (f *feeder) longestPause() time.Duration {
	if f.hinted && f.hears.Load() {
		return stretch * f.Poll
	}
	return f.Poll
}
