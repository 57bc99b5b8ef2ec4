package plainsqltest

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/pgtest"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/postgres"
	"github.com/consign-go/consign/sqlite"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// base is a database with Consign's tables, and a caller that knows only SQL.
type base struct {
	db      *sql.DB
	store   consign.Store[*sql.Tx]
	names   *strings.Replacer // {s}
	call    string            // enqueues; the parameters are those of row.args
	answers bool              // the call answers with the ref
	exact   bool              // numbers of any length have a canonical form
	schema  string
	another func(t *testing.T) *base // a second one of its kind
}

type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// row is what a caller gives; nil is NULL.
type row struct {
	contract, channel, payload, recipient, id, task, index, subject, notBefore any
}

func (r row) args() []any {
	return []any{r.contract, r.channel, r.payload, r.recipient, r.id, r.task, r.index, r.subject, r.notBefore}
}

// note is a row that is taken.
func note(change ...func(r *row)) row {
	r := row{contract: 1, channel: "crm", payload: `{"ticket": 41}`}
	for _, c := range change {
		c(&r)
	}
	return r
}

// enqueue calls as a program without Go would.
func (b *base) enqueue(t testing.TB, on querier, r row) error {
	t.Helper()
	if !b.answers {
		_, err := on.ExecContext(t.Context(), b.names.Replace(b.call), r.args()...)
		return err
	}
	var ref string
	err := on.QueryRowContext(t.Context(), b.names.Replace(b.call), r.args()...).Scan(&ref)
	if id, given := r.id.(string); err == nil && given && !strings.EqualFold(ref, id) {
		t.Errorf("the answer is %s, want %s", ref, id)
	}
	return err
}

func (b *base) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	if _, err := b.db.ExecContext(t.Context(), b.names.Replace(query), args...); err != nil {
		t.Fatal(err)
	}
}

func one[T any](t testing.TB, b *base, query string, args ...any) (v T) {
	t.Helper()
	if err := b.db.QueryRowContext(t.Context(), b.names.Replace(query), args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

func (b *base) outbox(t testing.TB, o *consign.Options) *consign.Outbox[*sql.Tx] {
	t.Helper()
	ob, err := consign.New(b.store, o)
	if err != nil {
		t.Fatal(err)
	}
	return ob
}

// refusal says how the database refused: "invalid" or "conflict"; "" is not at all.
func refusal(t testing.TB, err error) string {
	t.Helper()
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &pg) && pg.Code == "22023", strings.Contains(err.Error(), "constraint failed: consign: enqueue: ") &&
		!strings.Contains(err.Error(), "exists with other content"):
		return "invalid"
	case errors.As(err, &pg) && pg.Code == "23505", strings.Contains(err.Error(), "exists with other content"):
		return "conflict"
	}
	t.Fatalf("refused for another reason: %v", err)
	return ""
}

func onPostgres(t *testing.T) *base {
	t.Helper()
	pool := pgtest.Pool(t)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { db.Close() })
	schema := pgtest.Schema(t)
	store, err := postgres.NewSQL(pool, db, &postgres.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	return &base{
		db: db, store: store, names: strings.NewReplacer("{s}", schema+"."), answers: true, exact: true, schema: schema, another: onPostgres,
		call: `SELECT {s}enqueue_message(contract => $1, channel => $2, payload => $3, recipient => $4, id => $5, task => $6,
			task_index => $7, subject => $8, not_before => $9)`,
	}
}

func onSQLite(t *testing.T) *base {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "app.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	store, err := sqlite.New(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	return &base{
		db: db, store: store, names: strings.NewReplacer("{s}", "consign_"), another: onSQLite,
		call: `INSERT INTO {s}enqueue_message (contract, channel, payload, recipient, id, task, task_index, subject, not_before)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
	}
}

// onBoth runs a test on each database.
func onBoth(t *testing.T, test func(t *testing.T, b *base)) {
	t.Run("postgres", func(t *testing.T) { test(t, onPostgres(t)) })
	t.Run("sqlite", func(t *testing.T) { test(t, onSQLite(t)) })
}

// begin opens a transaction that ends with the test.
func (b *base) begin(t testing.TB) *sql.Tx {
	t.Helper()
	tx, err := b.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback() })
	return tx
}

// try calls in a transaction of its own, and commits.
func (b *base) try(t testing.TB, r row) error {
	t.Helper()
	tx := b.begin(t)
	if err := b.enqueue(t, tx, r); err != nil {
		tx.Rollback()
		return err
	}
	return tx.Commit()
}

func (b *base) driver() driver.Bound[*sql.Tx] { return b.store.Driver(driver.Key{}) }
