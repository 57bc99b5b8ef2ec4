package reply_test

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/pgtest"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/postgres"
	"github.com/consign-go/consign/reply"
	"github.com/consign-go/consign/sqlite"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(doomedVariable); spec != "" {
		doomed(spec)
		os.Exit(1)
	}
	os.Exit(pgtest.Main(m))
}

// replies is reply.Outbox with its transaction type hidden.
type replies interface {
	Create(ctx context.Context, m reply.Message) (reply.Record, error)
	CreateAll(ctx context.Context, ms []reply.Message) ([]reply.Record, error)
	Find(ctx context.Context, id consign.Ref) (reply.Record, bool, error)
	Pending(ctx context.Context) iter.Seq2[reply.Record, error]
	Claim(ctx context.Context, id consign.Ref) (*reply.Claim, bool, error)
	DeleteOlderThan(ctx context.Context, t time.Time) (int, error)
	PurgeSessions(ctx context.Context, sessions ...string) (int, error)
}

// host is a program with one database, whatever its kind.
type host struct {
	replies
	t *testing.T

	// another opens the database again, as another program does.
	another func(o reply.Options) replies
	// messages is an outbox of package consign on the same database.
	messages func(o consign.Options) messages
	begin    func() *txn
	address  string // what doomed opens
}

// messages is consign.Outbox with its transaction type hidden.
type messages interface {
	EnqueueNow(ctx context.Context, m consign.Message) (consign.Ref, error)
	Find(ctx context.Context, ref consign.Ref) (consign.Intent, error)
	Visit(ctx context.Context, ref consign.Ref) (consign.Result, error)
	Drain(ctx context.Context, limit int) ([]consign.Result, error)
	Serve(ctx context.Context) error
}

// txn is a transaction of the host with the calls that join it.
type txn struct {
	create    func(m reply.Message) (consign.Ref, error)
	createAll func(ms []reply.Message) ([]consign.Ref, error)
	exec      func(query string) error
	scan      func(query string, into any) error
	commit    func() error
	rollback  func() error
}

// onEveryStore runs a test on PostgreSQL through pgx and through database/sql, and on
// an SQLite file whose pool has a single connection.
func onEveryStore(t *testing.T, o reply.Options, test func(t *testing.T, h *host)) {
	t.Parallel() // most of the time goes into waiting for the disk
	t.Run("postgres", func(t *testing.T) { test(t, onPostgres(t, o)) })
	t.Run("postgres-sql", func(t *testing.T) { test(t, onPostgresSQL(t, o)) })
	t.Run("sqlite", func(t *testing.T) { test(t, onSQLite(t, o)) })
}

// tx is what is asked of a transaction, whatever its type.
type tx[TX any] struct {
	begin            func(ctx context.Context) (TX, error)
	exec             func(ctx context.Context, tx TX, query string) error
	scan             func(ctx context.Context, tx TX, query string, into any) error
	commit, rollback func(ctx context.Context, tx TX) error
	names            *strings.Replacer
}

func assemble[TX any, S interface {
	consign.Store[TX]
	migrate.Store
}](t *testing.T, store S, o reply.Options, m tx[TX]) *host {
	t.Helper()
	if _, err := migrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	open := func(o reply.Options) *reply.Outbox[TX] {
		out, err := reply.New(store, &o)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	mine := open(o)
	h := &host{replies: mine, t: t, another: func(o reply.Options) replies { return open(o) }}
	h.messages = func(o consign.Options) messages {
		out, err := consign.New(store, &o)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	h.begin = func() *txn {
		t.Helper()
		ctx := t.Context()
		raw, err := m.begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return &txn{
			create:    func(r reply.Message) (consign.Ref, error) { return mine.CreateIn(ctx, raw, r) },
			createAll: func(rs []reply.Message) ([]consign.Ref, error) { return mine.CreateAllIn(ctx, raw, rs) },
			exec:      func(query string) error { return m.exec(ctx, raw, m.names.Replace(query)) },
			scan:      func(query string, into any) error { return m.scan(ctx, raw, m.names.Replace(query), into) },
			commit:    func() error { return m.commit(ctx, raw) },
			rollback:  func() error { return m.rollback(ctx, raw) },
		}
	}
	return h
}

func onPostgres(t *testing.T, o reply.Options) *host {
	pool, schema := pgtest.Pool(t), pgtest.Schema(t)
	store, err := postgres.New(pool, &postgres.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	h := assemble(t, store, o, tx[pgx.Tx]{
		begin: pool.Begin,
		exec:  func(ctx context.Context, tx pgx.Tx, q string) error { _, err := tx.Exec(ctx, q); return err },
		scan:  func(ctx context.Context, tx pgx.Tx, q string, into any) error { return tx.QueryRow(ctx, q).Scan(into) },
		commit: func(ctx context.Context, tx pgx.Tx) error {
			return tx.Commit(ctx)
		},
		rollback: func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
		names:    inSchema(schema),
	})
	h.address = "postgres " + schema + " " + pgtest.URL(t)
	return h
}

func onPostgresSQL(t *testing.T, o reply.Options) *host {
	pool, schema := pgtest.Pool(t), pgtest.Schema(t)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { db.Close() })
	store, err := postgres.NewSQL(pool, db, &postgres.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	h := assemble(t, store, o, onDatabaseSQL(db, inSchema(schema)))
	h.address = "postgres " + schema + " " + pgtest.URL(t)
	return h
}

func onSQLite(t *testing.T, o reply.Options) *host {
	path := filepath.Join(t.TempDir(), "replies.db")
	db, err := openSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	store, err := sqlite.New(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := assemble(t, store, o, onDatabaseSQL(db, strings.NewReplacer("{s}", "consign_", "{second}", "1000000")))
	h.address = "sqlite " + path
	return h
}

func openSQLite(path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

func inSchema(schema string) *strings.Replacer {
	return strings.NewReplacer("{s}", schema+".", "{second}", "interval '1 second'")
}

func onDatabaseSQL(db *sql.DB, names *strings.Replacer) tx[*sql.Tx] {
	return tx[*sql.Tx]{
		begin: func(ctx context.Context) (*sql.Tx, error) { return db.BeginTx(ctx, nil) },
		exec:  func(ctx context.Context, tx *sql.Tx, q string) error { _, err := tx.ExecContext(ctx, q); return err },
		scan: func(ctx context.Context, tx *sql.Tx, q string, into any) error {
			return tx.QueryRowContext(ctx, q).Scan(into)
		},
		commit:   func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
		rollback: func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() },
		names:    names,
	}
}

// doomed opens the database at an address in a process of its own, claims the first
// reply that is pending, and waits to be killed.
func doomed(spec string) error {
	kind, rest, _ := strings.Cut(spec, " ")
	ctx := context.Background()
	if kind == "sqlite" {
		db, err := openSQLite(rest)
		if err != nil {
			return err
		}
		store, err := sqlite.New(db, nil)
		if err != nil {
			return err
		}
		return claimAndWait(ctx, store)
	}
	schema, url, _ := strings.Cut(rest, " ")
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	store, err := postgres.New(pool, &postgres.Options{Schema: schema})
	if err != nil {
		return err
	}
	return claimAndWait(ctx, store)
}

func claimAndWait[TX any](ctx context.Context, store consign.Store[TX]) error {
	out, err := reply.New(store, nil)
	if err != nil {
		return err
	}
	for r, err := range out.Pending(ctx) {
		if err != nil {
			return err
		}
		_, won, err := out.Claim(ctx, r.ID)
		if err != nil {
			return err
		}
		if won {
			os.Stdout.WriteString(r.ID.String() + "\n")
			select {}
		}
	}
	return errors.New("nothing was pending")
}

// Steps that many tests take.

func (h *host) create(m reply.Message) reply.Record {
	h.t.Helper()
	r, err := h.Create(h.t.Context(), m)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

func (h *host) find(id consign.Ref) reply.Record {
	h.t.Helper()
	r, found, err := h.Find(h.t.Context(), id)
	if err != nil || !found {
		h.t.Fatalf("find: %v, %v", found, err)
	}
	return r
}

func (h *host) claim(id consign.Ref) *reply.Claim {
	h.t.Helper()
	c, won, err := h.Claim(h.t.Context(), id)
	if err != nil || !won {
		h.t.Fatalf("claim: %v, %v", won, err)
	}
	return c
}

// lost checks that a claim of id gets nothing and changes nothing.
func (h *host) lost(why string, id consign.Ref) {
	h.t.Helper()
	before := h.rows()
	c, won, err := h.Claim(h.t.Context(), id)
	if c != nil || won || err != nil {
		h.t.Errorf("%s: claimed %v, %v, %v", why, c, won, err)
	}
	if after := h.rows(); after != before {
		h.t.Errorf("%s: a claim that got nothing changed\n%s\nto\n%s", why, before, after)
	}
}

// exec changes the database past the program.
func (h *host) exec(query string) {
	h.t.Helper()
	tx := h.begin()
	if err := tx.exec(query); err != nil {
		tx.rollback()
		h.t.Fatalf("%s: %v", query, err)
	}
	if err := tx.commit(); err != nil {
		h.t.Fatal(err)
	}
}

// text reads one value past the program.
func (h *host) text(query string) (s string) {
	h.t.Helper()
	tx := h.begin()
	defer tx.rollback()
	if err := tx.scan(query, &s); err != nil {
		h.t.Fatalf("%s: %v", query, err)
	}
	return s
}

// rows is all that changes of all deliveries.
func (h *host) rows() string {
	h.t.Helper()
	const row = `ref || ' ' || status || ' ' || generation || ' ' || revision || ' ' || attempts || ' ' || updated_at || ' ' ||
		coalesce(last_error, '-') || ' ' || coalesce(code, '-')`
	aggregate := "group_concat(" + strings.ReplaceAll(row, "ref ||", "hex(ref) ||") + ", ';')"
	if strings.HasPrefix(h.address, "postgres") {
		aggregate = "string_agg(" + row + ", ';' ORDER BY ref)"
	}
	return h.text("SELECT coalesce(" + aggregate + ", '') FROM (SELECT * FROM {s}delivery ORDER BY ref) d")
}

// pending lists what is pending.
func (h *host) pending() (out []reply.Record) {
	h.t.Helper()
	for r, err := range h.Pending(h.t.Context()) {
		if err != nil {
			h.t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// leaseOver lets the leases of all claims be over.
func (h *host) leaseOver() {
	h.t.Helper()
	h.exec("UPDATE {s}delivery SET lease_until = lease_until - 3600 * {second}, review_at = review_at - 3600 * {second} WHERE lease_until IS NOT NULL")
}

// answer is a reply to send.
func answer(change ...func(*reply.Message)) reply.Message {
	m := reply.Message{Channel: "relay", To: "https://example.org/callback", Payload: map[string]any{"text": "hello"}}
	for _, c := range change {
		c(&m)
	}
	return m
}

func in(task string, index int) func(*reply.Message) {
	return func(m *reply.Message) { m.Task, m.Index = task, index }
}

func of(session string) func(*reply.Message) {
	return func(m *reply.Message) { m.Session = session }
}
