package postgres

import (
	"context"
	"database/sql"

	"github.com/consign-go/consign/internal/driver"
)

// sqlSession is a session on a *sql.Tx of any driver for PostgreSQL. What it
// sends is text, numbers, truth values and bytes, which all of them take.
type sqlSession struct{ tx *sql.Tx }

func (s sqlSession) exec(ctx context.Context, sql string, args []any) error {
	_, err := s.tx.ExecContext(ctx, sql, literals(args)...)
	return err
}

func (s sqlSession) query(ctx context.Context, sql string, args []any, each func(scanFunc) error) error {
	rows, err := s.tx.QueryContext(ctx, sql, literals(args)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// commit does not look at ctx: a *sql.Tx ends with the context it was begun with.
func (s sqlSession) commit(context.Context) error   { return s.tx.Commit() }
func (s sqlSession) rollback(context.Context) error { return s.tx.Rollback() }

// sqlBound is the engine for callers whose transaction is a *sql.Tx.
type sqlBound struct {
	*engine
	db *sql.DB
}

var _ driver.Bound[*sql.Tx] = sqlBound{}

// Join wraps a transaction that the caller owns.
func (b sqlBound) Join(tx *sql.Tx) driver.Tx {
	if tx == nil {
		return &transaction{b.engine, closed{}}
	}
	return &transaction{b.engine, sqlSession{tx}}
}

// Begin opens a transaction.
func (b sqlBound) Begin(ctx context.Context) (*sql.Tx, driver.Tx, error) {
	tx, err := b.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, nil, clean("begin", err)
	}
	for _, set := range []string{"SET TRANSACTION READ WRITE", durableSQL} {
		if _, err := tx.ExecContext(ctx, set); err != nil {
			tx.Rollback()
			return nil, nil, clean("begin", err)
		}
	}
	return tx, b.Join(tx), nil
}

// View runs fn in a read-only transaction.
func (b sqlBound) View(ctx context.Context, fn func(tx *sql.Tx) error) error {
	tx, err := b.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return clean("view", err)
	}
	defer tx.Rollback() // it has nothing to commit, and fn may have broken it off
	return fn(tx)
}

// ViewIn runs fn inside tx with writes failing.
func (b sqlBound) ViewIn(ctx context.Context, tx *sql.Tx, fn func(tx *sql.Tx) error) error {
	if tx == nil {
		return clean("view", driver.ErrClosed)
	}
	return viewIn(ctx, sqlSession{tx}, func() error { return fn(tx) })
}
