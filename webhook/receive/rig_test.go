package receive_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/consign-go/consign/internal/pgtest"
	"github.com/consign-go/consign/webhook"
	"github.com/consign-go/consign/webhook/internal/signature"
	"github.com/consign-go/consign/webhook/receive"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func key(fill string) receive.Key {
	k, err := webhook.ParseKey("whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(fill, 32))))
	if err != nil {
		panic(err)
	}
	return k
}

// desk is a receiving program, whatever its database: it counts what it executed in
// a table of its own, in the transaction that it is given.
type desk struct {
	handler  func(o receive.Options, then func(d receive.Delivery) (receive.Response, error)) http.Handler
	executed func() int // rows that its work left
	keys     func() int // rows in the table of keys
	begin    func(o receive.Options) *work
	locks    bool // whether Begin answers ErrInProgress at once
}

// work is one transaction of the receiving program, by hand.
type work struct {
	begin            func(d receive.Delivery) (*receive.Response, error)
	finish           func(d receive.Delivery, r receive.Response) error
	forget           func(age time.Duration, limit int) (int64, error)
	commit, rollback func() error
}

// onEveryDatabase runs a test on PostgreSQL through pgx and database/sql, and on an
// SQLite file.
func onEveryDatabase(t *testing.T, test func(t *testing.T, d *desk)) {
	t.Run("pgx", func(t *testing.T) { test(t, onPgx(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, onPostgresSQL(t)) })
	t.Run("sqlite", func(t *testing.T) { test(t, onSQLite(t)) })
}

// made is what the databases differ in.
type made[TX any] struct {
	store            *receive.Store[TX]
	begin            func() (TX, error)
	exec             func(tx TX, query string) error
	count            func(query string) int
	commit, rollback func(tx TX) error
	prefix           string
}

func assemble[TX any](t *testing.T, m made[TX]) *desk {
	t.Helper()
	for range 2 { // harmless to repeat
		if err := m.store.Create(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	tx, err := m.begin()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.exec(tx, "CREATE TABLE "+m.prefix+"effect (n integer)"); err != nil {
		t.Fatal(err)
	}
	if err := m.commit(tx); err != nil {
		t.Fatal(err)
	}
	receiver := func(o receive.Options) *receive.Receiver[TX] {
		r, err := receive.New(m.store, o)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	return &desk{
		handler: func(o receive.Options, then func(d receive.Delivery) (receive.Response, error)) http.Handler {
			return receiver(o).Handler(func(_ context.Context, tx TX, d receive.Delivery) (receive.Response, error) {
				if err := m.exec(tx, "INSERT INTO "+m.prefix+"effect VALUES (1)"); err != nil {
					return receive.Response{}, err
				}
				return then(d)
			})
		},
		executed: func() int { return m.count("SELECT count(*) FROM " + m.prefix + "effect") },
		keys:     func() int { return m.count("SELECT count(*) FROM " + m.prefix + receive.DefaultTable) },
		begin: func(o receive.Options) *work {
			tx, err := m.begin()
			if err != nil {
				t.Fatal(err)
			}
			r := receiver(o)
			return &work{
				begin:    func(d receive.Delivery) (*receive.Response, error) { return r.Begin(t.Context(), tx, d) },
				finish:   func(d receive.Delivery, a receive.Response) error { return r.Finish(t.Context(), tx, d, a) },
				forget:   func(age time.Duration, n int) (int64, error) { return r.Forget(t.Context(), tx, age, n) },
				commit:   func() error { return m.commit(tx) },
				rollback: func() error { return m.rollback(tx) },
			}
		},
		locks: m.prefix != "",
	}
}

func onPgx(t *testing.T) *desk {
	pool, schema := pgtest.Pool(t), pgtest.Schema(t)
	return assemble(t, made[pgx.Tx]{
		store: receive.Pgx(pool, schema+"."+receive.DefaultTable), prefix: schema + ".",
		begin: func() (pgx.Tx, error) { return pool.Begin(t.Context()) },
		exec:  func(tx pgx.Tx, q string) error { _, err := tx.Exec(t.Context(), q); return err },
		count: func(q string) (n int) {
			if err := pool.QueryRow(t.Context(), q).Scan(&n); err != nil {
				t.Error(err)
			}
			return n
		},
		commit:   func(tx pgx.Tx) error { return tx.Commit(t.Context()) },
		rollback: func(tx pgx.Tx) error { return tx.Rollback(t.Context()) },
	})
}

func onPostgresSQL(t *testing.T) *desk {
	schema := pgtest.Schema(t)
	db := stdlib.OpenDBFromPool(pgtest.Pool(t))
	t.Cleanup(func() { db.Close() })
	return onSQL(t, db, receive.Postgres(db, schema+"."+receive.DefaultTable), schema+".")
}

func onSQLite(t *testing.T) *desk {
	db := openSQLite(t, "receiver.db")
	return onSQL(t, db, receive.SQLite(db, ""), "")
}

func openSQLite(t *testing.T, name string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), name)+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func onSQL(t *testing.T, db *sql.DB, store *receive.Store[*sql.Tx], prefix string) *desk {
	return assemble(t, made[*sql.Tx]{
		store: store, prefix: prefix,
		begin: func() (*sql.Tx, error) { return db.BeginTx(t.Context(), nil) },
		exec:  func(tx *sql.Tx, q string) error { _, err := tx.ExecContext(t.Context(), q); return err },
		count: func(q string) (n int) {
			if err := db.QueryRowContext(t.Context(), q).Scan(&n); err != nil {
				t.Error(err)
			}
			return n
		},
		commit:   func(tx *sql.Tx) error { return tx.Commit() },
		rollback: func(tx *sql.Tx) error { return tx.Rollback() },
	})
}

const body = `{"event":"ticket.triaged"}`

// signed is a request as a sender would make it.
func signed(k receive.Key, id string, at time.Time, body string) *http.Request {
	req := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(body))
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
	req.Header.Set("Webhook-Signature", signature.Request([]receive.Key{k}, id, at.Unix(), []byte(body)))
	return req
}

// serve hands one request to a handler.
func serve(h http.Handler, req *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w.Result()
}

func text(r *http.Response) string {
	var b bytes.Buffer
	b.ReadFrom(r.Body)
	return b.String()
}

// faults are the errors that a handler told its program.
type faults struct {
	mu  sync.Mutex
	all []error
}

func (f *faults) note(_ string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, err)
}
