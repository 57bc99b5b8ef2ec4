package console

import (
	"context"
	"sync"
	"time"

	"github.com/consign-go/consign/approval"
	"github.com/consign-go/consign/operator"
)

// snapshot is what all visitors see alike.
type snapshot struct {
	operator.Counts
	Serving    []operator.Served
	Recent     []operator.Recent
	Approvals  int
	MoreToSign bool // more approvals are open than were counted
	taken      time.Time
	err        error
}

// How far counts go, and what the sparklines show.
const (
	countTo     = 500
	recentSpan  = time.Hour
	recentParts = 30
	approvalsTo = 100
)

// shared keeps the newest snapshot.
type shared struct {
	reading sync.Mutex // held while the database is asked, by one visitor at a time

	mu    sync.Mutex
	last  *snapshot
	stale bool // somebody has done something since
}

// peek returns what was read last, however old it is; nil: nothing was.
func (s *shared) peek() *snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || s.last.err != nil {
		return nil
	}
	return s.last
}

// forget makes the next look a fresh one.
func (s *shared) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stale = true
}

// young returns what was read within a time; nil: nothing was.
func (s *shared) young(now time.Time, within time.Duration) *snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || s.stale || now.Sub(s.last.taken) >= within {
		return nil
	}
	return s.last
}

// snapshot returns what was read lately, or reads it anew. Whoever comes while
// somebody reads waits for that. An error is kept as long, so that a database in
// trouble is not asked by every visitor.
func (c *Console) snapshot(ctx context.Context) (*snapshot, error) {
	if s := c.shared.young(c.o.now(), c.o.Refresh); s != nil {
		return s, s.err
	}
	c.shared.reading.Lock()
	defer c.shared.reading.Unlock()
	if s := c.shared.young(c.o.now(), c.o.Refresh); s != nil {
		return s, s.err
	}
	c.shared.mu.Lock()
	c.shared.stale = false // what is done from here on may not be in it
	c.shared.mu.Unlock()
	// Others wait for it too, so that it does not end with the one who asked first.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.o.Timeout)
	defer cancel()
	s := &snapshot{taken: c.o.now()}
	s.err = s.read(ctx, c)
	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()
	c.shared.last = s
	return s, s.err
}

func (s *snapshot) read(ctx context.Context, c *Console) (err error) {
	if s.Counts, err = c.operator.Count(ctx, countTo); err != nil {
		return err
	}
	if s.Serving, err = c.operator.Serving(ctx); err != nil {
		return err
	}
	if s.Recent, err = c.operator.Recent(ctx, recentSpan, recentParts); err != nil {
		return err
	}
	list, next, err := c.approvals.Open(ctx, approval.Query{Limit: approvalsTo})
	s.Approvals, s.MoreToSign = len(list), next != ""
	return err
}
