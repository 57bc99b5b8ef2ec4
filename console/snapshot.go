package console

import (
	"context"
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
	countTo     = 1000
	recentSpan  = time.Hour
	recentParts = 30
	approvalsTo = 100
)

// snapshot returns what was read lately, or reads it anew. Whoever comes while
// somebody reads waits for that. An error is kept as long, so that a database in
// trouble is not asked by every visitor.
func (c *Console) snapshot(ctx context.Context) (*snapshot, error) {
	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()
	if s := c.shared.last; s != nil && c.o.now().Sub(s.taken) < c.o.Refresh {
		return s, s.err
	}
	// Others wait for it too, so that it does not end with the one who asked first.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.o.Timeout)
	defer cancel()
	s := &snapshot{taken: c.o.now()}
	s.err = s.read(ctx, c)
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
