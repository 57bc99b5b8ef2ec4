package reply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
)

// A write that may have happened is not given up because its caller is: what is
// known has to be written down, and whether something was has to be found out. So a
// call goes on for a while after its context has ended.
const (
	lasting    = 10 * time.Second // from the beginning, whatever ctx says
	perCall    = 10 * time.Second // for one call of the store, longer than any lock wait
	firstPause = 20 * time.Millisecond
	maxPause   = 2 * time.Second
)

// patience is how long one operation is tried: until ctx ends, and for ten seconds
// at least.
type patience struct {
	ctx   context.Context
	least time.Time
	pause time.Duration
}

func patiently(ctx context.Context) *patience {
	return &patience{ctx: ctx, least: time.Now().Add(lasting), pause: firstPause}
}

// call is the context of one call of the store.
func (p *patience) call() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(p.ctx), perCall)
}

// again waits a little longer each time; false: the time is over.
func (p *patience) again() bool {
	if p.ctx.Err() != nil && time.Now().Add(p.pause).After(p.least) {
		return false
	}
	time.Sleep(p.pause)
	p.pause = min(2*p.pause, maxPause)
	return true
}

func (p *patience) load(store driver.Driver, ref driver.ID) (*driver.Record, error) {
	ctx, cancel := p.call()
	defer cancel()
	return load(ctx, store, ref)
}

// look is load until it is answered.
func (p *patience) look(store driver.Driver, ref driver.ID) (*driver.Record, error) {
	for {
		r, err := p.load(store, ref)
		if err == nil || errors.Is(err, driver.ErrClosed) || !p.again() {
			return r, err
		}
	}
}

// unconfirmed is the error of a write of which it is not known whether it happened.
func unconfirmed(cause error) error { return fmt.Errorf("%w: %w", consign.ErrUnconfirmed, cause) }
