package sqlite

import (
	"context"
	"database/sql"
	"runtime"
	"strings"
	"time"
)

// writer is a session that holds the write lock. Nobody else changes anything
// while it does, so what it reads stays true until it commits.
type writer struct {
	session
	now      int64 // the database clock, read after the lock was had, in microseconds
	oneByOne bool  // change rows one by one, to learn which of them were as expected
}

// write runs fn in a transaction of its own that has the write lock from its first
// moment. It commits if fn returns nil.
//
// The context that fn is given has no end: each statement under one that could end
// costs a goroutine, and a statement that is cut off costs the connection. The lock
// is held for milliseconds; waiting for it does heed ctx.
func (e *engine) write(ctx context.Context, op string, fn func(ctx context.Context, w *writer) error) error {
	err := e.inTurn(ctx, e.budget, func(p *wait) error {
		t, err := e.beginLocked(ctx, p)
		if err != nil {
			return err
		}
		defer t.Rollback(ctx) // where fn fails or panics; after a commit it does nothing
		ctx := context.WithoutCancel(ctx)
		w := &writer{session: e.inTx(t.raw)}
		defer w.close()
		if w.now, err = w.session.now(ctx); err != nil {
			return err
		}
		if err := fn(ctx, w); err != nil {
			return err
		}
		t.fresh = append(t.fresh, w.fresh...)
		err = t.raw.Commit()
		t.release(ctx, err)
		return err
	})
	return e.fault(op, err)
}

// inTurn runs fn when those of this store's own writers have ended that came before.
func (e *engine) inTurn(ctx context.Context, budget time.Duration, fn func(p *wait) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p := patience(budget)
	select {
	case e.writing <- struct{}{}:
	default:
		if err := e.wait(ctx, p); err != nil {
			return err
		}
	}
	defer e.pass()
	return fn(p)
}

// wait waits for the turn.
func (e *engine) wait(ctx context.Context, p *wait) error {
	e.inLine.Add(1)
	defer e.inLine.Add(-1)
	timer := time.NewTimer(time.Until(p.until))
	defer timer.Stop()
	select {
	case e.writing <- struct{}{}:
		return nil
	case <-timer.C:
		return &busyError{lockBusy, p.elapsed(), nil}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pass gives the turn to the next in line, and the processor with it: to go on with
// what was written takes a while, in which the database would have nothing to do where
// all processors are busy.
func (e *engine) pass() {
	next := e.inLine.Load() > 0
	<-e.writing
	if next {
		runtime.Gosched()
	}
}

// beginLocked begins a transaction that has the write lock, on a connection that is
// taken for it alone. It does not end with ctx: whoever began it ends it.
func (e *engine) beginLocked(ctx context.Context, p *wait) (*tx, error) {
	conn, err := e.take(ctx, p)
	if err != nil {
		return nil, err
	}
	h := &holder{conn: conn}
	for {
		t, err := h.begin(ctx, e, p)
		if err == nil {
			return t, nil
		}
		if err := p.again(ctx, err); err != nil {
			h.giveBack(ctx)
			return nil, err
		}
	}
}

// holder is a connection on its way into a transaction, with what has to be put back.
type holder struct {
	conn    *sql.Conn
	timeout int // the program's busy timeout, in milliseconds
	known   bool
	changed bool
}

// lockSQL takes the write lock and changes nothing. As the first statement it makes
// a BEGIN into a BEGIN IMMEDIATE, which database/sql has no word for.
const lockSQL = `UPDATE {s}setting SET value = value WHERE 0`

// begin begins a transaction and takes the write lock, if the driver has not done so
// itself. Where the schema is missing there is nothing to lock; whoever uses the
// transaction will see.
func (h *holder) begin(ctx context.Context, e *engine, p *wait) (*tx, error) {
	if err := h.limit(ctx, p); err != nil {
		return nil, err
	}
	raw, err := h.conn.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return nil, err
	}
	s := e.inTx(raw)
	defer s.close()
	if _, err = s.exec(ctx, lockSQL); err == nil || missesTable(err) {
		if err = h.restore(ctx); err == nil {
			return &tx{e: e, raw: raw, conn: h.conn, fresh: s.fresh}, nil
		}
	}
	raw.Rollback()
	return nil, err
}

// limit shortens the program's busy timeout, which is how long SQLite itself waits
// for a lock, where it exceeds the time left.
func (h *holder) limit(ctx context.Context, p *wait) (err error) {
	if !h.known {
		if h.timeout, err = pragma(context.WithoutCancel(ctx), h.conn, "busy_timeout"); err != nil {
			return err
		}
		h.known = true
	}
	left := int(max(p.left(ctx), 0).Milliseconds())
	if h.timeout <= left+100 { // the usual timeout is as long as the patience, less what has passed of it
		return nil
	}
	h.changed = true
	return setPragma(ctx, h.conn, "busy_timeout", left)
}

// restore puts the program's busy timeout back.
func (h *holder) restore(ctx context.Context) error {
	if !h.changed {
		return nil
	}
	h.changed = false
	return setPragma(ctx, h.conn, "busy_timeout", h.timeout)
}

// giveBack leaves the connection as it was found, or closes it.
func (h *holder) giveBack(ctx context.Context) {
	clean := rollback(ctx, h.conn)
	if h.restore(ctx) != nil || !clean {
		discard(h.conn)
		return
	}
	h.conn.Close()
}

// rollback ends the transaction of conn, if there is one, and reports whether there
// is certainly none any more. SQLite itself has ended it after some errors.
func rollback(ctx context.Context, conn *sql.Conn) bool {
	_, err := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	return err == nil || strings.Contains(err.Error(), "no transaction is active")
}
