package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// stalled is how long a drain may go without a completion before it is given up.
const stalled = 30 * time.Second

// countdown tells when n deliveries are complete.
type countdown struct {
	left atomic.Int64
	done chan struct{}
	once sync.Once
}

func newCountdown(n int) *countdown {
	c := &countdown{done: make(chan struct{})}
	c.left.Store(int64(n))
	return c
}

// add notes completions. More than were expected are not its business: what is
// stored is counted after every run.
func (c *countdown) add(n int) {
	if c.left.Add(-int64(n)) <= 0 {
		c.cut()
	}
}

// cut ends the wait, whatever is left.
func (c *countdown) cut() { c.once.Do(func() { close(c.done) }) }

// wait returns when all are complete.
func (c *countdown) wait(ctx context.Context) error {
	tick := time.NewTicker(stalled)
	defer tick.Stop()
	for before := c.left.Load(); ; {
		select {
		case <-c.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			left := c.left.Load()
			if left == before {
				return fmt.Errorf("nothing was completed for %v; %d are left", stalled, left)
			}
			before = left
		}
	}
}
