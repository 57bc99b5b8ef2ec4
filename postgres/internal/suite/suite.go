// Package suite makes harnesses for package drivertest on PostgreSQL: what the
// suite does to the database behind a store's back. The tests of the store and
// those of other client libraries, which are modules of their own, share it.
package suite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/driver/drivertest"
)

// tables are all tables of the schema.
var tables = []string{
	"intent", "delivery", "attempt", "resolution", "run", "approval", "audit", "program", "program_route", "pause", "setting",
}

// Database is a migrated schema, reached past the store.
type Database struct {
	Pool   *pgxpool.Pool
	Schema string // needs no quoting
}

// PGX returns a harness for a store whose callers have a pgx.Tx.
func PGX(t testing.TB, d Database, bound driver.Bound[pgx.Tx]) drivertest.Harness[pgx.Tx] {
	h := harness(t, d, bound)
	h.Write = func(ctx context.Context, tx pgx.Tx, key string) error {
		_, err := tx.Exec(ctx, "INSERT INTO "+d.name("own")+" VALUES ($1)", key)
		return err
	}
	h.Read = func(ctx context.Context, tx pgx.Tx, key string) (found bool, err error) {
		err = tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+d.name("own")+" WHERE key = $1)", key).Scan(&found)
		return found, err
	}
	h.Now = func(ctx context.Context, tx pgx.Tx) (now time.Time, err error) {
		err = tx.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now)
		return now, err
	}
	return h
}

// SQL returns a harness for a store whose callers have a *sql.Tx.
func SQL(t testing.TB, d Database, bound driver.Bound[*sql.Tx]) drivertest.Harness[*sql.Tx] {
	h := harness(t, d, bound)
	h.Write = func(ctx context.Context, tx *sql.Tx, key string) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO "+d.name("own")+" VALUES ($1)", key)
		return err
	}
	h.Read = func(ctx context.Context, tx *sql.Tx, key string) (found bool, err error) {
		err = tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM "+d.name("own")+" WHERE key = $1)", key).Scan(&found)
		return found, err
	}
	h.Now = func(ctx context.Context, tx *sql.Tx) (now time.Time, err error) {
		err = tx.QueryRowContext(ctx, "SELECT clock_timestamp()").Scan(&now)
		return now, err
	}
	return h
}

// harness is what both have in common.
func harness[TX any](t testing.TB, d Database, bound driver.Bound[TX]) drivertest.Harness[TX] {
	t.Helper()
	if _, err := d.Pool.Exec(t.Context(), "CREATE TABLE "+d.name("own")+" (key text PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	return drivertest.Harness[TX]{
		Bound: bound, Reset: d.Reset, Shift: bound.(driver.Elapser).Elapse, Rows: d.rows, Put: d.put, Set: d.set,
		Hold: d.hold, Blocked: d.Blocked,
		Capabilities: drivertest.Capabilities{ConcurrentWriters: true, ConcurrentReads: true},
	}
}

func (d Database) name(table string) string { return d.Schema + "." + table }

// careless begins what need not survive a crash: the suite's own changes are
// many, and none is under test.
const careless = "SET LOCAL synchronous_commit = off;"

// Reset empties the tables. Deleting a few rows is far quicker than TRUNCATE,
// which gives every table and index a new file.
func (d Database) Reset(ctx context.Context) error {
	var b strings.Builder
	b.WriteString(careless)
	for _, table := range append(slices.Clone(tables), "own") {
		b.WriteString("DELETE FROM " + d.name(table) + ";")
	}
	_, err := d.Pool.Exec(ctx, b.String(), pgx.QueryExecModeSimpleProtocol)
	return err
}

// rows reads a whole table, and where each row lies in it.
func (d Database) rows(ctx context.Context, table string) ([]map[string]any, error) {
	rows, err := d.Pool.Query(ctx, "SELECT *, xmin::text, ctid::text FROM "+d.name(table))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToMap)
}

func (d Database) put(ctx context.Context, table string, row map[string]any) error {
	var columns, places []string
	var values []any
	for _, c := range slices.Sorted(maps.Keys(row)) {
		columns = append(columns, c)
		values = append(values, plain(row[c]))
		places = append(places, fmt.Sprintf("$%d", len(values)))
	}
	_, err := d.Pool.Exec(ctx, fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", d.name(table),
		strings.Join(columns, ", "), strings.Join(places, ", ")), values...)
	return err
}

func (d Database) set(ctx context.Context, table string, ref driver.ID, columns map[string]any) error {
	values := []any{plain(ref)}
	var sets []string
	for _, c := range slices.Sorted(maps.Keys(columns)) {
		values = append(values, plain(columns[c]))
		sets = append(sets, fmt.Sprintf("%s = $%d", c, len(values)))
	}
	tag, err := d.Pool.Exec(ctx, fmt.Sprintf("UPDATE %s SET %s WHERE ref = $1", d.name(table), strings.Join(sets, ", ")), values...)
	if err == nil && tag.RowsAffected() != 1 {
		return errors.New("no such row")
	}
	return err
}

// plain is a value as pgx takes it.
func plain(v any) any {
	if id, ok := v.(driver.ID); ok {
		return id.String()
	}
	return v
}

// hold locks deliveries as a claim does.
func (d Database) hold(ctx context.Context, refs []driver.ID) (func() error, error) {
	names := make([]string, len(refs))
	for i := range refs {
		names[i] = refs[i].String()
	}
	tx, err := d.Pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, "SELECT FROM "+d.name("delivery")+" WHERE ref = ANY ($1::uuid[]) FOR NO KEY UPDATE", names); err != nil {
		return nil, errors.Join(err, tx.Rollback(ctx))
	}
	return func() error { return tx.Rollback(ctx) }, nil
}

// Blocked counts the sessions in this schema that wait for a lock.
func (d Database) Blocked(ctx context.Context) (n int, err error) {
	err = d.Pool.QueryRow(ctx,
		"SELECT count(*) FROM pg_stat_activity WHERE cardinality(pg_blocking_pids(pid)) > 0 AND query LIKE '%' || $1 || '%'",
		d.Schema).Scan(&n)
	return n, err
}
