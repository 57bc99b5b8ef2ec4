package receive_test

import (
	"context"
	"database/sql"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/consign-go/consign/internal/pgtest"
	"github.com/consign-go/consign/webhook/receive"
)

// A statement of the work can take the whole transaction with it, and the work may
// pass over its error. Then nothing was executed: neither the key nor a proof may say
// otherwise.
func TestTransactionThatTheDatabaseHasRolledBackIsNotExecuted(t *testing.T) {
	db := openSQLite(t, "receiver.db")
	store := receive.SQLite(db, "")
	if err := store.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`CREATE TABLE effect (n INTEGER PRIMARY KEY); INSERT INTO effect VALUES (1)`); err != nil {
		t.Fatal(err)
	}
	r, err := receive.New(store, receive.Options{Keys: []receive.Key{key("k")}, Proofs: []receive.Key{key("p")}})
	if err != nil {
		t.Fatal(err)
	}
	undone := true
	h := r.Handler(func(ctx context.Context, tx *sql.Tx, d receive.Delivery) (receive.Response, error) {
		if _, err := tx.ExecContext(ctx, `INSERT INTO effect VALUES (2)`); err != nil {
			return receive.Response{}, err
		}
		if undone {
			if _, err := tx.ExecContext(ctx, `INSERT OR ROLLBACK INTO effect VALUES (1)`); err == nil {
				t.Error("the statement that takes the transaction with it succeeded")
			}
		}
		return receive.Response{}, nil
	})
	for range 2 {
		a := serve(h, signed(key("k"), "key-1", time.Now(), body))
		if a.StatusCode != 503 || a.Header.Get("Consign-Proof") != "" {
			t.Errorf("undone: %d %v", a.StatusCode, a.Header)
		}
	}
	undone = false
	if a := serve(h, signed(key("k"), "key-1", time.Now(), body)); a.StatusCode != 200 {
		t.Errorf("once mended: %d", a.StatusCode)
	}
	var n int
	if err := db.QueryRow(`SELECT count(*) FROM effect`).Scan(&n); err != nil || n != 2 {
		t.Errorf("%d rows: %v", n, err)
	}
}

// A commit that the database refuses has executed nothing, and the sender is told so:
// unlike after a broken connection, nobody has to wonder.
func TestCommitThatTheDatabaseRefusesIsNoDoubt(t *testing.T) {
	pool, schema := pgtest.Pool(t), pgtest.Schema(t)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { db.Close() })
	table := schema + "." + receive.DefaultTable
	pgx5, overSQL := receive.Pgx(pool, table), receive.Postgres(db, table)
	if err := pgx5.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{"CREATE TABLE {s}.effect (n integer UNIQUE DEFERRABLE INITIALLY DEFERRED)", "INSERT INTO {s}.effect VALUES (1)"} {
		if _, err := pool.Exec(t.Context(), strings.ReplaceAll(q, "{s}", schema)); err != nil {
			t.Fatal(err)
		}
	}
	o := receive.Options{Keys: []receive.Key{key("k")}, Proofs: []receive.Key{key("p")}, OnError: func(string, error) { panic("s3cr3t") }}
	first, err := receive.New(pgx5, o)
	if err != nil {
		t.Fatal(err)
	}
	second, err := receive.New(overSQL, o)
	if err != nil {
		t.Fatal(err)
	}
	insert := "INSERT INTO " + schema + ".effect VALUES (1)"
	for name, h := range map[string]http.Handler{
		"pgx": first.Handler(func(ctx context.Context, tx pgx.Tx, d receive.Delivery) (receive.Response, error) {
			_, err := tx.Exec(ctx, insert)
			return receive.Response{}, err
		}),
		"database/sql": second.Handler(func(ctx context.Context, tx *sql.Tx, d receive.Delivery) (receive.Response, error) {
			_, err := tx.ExecContext(ctx, insert)
			return receive.Response{}, err
		}),
	} {
		for range 2 {
			a := serve(h, signed(key("k"), "key-1", time.Now(), body))
			if a.StatusCode != 503 || a.Header.Get("Retry-After") == "" || a.Header.Get("Consign-Proof") != "" {
				t.Errorf("%s: %d %v", name, a.StatusCode, a.Header)
			}
		}
	}
}
