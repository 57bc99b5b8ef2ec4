// Package suite is what the SQLite store's tests have in common, whichever SQLite
// library they run on. It exists so that the library in C can be tested from a
// module of its own and stays out of the module graph of Consign's users.
package suite

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/driver/drivertest"
	"github.com/consign-go/consign/internal/migration"
	"github.com/consign-go/consign/sqlite"
)

// Library is an SQLite library under database/sql.
type Library struct {
	// Driver is the name that it registered.
	Driver string

	// DSN returns the data source name of the file at path, in WAL mode with
	// synchronous=FULL and the busy timeout in milliseconds.
	DSN func(path string, busy int) string
}

// Escaped is path as it goes into a URI: the name of a test may have marks in it.
func Escaped(path string) string { return (&url.URL{Path: path}).EscapedPath() }

// Open opens the file at path with a pool of conns connections, 0 for no limit.
func (l Library) Open(t testing.TB, path string, conns int) *sql.DB {
	t.Helper()
	db, err := sql.Open(l.Driver, l.DSN(path, 5000))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(conns)
	t.Cleanup(func() { db.Close() })
	return db
}

// Fresh returns a migrated database in a new file and its store.
func (l Library) Fresh(t testing.TB, conns int) (*sql.DB, *sqlite.Store) {
	t.Helper()
	db := l.Open(t, filepath.Join(t.TempDir(), "test.db"), conns)
	return db, Migrated(t, db, "")
}

// Migrated returns the migrated store of a prefix, "" for the default one.
func Migrated(t testing.TB, db *sql.DB, prefix string) *sqlite.Store {
	t.Helper()
	store, err := sqlite.New(db, &sqlite.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migration.Up(t.Context(), store.Migrations(driver.Key{})); err != nil {
		t.Fatal(err)
	}
	return store
}

// tables of the schema, without prefix.
var tables = []string{
	"intent", "delivery", "attempt", "resolution", "run", "approval", "audit", "program", "program_route", "pause", "setting",
}

const prefix = "consign_"

// Harness lets the conformance suite of package driver at a store.
func Harness(t testing.TB, db *sql.DB, store *sqlite.Store, concurrentReads bool) drivertest.Harness[*sql.Tx] {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE domain (key TEXT PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	h := &harness{db}
	var now func(ctx context.Context, tx *sql.Tx) (time.Time, error)
	if concurrentReads { // it is compared with the store's own clock while the view is open
		now = viewNow
	}
	bound := store.Driver(driver.Key{})
	return drivertest.Harness[*sql.Tx]{
		Bound: bound,
		Reset: h.reset, Shift: bound.(driver.Elapser).Elapse, Rows: h.rows, Put: h.put, Set: h.set,
		Write: func(ctx context.Context, tx *sql.Tx, key string) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO domain (key) VALUES (?)", key)
			return err
		},
		Read: func(ctx context.Context, tx *sql.Tx, key string) (there bool, err error) {
			err = tx.QueryRowContext(ctx, "SELECT count(*) FROM domain WHERE key = ?", key).Scan(&there)
			return there, err
		},
		Now:          now,
		Capabilities: drivertest.Capabilities{ConcurrentReads: concurrentReads},
	}
}

func viewNow(ctx context.Context, tx *sql.Tx) (time.Time, error) {
	var now string
	if err := tx.QueryRowContext(ctx, "SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now')").Scan(&now); err != nil {
		return time.Time{}, err
	}
	return time.Parse(time.RFC3339Nano, now)
}

type harness struct{ db *sql.DB }

// change runs fn in a transaction that has the write lock from its first statement.
func (h *harness) change(ctx context.Context, fn func(tx *sql.Tx) error) error {
	tx, err := h.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func (h *harness) reset(ctx context.Context) error {
	return h.change(ctx, func(tx *sql.Tx) error {
		for _, table := range tables {
			if _, err := tx.ExecContext(ctx, "DELETE FROM "+prefix+table); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM domain")
		return err
	})
}

func (h *harness) rows(ctx context.Context, table string) ([]map[string]any, error) {
	return Rows(ctx, h.db, "SELECT * FROM "+prefix+table)
}

// Rows returns every row of a query, each column by its name.
func Rows(ctx context.Context, db *sql.DB, query string, args ...any) ([]map[string]any, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var all []map[string]any
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		row := map[string]any{}
		for i, c := range columns {
			row[c] = values[i]
		}
		all = append(all, row)
	}
	return all, rows.Err()
}

func (h *harness) put(ctx context.Context, table string, row map[string]any) error {
	names, args := columns(row)
	_, err := h.db.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s%s (%s) VALUES (?%s)", prefix, table,
		strings.Join(names, ", "), strings.Repeat(", ?", len(names)-1)), args...)
	return err
}

func (h *harness) set(ctx context.Context, table string, ref driver.ID, row map[string]any) error {
	names, args := columns(row)
	_, err := h.db.ExecContext(ctx, fmt.Sprintf("UPDATE %s%s SET %s = ? WHERE ref = ?", prefix, table,
		strings.Join(names, " = ?, ")), append(args, ref[:])...)
	return err
}

// columns returns the names of row and its values as they are stored.
func columns(row map[string]any) (names []string, args []any) {
	for name := range row {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		switch v := row[name].(type) {
		case driver.ID:
			args = append(args, v[:])
		case time.Time:
			args = append(args, v.UnixMicro())
		default:
			args = append(args, v)
		}
	}
	return names, args
}
