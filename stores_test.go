package consign_test

import (
	"context"
	"database/sql"
	"fmt"
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
	"github.com/consign-go/consign/approval"
	"github.com/consign-go/consign/internal/pgtest"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/postgres"
	"github.com/consign-go/consign/sqlite"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(crashEnv); spec != "" {
		fmt.Fprintln(os.Stderr, doomed(spec))
		os.Exit(1)
	}
	os.Exit(pgtest.Main(m))
}

// host is a program with one database, whatever its kind: its own ticket table
// beside Consign's, and an outbox.
type host struct {
	outbox outbox
	begin  func(t testing.TB) *txn
	exec   func(t testing.TB, query string)
	count  func(t testing.TB, query string) int
	text   func(t testing.TB, query string) string
	store  migrate.Store
	with   func(t testing.TB, o consign.Options) outbox // another program on the same database
	inUse  func() int                                   // connections in use
	look   func(ctx context.Context, v consign.View, fn func(tx *txn) error) error

	approvals approvals
	postgres  bool

	// untilBlocked returns once a call on this database waits for a lock.
	untilBlocked func(t testing.TB)
}

// outbox is consign.Outbox with its transaction type hidden in txn.
type outbox interface {
	EnqueueNow(ctx context.Context, m consign.Message) (consign.Ref, error)
	EnqueueAllNow(ctx context.Context, ms []consign.Message) ([]consign.Ref, error)
	Find(ctx context.Context, ref consign.Ref) (consign.Intent, error)
	Serve(ctx context.Context) error
	Visit(ctx context.Context, ref consign.Ref) (consign.Result, error)
	Drain(ctx context.Context, limit int) ([]consign.Result, error)
	Scan(ctx context.Context, q consign.Queue, limit int) (int, error)
	Wake(ctx context.Context) error
	Now(ctx context.Context) (time.Time, error)
	Receipt(ctx context.Context, run consign.ID, reader, tenant consign.Entity) (consign.Receipt, error)
	Run(ctx context.Context, a consign.Admission, fn func(ctx context.Context, tx *txn, run *consign.Run) error) (consign.Receipt, error)
}

// approvals is approval.Approvals with its transaction type hidden in txn.
type approvals interface {
	ProposeNow(ctx context.Context, p approval.Proposal) (consign.ID, error)
	Confirm(ctx context.Context, d approval.Decision) (approval.Approval, error)
	Dismiss(ctx context.Context, d approval.Decision) (approval.Approval, error)
	Find(ctx context.Context, id consign.ID) (approval.Approval, error)
	Open(ctx context.Context, q approval.Query) ([]approval.Approval, approval.Cursor, error)
}

// patience keeps a test from waiting for ever for what must come about. How long that
// takes is no test's concern.
const patience = 2 * time.Minute

// until returns once a query counts n.
func (h *host) until(t testing.TB, n int, query string) {
	t.Helper()
	for end := time.Now().Add(patience); h.count(t, query) != n; {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", query)
		}
		time.Sleep(time.Millisecond) // asked again, not hoped for
	}
}

// txn is a transaction of the host with the outbox's calls in it.
type txn struct {
	Exec       func(query string) error
	Scan       func(query string, dst any) error
	Enqueue    func(m consign.Message) (consign.Ref, error)
	EnqueueAll func(ms []consign.Message) ([]consign.Ref, error)
	Join       func(a consign.Admission, fn func(ctx context.Context, run *consign.Run) error) (consign.Receipt, error)
	JoinUnder  func(ctx context.Context, a consign.Admission, fn func(ctx context.Context, run *consign.Run) error) (consign.Receipt, error)
	Propose    func(p approval.Proposal) (consign.ID, error)
	Commit     func() error
	Rollback   func() error
}

// onEveryStore runs a test on PostgreSQL through pgx and through database/sql,
// and on an SQLite file whose pool has a single connection.
func onEveryStore(t *testing.T, o consign.Options, test func(t *testing.T, h *host)) {
	t.Run("postgres", func(t *testing.T) { test(t, onPostgres(t, o)) })
	t.Run("postgres-sql", func(t *testing.T) { test(t, onPostgresSQL(t, o)) })
	t.Run("sqlite", func(t *testing.T) { test(t, onSQLite(t, o)) })
}

const hostTables = `CREATE TABLE {t}ticket (id integer PRIMARY KEY, status text NOT NULL, lock_version integer NOT NULL);
INSERT INTO {t}ticket VALUES (41, 'new', 1), (42, 'new', 1);
CREATE TABLE {t}staff (id integer PRIMARY KEY, security_version integer NOT NULL);
INSERT INTO {t}staff VALUES (7, 3)`

// made is what the three kinds of store have in common.
type made[TX any] struct {
	begin          func(ctx context.Context) (TX, error)
	exec           func(ctx context.Context, tx TX, query string) error
	scan           func(ctx context.Context, tx TX, query string, dst any) error
	commit, cancel func(ctx context.Context, tx TX) error
	expand         func(query string) string
	inUse          func() int
	blocked        string // counts the calls that wait for a lock; empty: nobody can ask
}

func assemble[TX any, S interface {
	consign.Store[TX]
	migrate.Store
}](t *testing.T, store S, o consign.Options, m made[TX]) *host {
	t.Helper()
	ctx := t.Context()
	if _, err := migrate.Up(ctx, store); err != nil {
		t.Fatal(err)
	}
	open := func(t testing.TB, o consign.Options) *consign.Outbox[TX] {
		t.Helper()
		if a, ok := o.Authority.(*deskOn[any]); ok {
			o.Authority = &deskOn[TX]{desk: a.desk, scan: func(ctx context.Context, tx TX, query string, dst any) error {
				return m.scan(ctx, tx, m.expand(query), dst)
			}, exec: func(ctx context.Context, tx TX, query string) error { return m.exec(ctx, tx, m.expand(query)) }, end: m.cancel}
		}
		ob, err := consign.New(store, &o)
		if err != nil {
			t.Fatal(err)
		}
		return ob
	}
	ob := open(t, o)
	ap, err := approval.New(store)
	if err != nil {
		t.Fatal(err)
	}
	h := &host{store: store, outbox: hidden[TX]{ob, m}, inUse: m.inUse, approvals: ap}
	h.with = func(t testing.TB, o consign.Options) outbox { t.Helper(); return hidden[TX]{open(t, o), m} }
	h.look = func(ctx context.Context, v consign.View, fn func(*txn) error) error {
		return consign.Read(ctx, v, func(tx TX) error { return fn(wrap(ctx, ob, m, tx)) })
	}
	h.begin = func(t testing.TB) *txn {
		t.Helper()
		tx, err := m.begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		w := wrap(ctx, ob, m, tx)
		w.Propose = func(p approval.Proposal) (consign.ID, error) { return ap.Propose(ctx, tx, p) }
		return w
	}
	h.exec = func(t testing.TB, query string) {
		t.Helper()
		tx := h.begin(t)
		for _, one := range strings.Split(query, ";\n") {
			if err := tx.Exec(one); err != nil {
				tx.Rollback() // or a pool of one has none left
				t.Fatal(err)
			}
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	read := func(t testing.TB, query string, dst any) {
		t.Helper()
		tx, err := m.begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer m.cancel(ctx, tx)
		if err := m.scan(ctx, tx, m.expand(query), dst); err != nil {
			t.Fatal(err)
		}
	}
	h.count = func(t testing.TB, query string) (n int) { t.Helper(); read(t, query, &n); return n }
	h.text = func(t testing.TB, query string) (s string) { t.Helper(); read(t, query, &s); return s }
	h.postgres = m.blocked != ""
	h.untilBlocked = func(t testing.TB) { t.Helper(); h.until(t, 1, m.blocked) }
	h.exec(t, hostTables)
	return h
}

// hidden is an outbox with its transaction type hidden.
type hidden[TX any] struct {
	*consign.Outbox[TX]
	m made[TX]
}

func (o hidden[TX]) Run(ctx context.Context, a consign.Admission, fn func(context.Context, *txn, *consign.Run) error) (consign.Receipt, error) {
	return o.Outbox.Run(ctx, a, func(ctx context.Context, tx TX, run *consign.Run) error {
		return fn(ctx, wrap(ctx, o.Outbox, o.m, tx), run)
	})
}

func wrap[TX any](ctx context.Context, ob *consign.Outbox[TX], m made[TX], tx TX) *txn {
	return &txn{
		Exec:       func(query string) error { return m.exec(ctx, tx, m.expand(query)) },
		Scan:       func(query string, dst any) error { return m.scan(ctx, tx, m.expand(query), dst) },
		Enqueue:    func(msg consign.Message) (consign.Ref, error) { return ob.Enqueue(ctx, tx, msg) },
		EnqueueAll: func(ms []consign.Message) ([]consign.Ref, error) { return ob.EnqueueAll(ctx, tx, ms) },
		Join: func(a consign.Admission, fn func(context.Context, *consign.Run) error) (consign.Receipt, error) {
			return ob.Join(ctx, tx, a, fn)
		},
		JoinUnder: func(ctx context.Context, a consign.Admission, fn func(context.Context, *consign.Run) error) (consign.Receipt, error) {
			return ob.Join(ctx, tx, a, fn)
		},
		Commit:   func() error { return m.commit(ctx, tx) },
		Rollback: func() error { return m.cancel(ctx, tx) },
	}
}

func onPostgres(t *testing.T, o consign.Options) *host {
	return onPostgresSchema(t, pgtest.Pool(t), pgtest.Schema(t), o)
}

func onPostgresSchema(t *testing.T, pool *pgxpool.Pool, schema string, o consign.Options) *host {
	store, err := postgres.New(pool, &postgres.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	return assemble(t, store, o, onPool(pool, schema))
}

func onPool(pool *pgxpool.Pool, schema string) made[pgx.Tx] {
	return made[pgx.Tx]{
		begin:   pool.Begin,
		exec:    func(ctx context.Context, tx pgx.Tx, q string) error { _, err := tx.Exec(ctx, q); return err },
		scan:    func(ctx context.Context, tx pgx.Tx, q string, dst any) error { return tx.QueryRow(ctx, q).Scan(dst) },
		commit:  func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
		cancel:  func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
		expand:  inSchema(schema),
		blocked: blockedIn(schema),
		inUse:   func() int { return int(pool.Stat().AcquiredConns()) },
	}
}

func onPostgresSQL(t *testing.T, o consign.Options) *host {
	pool := pgtest.Pool(t)
	schema := pgtest.Schema(t)
	db := openStdlib(t, pool)
	store, err := postgres.NewSQL(pool, db, &postgres.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	m := onDatabaseSQL(db, inSchema(schema))
	m.blocked = blockedIn(schema)
	return assemble(t, store, o, m)
}

// blockedIn counts the sessions in a schema that wait for a lock.
func blockedIn(schema string) string {
	return `SELECT count(*) FROM pg_stat_activity WHERE cardinality(pg_blocking_pids(pid)) > 0 AND query LIKE '%"` + schema + `"%'`
}

func openStdlib(t *testing.T, pool *pgxpool.Pool) *sql.DB {
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { db.Close() })
	return db
}

func onSQLite(t *testing.T, o consign.Options) *host {
	return onSQLiteFile(t, filepath.Join(t.TempDir(), "host.db"), o)
}

func onSQLiteFile(t *testing.T, path string, o consign.Options) *host {
	db := openSQLite(t, path)
	store, err := sqlite.New(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	return assemble(t, store, o, onDatabaseSQL(db, plainNames))
}

func plainNames(q string) string { return strings.NewReplacer("{t}", "", "{s}", "consign_").Replace(q) }

func openSQLite(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

func inSchema(schema string) func(string) string {
	return func(q string) string {
		return strings.NewReplacer("{t}", schema+".", "{s}", schema+".").Replace(q)
	}
}

func onDatabaseSQL(db *sql.DB, expand func(string) string) made[*sql.Tx] {
	return made[*sql.Tx]{
		begin: func(ctx context.Context) (*sql.Tx, error) { return db.BeginTx(ctx, nil) },
		exec: func(ctx context.Context, tx *sql.Tx, q string) error {
			_, err := tx.ExecContext(ctx, q)
			return err
		},
		scan: func(ctx context.Context, tx *sql.Tx, q string, dst any) error {
			return tx.QueryRowContext(ctx, q).Scan(dst)
		},
		commit: func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
		cancel: func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() },
		expand: expand,
		inUse:  func() int { return db.Stats().InUse },
	}
}
