package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/consign-go/consign/internal/driver"
)

// tx is a transaction as the contract sees it.
type tx struct {
	e    *engine
	raw  *sql.Tx
	conn *sql.Conn // of a transaction that this package began; nil for a caller's

	fresh []string // statements that were prepared for it
}

func (t *tx) remember() {
	t.e.remember(t.fresh)
	t.fresh = nil
}

// Join wraps a transaction that the caller owns.
func (e *engine) Join(raw *sql.Tx) driver.Tx { return &tx{e: e, raw: raw} }

// Begin opens a transaction that has the write lock from its first moment, so that
// a program may read in it before it writes. It takes the store's turn only until
// it has the lock: who has the transaction may do with it what takes time, and
// calls made meanwhile fail by their own patience instead of waiting for ever.
//
// The transaction does not end with ctx, or a view inside it could lose its
// connection to the pool while that is read-only.
func (e *engine) Begin(ctx context.Context) (*sql.Tx, driver.Tx, error) {
	var t *tx
	err := e.inTurn(ctx, e.budget, func(p *wait) (err error) {
		t, err = e.beginLocked(ctx, p)
		return err
	})
	if err != nil {
		return nil, nil, e.fault("begin", err)
	}
	return t.raw, t, nil
}

// lock waits for the write lock of a transaction that may not have it.
func (t *tx) lock(ctx context.Context) error {
	p := patience(t.e.budget)
	for {
		_, err := t.raw.ExecContext(ctx, t.e.sql(lockSQL))
		if err == nil {
			return nil
		}
		if err := p.again(ctx, err); err != nil {
			return err
		}
	}
}

// Commit commits. Where the end of ctx comes first, it rolls back.
func (t *tx) Commit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		t.Rollback(ctx)
		return t.e.fault("commit", err)
	}
	err := t.raw.Commit()
	t.release(ctx, err)
	if err != nil && !errors.Is(err, sql.ErrTxDone) && !notCommitted(err) {
		err = fmt.Errorf("%w: %w", driver.ErrUnconfirmed, err)
	}
	return t.e.fault("commit", err)
}

// Rollback rolls back.
func (t *tx) Rollback(ctx context.Context) error {
	err := t.raw.Rollback()
	t.release(ctx, err)
	return t.e.fault("rollback", err)
}

// release gives an own connection back, once.
func (t *tx) release(ctx context.Context, err error) {
	if t.conn == nil {
		return
	}
	conn := t.conn
	t.conn = nil
	// Somebody else may have ended it, inside of a view even, which could not make it
	// writable again then.
	if err != nil && (!rollback(ctx, conn) || setPragma(ctx, conn, "query_only", 0) != nil) {
		discard(conn)
		return
	}
	conn.Close()
	if err == nil {
		t.remember()
	}
}

// alive returns driver.ErrClosed where SQLite has ended the transaction by itself, as
// it does when a write is interrupted, the disk is full or a conflict clause says so.
// database/sql does not notice: every statement would be a transaction of its own
// then, and what is enqueued would commit although the program's data did not. There
// is no way to ask; but only outside of a transaction can one begin.
func (t *tx) alive(ctx context.Context) error {
	_, err := t.raw.ExecContext(ctx, "BEGIN")
	switch {
	case err == nil:
		t.raw.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return fmt.Errorf("%w: SQLite has rolled it back after an error", driver.ErrClosed)
	case strings.Contains(err.Error(), "within a transaction"):
		return nil
	}
	return err
}

// Savepoint begins a part that can be undone alone. Its name is its own: what the
// caller's code leaves open inside of it can never be mistaken for it.
func (t *tx) Savepoint(ctx context.Context) (driver.Savepoint, error) {
	id := driver.NewID()
	p := &savepoint{t: t, name: "consign_" + hex.EncodeToString(id[:])}
	if err := t.alive(ctx); err != nil {
		return nil, t.e.fault("savepoint", err)
	}
	if _, err := t.raw.ExecContext(ctx, "SAVEPOINT "+p.name); err != nil {
		return nil, t.e.fault("savepoint", err)
	}
	return p, nil
}

type savepoint struct {
	t    *tx
	name string
	done bool
}

// Release keeps what happened since.
func (p *savepoint) Release(ctx context.Context) error { return p.end(ctx, "RELEASE ") }

// Rollback undoes what happened since.
func (p *savepoint) Rollback(ctx context.Context) error {
	return p.end(ctx, "ROLLBACK TO ", "RELEASE ")
}

func (p *savepoint) end(ctx context.Context, verbs ...string) error {
	if p.done {
		return p.t.e.fault("savepoint", driver.ErrClosed)
	}
	p.done = true
	for _, verb := range verbs {
		if _, err := p.t.raw.ExecContext(ctx, verb+p.name); err != nil {
			return p.t.e.fault("savepoint", err)
		}
	}
	return nil
}

// within runs fn and undoes what it did where it fails. A write lock that is not to
// be had at once is waited for, as long as for a call of the store's own: this may
// be the first write of a transaction whose program set no busy timeout.
func (t *tx) within(ctx context.Context, op string, fn func(s *session) error) error {
	p := patience(t.e.budget)
	for {
		err := t.try(ctx, fn)
		if err == nil {
			return nil
		}
		if err := p.again(ctx, err); err != nil {
			return t.e.fault(op, err)
		}
	}
}

func (t *tx) try(ctx context.Context, fn func(s *session) error) error {
	const name = "consign_call"
	if err := t.alive(ctx); err != nil {
		return err
	}
	if _, err := t.raw.ExecContext(ctx, "SAVEPOINT "+name); err != nil {
		return err
	}
	s := t.e.inTx(t.raw)
	err := fn(&s)
	s.close()
	free := context.WithoutCancel(ctx)
	if err != nil {
		// Where this fails, SQLite has rolled the whole transaction back.
		if _, undo := t.raw.ExecContext(free, "ROLLBACK TO "+name); undo != nil {
			return err
		}
	}
	if _, end := t.raw.ExecContext(free, "RELEASE "+name); end != nil && err == nil {
		return end
	}
	if err == nil {
		t.fresh = append(t.fresh, s.fresh...)
		if t.conn == nil { // the caller will not say when its connection is free
			t.remember()
		}
	}
	return err
}

const schemaSQL = `SELECT max(version), max(oldest) FROM {s}migration`

// Schema reads the schema's version. Who asks is about to write, and SQLite refuses
// a transaction that reads first and writes later, so the write lock is taken first.
// In a view there is none to be had.
func (t *tx) Schema(ctx context.Context) (driver.Schema, error) {
	if err := t.lock(ctx); err != nil && !isReadOnly(err) {
		return driver.Schema{}, t.e.fault("schema", err)
	}
	var version, oldest sql.NullInt64
	if err := t.raw.QueryRowContext(ctx, t.e.sql(schemaSQL)).Scan(&version, &oldest); err != nil {
		return driver.Schema{}, t.e.fault("schema", err)
	}
	if !version.Valid {
		return driver.Schema{}, t.e.fault("schema", driver.ErrNoSchema)
	}
	return driver.Schema{Version: int(version.Int64), Oldest: int(oldest.Int64)}, nil
}
