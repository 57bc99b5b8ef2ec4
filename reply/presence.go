package reply

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// presence tells the other programs on the database which channels this one drives
// by hand. Without it a program that serves other channels would stop, after its
// grace period, what nobody seems to serve.
type presence struct {
	registry driver.Registry // nil: nobody to tell
	program  driver.Program

	mu    sync.Mutex
	known map[string]bool
	told  time.Time
	news  bool // a channel was added since
}

// rhythm is how often it is told again. An entry counts for a minute.
const rhythm = 12 * time.Second

func (p *presence) open(registry driver.Registry, name string) {
	p.registry = registry
	p.program = driver.Program{ID: driver.NewID(), Name: name}
	p.known = map[string]bool{}
}

// serves notes that this program drives channel.
func (p *presence) serves(channel string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known[channel] {
		p.known[channel], p.news = true, true
		p.program.Serves = append(p.program.Serves, driver.Serves{Profile: lifecycle.Message, Kind: channel})
	}
}

// tell writes the entry where it is due. What fails is tried again at the next call:
// nothing is decided by a single entry.
func (p *presence) tell(ctx context.Context) {
	p.mu.Lock()
	due := p.registry != nil && len(p.known) > 0 && (p.news || time.Since(p.told) >= rhythm)
	entry := p.program
	entry.Serves = slices.Clone(entry.Serves)
	if due {
		p.told, p.news = time.Now(), false
	}
	p.mu.Unlock()
	if due && p.registry.Register(ctx, entry) != nil {
		p.mu.Lock()
		p.news = true
		p.mu.Unlock()
	}
}
