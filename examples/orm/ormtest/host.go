// Package ormtest is what the tests of the ORM examples have in common: a
// database with two tickets in it, an outbox on the same database, and a look at
// what was committed.
package ormtest

import (
	"database/sql"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/pgtest"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/postgres"
	"github.com/consign-go/consign/sqlite"
)

// TooLong is a note that makes the example's message too large to be enqueued.
var TooLong = strings.Repeat("x", 20_000)

// Host is a program's database: the tickets 41 and 42, both new, and an outbox.
type Host struct {
	DB      *sql.DB // the only handle on the database: the ORM's, and the store's
	Dialect string  // "postgres" or "sqlite"
	Outbox  *consign.Outbox[*sql.Tx]

	intents string // the table
}

// OnEachDatabase runs a test on PostgreSQL and on an SQLite file.
func OnEachDatabase(t *testing.T, test func(t *testing.T, h *Host)) {
	t.Run("postgres", func(t *testing.T) { test(t, OnPostgres(t)) })
	t.Run("sqlite", func(t *testing.T) { test(t, OnSQLite(t, OpenSQLite(t, "sqlite"))) })
}

// OnPostgres returns a host in a schema of its own.
func OnPostgres(t *testing.T) *Host {
	t.Helper()
	schema := pgtest.Schema(t)
	pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = schema })
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { db.Close() })
	store, err := postgres.NewSQL(pool, db, &postgres.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	h := &Host{DB: db, Dialect: "postgres", intents: schema + ".intent"}
	h.open(t, store)
	return h
}

// OnSQLite returns a host on a database that the caller has opened, with
// whichever SQLite library its program uses.
func OnSQLite(t *testing.T, db *sql.DB) *Host {
	t.Helper()
	store, err := sqlite.New(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &Host{DB: db, Dialect: "sqlite", intents: "consign_intent"}
	h.open(t, store)
	return h
}

// settings are what package sqlite recommends, for the driver of each library.
var settings = map[string]string{
	"sqlite":  "_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)&_txlock=immediate",
	"sqlite3": "_journal_mode=WAL&_synchronous=FULL&_busy_timeout=5000&_txlock=immediate",
}

// OpenSQLite opens an empty file through the driver of this name. Its pool has
// one connection, so that whatever leaves the transaction finds no other.
func OpenSQLite(t *testing.T, driver string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, "file:"+filepath.Join(t.TempDir(), "tickets.db")+"?"+settings[driver])
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

func (h *Host) open(t *testing.T, store interface {
	consign.Store[*sql.Tx]
	migrate.Store
}) {
	t.Helper()
	if _, err := migrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	var err error
	if h.Outbox, err = consign.New(store, nil); err != nil {
		t.Fatal(err)
	}
	h.Exec(t, `CREATE TABLE tickets (id integer PRIMARY KEY, status text NOT NULL)`)
	h.Exec(t, `INSERT INTO tickets VALUES (41, 'new'), (42, 'new')`)
}

// Exec runs one statement outside of any transaction of the test.
func (h *Host) Exec(t *testing.T, query string) {
	t.Helper()
	if _, err := h.DB.ExecContext(t.Context(), query); err != nil {
		t.Fatal(err)
	}
}

// WantTriaged fails the test unless exactly these tickets are triaged, and there
// is exactly one message about each of them and none about any other.
func (h *Host) WantTriaged(t *testing.T, want ...int) {
	t.Helper()
	rows := ints(t, h.DB, `SELECT id FROM tickets WHERE status = 'triaged' ORDER BY id`, func(id int) int { return id })
	if !slices.Equal(rows, want) {
		t.Errorf("triaged tickets %v, want %v", rows, want)
	}
	messages := ints(t, h.DB, `SELECT payload FROM `+h.intents, func(payload string) int {
		var p struct{ Ticket int }
		if err := json.Unmarshal([]byte(payload), &p); err != nil {
			t.Fatal(err)
		}
		return p.Ticket
	})
	slices.Sort(messages)
	if !slices.Equal(messages, want) {
		t.Errorf("messages about tickets %v, want %v", messages, want)
	}
}

func ints[T any](t *testing.T, db *sql.DB, query string, number func(T) int) []int {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var out []int
	for rows.Next() {
		var v T
		if err := rows.Scan(&v); err != nil {
			t.Fatal(err)
		}
		out = append(out, number(v))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}
