package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"
)

// querier is a connection or a transaction of database/sql.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// session runs statements on one connection for the length of one call. Each text is
// prepared once, or comes from the cache.
type session struct {
	e        *engine
	on       querier
	tx       *sql.Tx // the same as on, where that is a transaction
	foreign  bool    // tx belongs to another pool on the same file
	prepared map[string]*sql.Stmt
	fresh    []string // what the cache did not have
}

func (e *engine) inTx(tx *sql.Tx) session     { return session{e: e, on: tx, tx: tx} }
func (e *engine) onConn(c *sql.Conn) *session { return &session{e: e, on: c} }

func (s *session) close() {
	for _, stmt := range s.prepared {
		stmt.Close()
	}
}

func (s *session) prepare(ctx context.Context, text string) (*sql.Stmt, error) {
	if stmt := s.prepared[text]; stmt != nil {
		return stmt, nil
	}
	var stmt *sql.Stmt
	if s.tx != nil && !s.foreign {
		if known := s.e.cache.find(text); known != nil {
			stmt = s.tx.StmtContext(ctx, known)
		} else {
			s.fresh = append(s.fresh, text)
		}
	}
	if stmt == nil {
		var err error
		if stmt, err = s.on.PrepareContext(ctx, s.e.sql(text)); err != nil {
			return nil, err
		}
	}
	if s.prepared == nil {
		s.prepared = map[string]*sql.Stmt{}
	}
	s.prepared[text] = stmt
	return stmt, nil
}

// prepareHere forgets a statement of the cache where it turns out to be useless:
// the transaction of the caller is of another pool than the store's. It reports
// whether the statement is to be prepared again.
func (s *session) prepareHere(text string, err error) bool {
	if err == nil || s.foreign || !strings.Contains(err.Error(), "statement from different database") {
		return false
	}
	s.foreign = true
	delete(s.prepared, text)
	return true
}

// exec runs a statement and returns how many rows it changed.
func (s *session) exec(ctx context.Context, text string, args ...any) (int, error) {
	stmt, err := s.prepare(ctx, text)
	if err != nil {
		return 0, err
	}
	result, err := stmt.ExecContext(ctx, args...)
	if s.prepareHere(text, err) {
		return s.exec(ctx, text, args...)
	}
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// cell takes a value as the driver hands it over, where database/sql would copy a BLOB.
type cell struct{ value *any }

func (c cell) Scan(v any) error {
	*c.value = v
	return nil
}

// query calls fn with the values of each row until fn is done or fails. The slice is
// used again for the next row, and a BLOB is the driver's until then: see [kept].
func (s *session) query(ctx context.Context, text string, args []any, columns int, fn func(v []any) (more bool, err error)) error {
	stmt, err := s.prepare(ctx, text)
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(ctx, args...)
	if s.prepareHere(text, err) {
		return s.query(ctx, text, args, columns, fn)
	}
	if err != nil {
		return err
	}
	defer rows.Close()
	values, into := make([]any, columns), make([]any, columns)
	for i := range values {
		into[i] = cell{&values[i]}
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if more, err := fn(values); err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

// kept is a row that stays as it is when the next one comes.
func kept(v []any) []any {
	v = slices.Clone(v)
	for i := range v {
		if b, ok := v[i].([]byte); ok {
			v[i] = bytes.Clone(b)
		}
	}
	return v
}

// number reads a single whole number.
func (s *session) number(ctx context.Context, text string) (n int64, err error) {
	err = s.query(ctx, text, nil, 1, func(v []any) (bool, error) {
		n = whole(v[0])
		return false, nil
	})
	return n, err
}

// now reads the database clock, in microseconds.
func (s *session) now(ctx context.Context) (int64, error) { return s.number(ctx, nowSQL) }

// pragma reads a setting of a connection that is a number.
func pragma(ctx context.Context, on querier, name string) (value int, err error) {
	err = on.QueryRowContext(ctx, "PRAGMA "+name).Scan(&value)
	return value, err
}

// setPragma changes a setting of a connection, also where ctx has ended: it is how
// settings are put back.
func setPragma(ctx context.Context, on querier, name string, value int) error {
	_, err := on.ExecContext(context.WithoutCancel(ctx), "PRAGMA "+name+" = "+strconv.Itoa(value))
	return err
}
