package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// A read-only transaction is something that SQLite's drivers accept and ignore.
// What does work is PRAGMA query_only: it belongs to the connection, so it has to
// be put back whatever happens, or the program's pool would have a connection that
// does not write any more.

// View runs fn in a transaction on a connection of its own, with writes failing.
func (e *engine) View(ctx context.Context, fn func(tx *sql.Tx) error) error {
	p := patience(e.budget)
	conn, err := e.take(ctx, p)
	if err != nil {
		return e.fault("view", err)
	}
	was, err := pragma(ctx, conn, "query_only")
	if err != nil {
		conn.Close()
		return e.fault("view", err)
	}
	clean := false
	defer func() { // also where fn panics
		if setPragma(ctx, conn, "query_only", was) != nil || !clean {
			discard(conn)
			return
		}
		conn.Close()
	}()
	tx, err := e.beginView(ctx, conn, p)
	if err != nil {
		return e.fault("view", err)
	}
	defer func() {
		err := tx.Rollback()
		clean = err == nil || rollback(ctx, conn) // fn may have ended it
	}()
	return fn(tx)
}

// beginView begins a transaction that only reads. A program may have asked its
// driver to take the write lock whenever a transaction begins; a reader must not
// hold that, so the transaction is begun again, underneath database/sql, without.
func (e *engine) beginView(ctx context.Context, conn *sql.Conn, p *wait) (*sql.Tx, error) {
	if err := setPragma(ctx, conn, "query_only", 1); err != nil {
		return nil, err
	}
	free := context.WithoutCancel(ctx) // the pool must not end it while fn runs
	tx, err := conn.BeginTx(free, &sql.TxOptions{ReadOnly: true})
	if err == nil || !isReadOnly(err) {
		return tx, err
	}
	if err := setPragma(ctx, conn, "query_only", 0); err != nil {
		return nil, err
	}
	for {
		if tx, err = conn.BeginTx(free, nil); err == nil {
			break
		}
		if err := p.again(ctx, err); err != nil {
			return nil, err
		}
	}
	for _, step := range []string{"ROLLBACK", "BEGIN", "PRAGMA query_only = 1"} {
		if _, err := tx.ExecContext(free, step); err != nil {
			tx.Rollback()
			return nil, err
		}
	}
	return tx, nil
}

// ViewIn runs fn in the caller's transaction, with writes failing until fn returns.
func (e *engine) ViewIn(ctx context.Context, tx *sql.Tx, fn func(tx *sql.Tx) error) (err error) {
	was, err := pragma(ctx, tx, "query_only")
	if err != nil {
		return e.fault("view", err)
	}
	if was == 0 {
		defer func() { // also where fn panics
			if stuck := setPragma(ctx, tx, "query_only", 0); stuck != nil {
				e.writeAgain()
				if err == nil {
					err = e.fault("view", stuck)
				}
			}
		}()
		if err := setPragma(ctx, tx, "query_only", 1); err != nil {
			return e.fault("view", err)
		}
	}
	return fn(tx)
}

// writeAgain looks for a connection that a view has left read-only, because its
// transaction came to an end inside of it: database/sql rolls one back as soon as
// the context ends that it was begun with, and the connection goes to the pool as
// it is. Drivers that cannot reset a connection have theirs closed instead, so it
// may also be gone; a quarter of a second is enough for a rollback to arrive.
func (e *engine) writeAgain() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second/4)
	defer cancel()
	for ctx.Err() == nil {
		if e.searchPool(ctx) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// searchPool takes the idle connections, all of them, so that each comes up once.
func (e *engine) searchPool(ctx context.Context) (found bool) {
	var held []*sql.Conn
	defer func() {
		for _, conn := range held {
			conn.Close()
		}
	}()
	for range e.db.Stats().Idle {
		conn, err := e.db.Conn(ctx)
		if errors.Is(err, context.DeadlineExceeded) || err != nil {
			return false
		}
		held = append(held, conn)
		if on, err := pragma(ctx, conn, "query_only"); err != nil || on == 0 {
			continue
		}
		return setPragma(ctx, conn, "query_only", 0) == nil
	}
	return false
}
