package suite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"
)

// Hook is asked before each statement is run, with its text and the number of its
// arguments. An error is returned in place of running it. Begin, commit and rollback
// of database/sql's own transactions come as "BEGIN", "COMMIT" and "ROLLBACK".
type Hook func(query string, args []driver.NamedValue) error

// OpenHooked is Open with a hook in every connection.
func (l Library) OpenHooked(t testing.TB, path string, conns int, hook Hook) *sql.DB {
	t.Helper()
	return l.OpenDSN(t, l.DSN(path, 5000), conns, hook)
}

// OpenDSN is OpenHooked for a data source name.
func (l Library) OpenDSN(t testing.TB, dsn string, conns int, hook Hook) *sql.DB {
	t.Helper()
	db, err := l.Hooked(dsn, hook)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(conns)
	t.Cleanup(func() { db.Close() })
	return db
}

// Hooked is OpenDSN outside of a test.
func (l Library) Hooked(dsn string, hook Hook) (*sql.DB, error) {
	probe, err := sql.Open(l.Driver, dsn)
	if err != nil {
		return nil, err
	}
	defer probe.Close()
	return sql.OpenDB(&connector{driver: probe.Driver(), dsn: dsn, hook: hook}), nil
}

type connector struct {
	driver driver.Driver
	dsn    string
	hook   Hook
}

func (c *connector) Driver() driver.Driver { return c.driver }

func (c *connector) Connect(context.Context) (driver.Conn, error) {
	inner, err := c.driver.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: inner, hook: c.hook}, nil
}

// conn is a connection with a hook. It hands on what database/sql asks of the
// drivers under test.
type conn struct {
	driver.Conn
	hook Hook
}

func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	inner, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return &stmt{Stmt: inner, query: query, hook: c.hook}, nil
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.hook(query, args); err != nil {
		return nil, err
	}
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.hook(query, args); err != nil {
		return nil, err
	}
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if err := c.hook("BEGIN", nil); err != nil {
		return nil, err
	}
	inner, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	return &transaction{Tx: inner, hook: c.hook}, nil
}

func (c *conn) ResetSession(ctx context.Context) error {
	if r, ok := c.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func (c *conn) IsValid() bool {
	v, ok := c.Conn.(driver.Validator)
	return !ok || v.IsValid()
}

type transaction struct {
	driver.Tx
	hook Hook
}

func (t *transaction) Commit() error {
	if err := t.hook("COMMIT", nil); err != nil {
		t.Tx.Rollback() // as the drivers do
		return err
	}
	return t.Tx.Commit()
}

func (t *transaction) Rollback() error {
	if err := t.hook("ROLLBACK", nil); err != nil {
		return err
	}
	return t.Tx.Rollback()
}

type stmt struct {
	driver.Stmt
	query string
	hook  Hook
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if err := s.hook(s.query, args); err != nil {
		return nil, err
	}
	return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if err := s.hook(s.query, args); err != nil {
		return nil, err
	}
	return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
}
