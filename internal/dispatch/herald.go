package dispatch

import (
	"context"
	"sync"
	"time"
)

// hintPause lies between two hints to other programs at least, and hintLimit is how
// long one may take.
const (
	hintPause = 4 * time.Millisecond
	hintLimit = 2 * time.Second
)

// herald tells other programs that something was committed. One hint at most is
// under way, and one more stands for all that is announced meanwhile: a thousand
// commits a second must not become a thousand notifications, each of which has the
// whole database wait its turn. Its goroutine lives only while there is something
// to send, each time for hintLimit at most.
type herald struct {
	send  func(ctx context.Context) error // nil: nobody is told
	ready time.Time                       // the next may begin; of the goroutine alone

	mu   sync.Mutex
	busy bool          // a goroutine sends
	next *Announcement // not begun yet; nil: none
	last *Announcement // the latest of all
}

// Announcement is a hint to other programs that is sent in the background.
type Announcement struct {
	done chan struct{} // closed once it was sent, or could not be
	err  error
}

// Announce hints this program and all others that something is due. It does not
// wait.
func (e *Engine) Announce() *Announcement {
	e.Wake()
	return e.hints.announce()
}

// Wait returns once the hint has been sent, or ctx has ended.
func (a *Announcement) Wait(ctx context.Context) error {
	if a == nil {
		return nil
	}
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// announce returns the hint that stands for this call: one that has not begun.
func (h *herald) announce() *Announcement {
	if h.send == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next == nil {
		h.next = &Announcement{done: make(chan struct{})}
		h.last = h.next
	}
	if !h.busy {
		h.busy = true
		go h.run()
	}
	return h.next
}

// run sends until there is nothing to send.
func (h *herald) run() {
	for h.more() {
		time.Sleep(time.Until(h.ready))
		a := h.begin()
		a.err = h.send(context.Background())
		h.ready = time.Now().Add(hintPause)
		close(a.done)
	}
}

// more reports whether something is to be sent; otherwise the goroutine ends.
func (h *herald) more() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy = h.next != nil
	return h.busy
}

// begin takes what is to be sent: what is announced from now on needs another hint.
func (h *herald) begin() *Announcement {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.next
	h.next = nil
	return a
}

// wait returns once everything announced so far was sent, or could not be.
func (h *herald) wait() {
	h.mu.Lock()
	last := h.last
	h.mu.Unlock()
	if last != nil {
		<-last.done
	}
}
