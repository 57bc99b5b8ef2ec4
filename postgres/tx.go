package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign/internal/driver"
)

// session is a transaction of either client library, with the little that the
// contract needs of it.
type session interface {
	exec(ctx context.Context, sql string, args []any) error
	// query calls each for every row. UUIDs are scanned as text.
	query(ctx context.Context, sql string, args []any, each func(scanFunc) error) error
	commit(ctx context.Context) error
	rollback(ctx context.Context) error
}

type scanFunc func(targets ...any) error

// restoreTimeout limits what must still be done once the caller's own context is
// over: to roll back, and to make a transaction writable again after a view.
const restoreTimeout = 5 * time.Second

// transaction is driver.Tx on a session, the caller's or one of Begin.
type transaction struct {
	e  *engine
	on session
}

// migrationsSQL asks for the list of migrations by name: naming it in a statement
// would fail where it is missing, and take the caller's transaction with it.
const migrationsSQL = `SELECT to_regclass('{s}migration') IS NOT NULL`

// listedSQL reads what the list says, and a setting under which the array literals
// that database/sql sends would store the word NULL for what is absent.
const listedSQL = `SELECT COALESCE(max(version), 0), COALESCE(max(oldest), 0), current_setting('array_nulls') FROM {s}migration`

var errArrayNulls = errors.New("array_nulls is off on this connection, a setting for PostgreSQL before 8.2; turn it on")

// Schema returns the schema's version.
func (t *transaction) Schema(ctx context.Context) (driver.Schema, error) {
	var s driver.Schema
	var exists bool
	err := t.on.query(ctx, t.e.q.migrations, nil, func(scan scanFunc) error { return scan(&exists) })
	if err == nil && !exists {
		err = driver.ErrNoSchema
	}
	if err == nil {
		var arrayNulls string
		err = t.on.query(ctx, t.e.q.listed, nil, func(scan scanFunc) error { return scan(&s.Version, &s.Oldest, &arrayNulls) })
		if err == nil && arrayNulls == "off" {
			err = errArrayNulls
		}
	}
	return s, clean("schema", err)
}

// openRunSQL writes a run as far as it is known before anything was asked.
const openRunSQL = `
INSERT INTO {s}run (id, created_at, operation, actor, tenant, target, subject, input_digest)
VALUES ($1::uuid, clock_timestamp(), $2::text, $3::text, $4::text, $5::text, $6::text, $7::bytea)`

// OpenRun writes the run, unsealed.
func (t *transaction) OpenRun(ctx context.Context, r driver.Run) error {
	return clean("open run", t.on.exec(ctx, t.e.q.openRun, []any{
		uuid(r.ID), r.Operation, r.Actor, r.Tenant, text(r.Target), text(r.Subject), digest(r.InputDigest),
	}))
}

// sealRunSQL completes a run once, and writes its audit row with it.
const sealRunSQL = `
WITH sealed AS (
    UPDATE {s}run
    SET sealed_at = clock_timestamp(), security_version = $2::text, target = $3::text, target_version = $4::text,
        receipt = $5::text, work = $6::bytea
    WHERE id = $1::uuid AND sealed_at IS NULL
    RETURNING id, actor, sealed_at, approval_id
)
INSERT INTO {s}audit (at, made_by, action, run_id, approval_id)
SELECT sealed_at, actor, 'run', id, approval_id FROM sealed
RETURNING run_id`

// SealRun completes a run.
func (t *transaction) SealRun(ctx context.Context, r driver.Run) error {
	sealed := false
	args := []any{uuid(r.ID), r.SecurityVersion, r.Target, r.TargetVersion, text(string(r.Receipt)), r.WorkBytes()}
	err := t.on.query(ctx, t.e.q.sealRun, args, func(scanFunc) error {
		sealed = true
		return nil
	})
	if err == nil && !sealed {
		err = fmt.Errorf("run %s is not open", r.ID)
	}
	return clean("seal run", err)
}

// Savepoint begins a part that can be undone alone. Its name is its own: what the
// caller's code leaves open inside of it can never be mistaken for it.
func (t *transaction) Savepoint(ctx context.Context) (driver.Savepoint, error) {
	id := driver.NewID()
	p := savepoint{t.on, "consign_" + hex.EncodeToString(id[:])}
	if err := t.on.exec(ctx, "SAVEPOINT "+p.name, nil); err != nil {
		return nil, clean("savepoint", err)
	}
	return p, nil
}

type savepoint struct {
	on   session
	name string
}

func (p savepoint) Release(ctx context.Context) error {
	return clean("release", p.on.exec(ctx, "RELEASE SAVEPOINT "+p.name, nil))
}

func (p savepoint) Rollback(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, restoreTimeout)
	defer cancel()
	err := p.on.exec(ctx, "ROLLBACK TO SAVEPOINT "+p.name, nil)
	if err == nil {
		err = p.on.exec(ctx, "RELEASE SAVEPOINT "+p.name, nil)
	}
	return clean("roll back", err)
}

// Commit ends the transaction; see unconfirmed for what its errors mean. Where ctx
// is over already it is rolled back: that is certain, and the client libraries
// would leave it open to doubt.
func (t *transaction) Commit(ctx context.Context) error {
	if over := ctx.Err(); over != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreTimeout)
		defer cancel()
		if err := t.on.rollback(ctx); err != nil && known(err) != nil {
			return clean("commit", err) // it was closed before
		}
		return clean("commit", over)
	}
	err := t.on.commit(ctx)
	if err == nil {
		return nil
	}
	if doubt := unconfirmed(err); doubt != nil {
		return fmt.Errorf("%w: %w", doubt, clean("commit", err))
	}
	return clean("commit", err)
}

// Rollback undoes the transaction. It is called with contexts that do not end, and
// does not wait for ever for a server that does not answer.
func (t *transaction) Rollback(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, restoreTimeout)
	defer cancel()
	return clean("roll back", t.on.rollback(ctx))
}

// pgxSession is a session on a pgx.Tx.
type pgxSession struct{ tx pgx.Tx }

// open returns driver.ErrClosed where a statement of the program's own has ended the
// transaction, which pgx does not notice: what came then would commit at once.
func (s pgxSession) open() error {
	if conn := s.tx.Conn(); conn != nil && !conn.IsClosed() && conn.PgConn().TxStatus() == 'I' {
		return driver.ErrClosed
	}
	return nil
}

func (s pgxSession) exec(ctx context.Context, sql string, args []any) error {
	if err := s.open(); err != nil {
		return err
	}
	_, err := s.tx.Exec(ctx, sql, s.parameters(args)...)
	return err
}

func (s pgxSession) query(ctx context.Context, sql string, args []any, each func(scanFunc) error) error {
	if err := s.open(); err != nil {
		return err
	}
	rows, err := s.tx.Query(ctx, sql, s.parameters(args)...)
	if err != nil {
		return err
	}
	return drain(rows, func(rows pgx.Rows) error { return each(rows.Scan) })
}

// parameters puts args into a form that the transaction's connection can send.
func (s pgxSession) parameters(args []any) []any {
	if conn := s.tx.Conn(); len(args) > 0 && conn != nil {
		return parameters(conn, args)
	}
	return literals(args) // not pgx's own transaction: text suits all
}

func (s pgxSession) commit(ctx context.Context) error   { return s.tx.Commit(ctx) }
func (s pgxSession) rollback(ctx context.Context) error { return s.tx.Rollback(ctx) }

// pgxBound is the engine for callers whose transaction is a pgx.Tx.
type pgxBound struct{ *engine }

var _ driver.Bound[pgx.Tx] = pgxBound{}

// Join wraps a transaction that the caller owns.
func (b pgxBound) Join(tx pgx.Tx) driver.Tx {
	if tx == nil {
		return &transaction{b.engine, closed{}}
	}
	return &transaction{b.engine, pgxSession{tx}}
}

// Begin opens a transaction.
func (b pgxBound) Begin(ctx context.Context) (pgx.Tx, driver.Tx, error) {
	tx, err := b.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginWrite + "; " + durableSQL})
	if err != nil {
		return nil, nil, clean("begin", err)
	}
	return tx, b.Join(tx), nil
}

// View runs fn in a read-only transaction.
func (b pgxBound) View(ctx context.Context, fn func(tx pgx.Tx) error) error {
	tx, err := b.pool.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		return clean("view", err)
	}
	// It has nothing to commit, and fn may have broken it off.
	defer tx.Rollback(context.WithoutCancel(ctx))
	return fn(tx)
}

// ViewIn runs fn inside tx with writes failing.
func (b pgxBound) ViewIn(ctx context.Context, tx pgx.Tx, fn func(tx pgx.Tx) error) error {
	if tx == nil {
		return clean("view", driver.ErrClosed)
	}
	return viewIn(ctx, pgxSession{tx}, func() error { return fn(tx) })
}

// closed is the session of a transaction that is none.
type closed struct{}

func (closed) exec(context.Context, string, []any) error { return driver.ErrClosed }
func (closed) query(context.Context, string, []any, func(scanFunc) error) error {
	return driver.ErrClosed
}
func (closed) commit(context.Context) error   { return driver.ErrClosed }
func (closed) rollback(context.Context) error { return driver.ErrClosed }

// viewIn makes the transaction read-only within a savepoint, and goes back to
// before it: a setting made in a savepoint is undone with it, and so is whatever fn
// left behind, an error included.
func viewIn(ctx context.Context, on session, fn func() error) (err error) {
	if err := on.exec(ctx, "SAVEPOINT consign_view", nil); err != nil {
		return clean("view", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreTimeout)
		defer cancel()
		back := on.exec(ctx, "ROLLBACK TO SAVEPOINT consign_view", nil)
		if back == nil {
			back = on.exec(ctx, "RELEASE SAVEPOINT consign_view", nil)
		}
		if err == nil {
			err = clean("view", back)
		}
	}()
	if err := on.exec(ctx, "SET LOCAL transaction_read_only = on", nil); err != nil {
		return clean("view", err)
	}
	return fn()
}
