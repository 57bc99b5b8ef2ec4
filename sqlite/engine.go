package sqlite

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/migration"
)

// engine is the store as the driver that it is.
type engine struct {
	db     *sql.DB
	prefix string
	names  *strings.Replacer
	steps  []migration.Step
	budget time.Duration // how long a call waits for a connection and the write lock
	cache  cache
	places places

	// writing lets this store's own writers wait for each other in turn. SQLite's
	// own waiting is a poll with sleeps, which is slow among friends.
	writing chan struct{}
	inLine  atomic.Int32 // writers that wait for it

	found atomic.Bool // the latest claim found something, so the next one will hardly look in vain
}

var _ driver.Bound[*sql.Tx] = (*engine)(nil)

// busyBudget is how long a call waits for its turn. It is shorter than the settle
// margin, so that a settle which gives up can still be tried again in time.
const busyBudget = 5 * time.Second

// sql fills the names in: {s} and {i} are the prefix, {now} the database's clock.
func (e *engine) sql(text string) string { return e.names.Replace(text) }

// Now reads the database clock.
func (e *engine) Now(ctx context.Context) (time.Time, error) {
	var now int64
	err := e.read(ctx, "now", func(ctx context.Context, s *session) (err error) {
		now, err = s.now(ctx)
		return err
	})
	return time.UnixMicro(now).UTC(), err
}

// take reserves a connection for one call, until the deadline.
func (e *engine) take(ctx context.Context, p *wait) (*sql.Conn, error) {
	for {
		limited, cancel := context.WithDeadline(ctx, p.until)
		conn, err := e.db.Conn(limited)
		cancel()
		switch {
		case err == nil:
			return conn, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, context.DeadlineExceeded):
			return nil, &busyError{poolBusy, p.elapsed(), nil}
		}
		if err := p.again(ctx, err); err != nil { // a fresh connection met a lock while it was set up
			return nil, err
		}
	}
}

// discard closes a connection whose state is not known, rather than give it back
// to the pool.
func discard(conn *sql.Conn) {
	conn.Raw(func(any) error { return sqldriver.ErrBadConn })
	conn.Close()
}

// read runs fn on a connection, again from the start where a lock was in its way:
// only outside WAL mode do readers meet any. The context that fn is given has no
// end, for the reasons that [engine.write] tells; what is read is bounded.
func (e *engine) read(ctx context.Context, op string, fn func(ctx context.Context, s *session) error) error {
	p := patience(e.budget)
	conn, err := e.take(ctx, p)
	if err != nil {
		return e.fault(op, err)
	}
	defer conn.Close()
	for {
		s := e.onConn(conn)
		err := fn(context.WithoutCancel(ctx), s)
		s.close()
		if err == nil {
			return nil
		}
		if err := p.again(ctx, err); err != nil {
			return e.fault(op, err)
		}
	}
}

// wait is the patience of one call.
type wait struct {
	since, until time.Time
	pause        time.Duration
}

func patience(budget time.Duration) *wait {
	now := time.Now()
	return &wait{since: now, until: now.Add(budget)}
}

func (p *wait) elapsed() time.Duration { return time.Since(p.since) }

// left is how long the call may still wait.
func (p *wait) left(ctx context.Context) time.Duration {
	left := time.Until(p.until)
	if deadline, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(deadline))
	}
	return left
}

// again sleeps a moment and returns nil where err says that a lock was in the way
// and there is time left to try again; otherwise it returns what to report.
func (p *wait) again(ctx context.Context, err error) error {
	if !isBusy(err) || resultCode(err) == codeSnapshot {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if time.Until(p.until) <= 0 {
		return &busyError{lockBusy, p.elapsed(), err}
	}
	p.pause = min(max(2*p.pause, time.Millisecond), 25*time.Millisecond)
	timer := time.NewTimer(min(p.pause, time.Until(p.until)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
