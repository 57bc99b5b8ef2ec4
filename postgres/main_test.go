package postgres

import (
	"context"
	"database/sql"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/migration"
	"github.com/consign-go/consign/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Runner{M: m, TCP: true}.Run()) }

// database is a migrated schema of a test's own.
type database struct {
	*Store
	*engine
	pool   *pgxpool.Pool
	schema string
}

// open migrates a fresh schema.
func open(t testing.TB, options ...func(*pgxpool.Config)) *database {
	t.Helper()
	pool, schema := pgtest.Pool(t, options...), pgtest.Schema(t)
	return openIn(t, pool, schema)
}

func openIn(t testing.TB, pool *pgxpool.Pool, schema string) *database {
	t.Helper()
	s, err := New(pool, &Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migration.Up(t.Context(), s.Migrations(driver.Key{})); err != nil {
		t.Fatal(err)
	}
	return &database{Store: s, engine: s.bound.engine, pool: pool, schema: schema}
}

// openSQL is the same schema for callers with a *sql.Tx.
func openSQL(t testing.TB, d *database) (*SQLStore, *sql.DB) {
	t.Helper()
	db := stdlib.OpenDBFromPool(d.pool)
	t.Cleanup(func() { db.Close() })
	s, err := NewSQL(d.pool, db, &Options{Schema: d.schema})
	if err != nil {
		t.Fatal(err)
	}
	return s, db
}

// exec runs statements past the store; {s} is its schema.
func (d *database) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if len(args) == 0 {
		args = []any{pgx.QueryExecModeSimpleProtocol}
	}
	if _, err := d.pool.Exec(t.Context(), d.expand(sql), args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// one reads one value past the store.
func one[T any](t testing.TB, d *database, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := d.pool.QueryRow(t.Context(), d.expand(sql), args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// insert writes rows in a transaction of its own.
func (d *database) insert(t testing.TB, rows ...driver.New) {
	t.Helper()
	if err := d.insertErr(t.Context(), rows...); err != nil {
		t.Fatal(err)
	}
}

func (d *database) insertErr(ctx context.Context, rows ...driver.New) error {
	return pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error { return d.bound.Join(tx).Insert(ctx, rows) })
}
