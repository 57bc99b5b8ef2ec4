package dispatch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// heedEvery is how old the knowledge of what is paused may be at a claim. The claim
// itself asks for no more than the routes that are left, so a pause costs it nothing.
const heedEvery = time.Second

// kindKey names a kind or channel whatever its contract.
type kindKey struct {
	profile lifecycle.Profile
	kind    string
}

// pauses is what this engine knows to be paused.
type pauses struct {
	reading sync.Mutex
	known   bool
	read    time.Time // or tried
}

// heed learns what is paused, unless it did lately. While that cannot be read,
// what was known stays; nothing is claimed before it was known once.
func (e *Engine) heed(ctx context.Context) error {
	if e.Pauses == nil {
		return nil
	}
	p := &e.heeded
	p.reading.Lock()
	defer p.reading.Unlock()
	if p.known && time.Since(p.read) < heedEvery {
		return nil
	}
	list, err := within(ctx, e.store, e.Patience, e.Pauses.Pauses)
	p.read = time.Now()
	if err != nil {
		if p.known {
			return nil
		}
		return err
	}
	p.known = true
	e.mu.Lock()
	defer e.mu.Unlock()
	e.routes.pause(list)
	return nil
}

// pause takes over what is paused from now on. What is resumed lies before what
// claims have come to.
func (rs *routes) pause(list []driver.Pause) {
	for k := range rs.paused {
		if !slices.ContainsFunc(list, func(p driver.Pause) bool { return k == kindKey{p.Profile, p.Kind} }) {
			rs.rest = time.Time{}
		}
	}
	clear(rs.paused)
	for _, p := range list {
		if rs.paused == nil {
			rs.paused = map[kindKey]bool{}
		}
		rs.paused[kindKey{p.Profile, p.Kind}] = true
	}
}

// isPaused reports whether nobody may claim what is on the route of s.
func (rs *routes) isPaused(p lifecycle.Profile, kind string) bool {
	return len(rs.paused) > 0 && rs.paused[kindKey{p, kind}]
}
