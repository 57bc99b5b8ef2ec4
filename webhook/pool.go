package webhook

import (
	"sync"
	"time"
)

// pool keeps idle connections, for endpoints that ask for it. The newest is used
// first, so that a pool grown by a burst shrinks again.
type pool struct {
	max    int
	mu     sync.Mutex
	closed bool
	idle   map[string][]*wire
}

// take returns an idle connection that shows no sign of having been closed, or nil.
func (p *pool) take(home string) *wire {
	for {
		w := p.pop(home)
		if w == nil {
			return nil
		}
		// The timer that was not stopped in time is closing it.
		if w.closing.Stop() && quiet(w.tcp) && w.empty() {
			w.reused = true
			return w
		}
		w.close()
	}
}

func (p *pool) pop(home string) *wire {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.idle[home]
	if len(all) == 0 {
		return nil
	}
	w := all[len(all)-1]
	all[len(all)-1] = nil
	if len(all) == 1 {
		delete(p.idle, home) // or every receiver that was ever called would be remembered
	} else {
		p.idle[home] = all[:len(all)-1]
	}
	return w
}

// put keeps a connection for the given time.
func (p *pool) put(w *wire, idle time.Duration) {
	w.tcp.SetDeadline(time.Time{})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle[w.home]) >= p.max {
		w.close()
		return
	}
	if p.idle == nil {
		p.idle = map[string][]*wire{}
	}
	p.idle[w.home] = append(p.idle[w.home], w)
	if w.closing == nil {
		w.closing = time.AfterFunc(idle, func() { p.drop(w) })
	} else {
		w.closing.Reset(idle)
	}
}

// drop closes a connection that was idle for too long.
func (p *pool) drop(w *wire) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.idle[w.home]
	for i := range all {
		if all[i] == w {
			p.idle[w.home] = append(all[:i], all[i+1:]...)
			break
		}
	}
	if len(p.idle[w.home]) == 0 {
		delete(p.idle, w.home)
	}
	w.close()
}

// close closes all idle connections, and every one that is put back later.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, all := range p.idle {
		for _, w := range all {
			w.closing.Stop()
			w.close()
		}
	}
	p.idle = nil
}
