package plainsqltest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/pgtest"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/postgres"
)

// TestWakeIsHeardByTheEngine, on the channel that the store listens to, also where the
// schema's name is too long for it.
func TestWakeIsHeardByTheEngine(t *testing.T) {
	pool := pgtest.Pool(t)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { db.Close() })
	short := pgtest.Schema(t)
	long := short + "_" + strings.Repeat("x", 62-len(short))
	t.Cleanup(func() { db.ExecContext(context.Background(), "DROP SCHEMA "+long+" CASCADE") })
	for _, schema := range []string{short, long} {
		store, err := postgres.NewSQL(pool, db, &postgres.Options{Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := migrate.Up(t.Context(), store); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		woken, hears, ended := make(chan struct{}, 100), make(chan error, 10), make(chan error, 1)
		waker := any(store.Driver(driver.Key{})).(driver.Waker)
		go func() {
			ended <- waker.Listen(ctx, func(driver.ID) { woken <- struct{}{} }, func(err error) { hears <- err })
		}()
		if err := <-hears; err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), "SELECT "+schema+".wake()"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-woken:
		case <-time.After(2 * time.Minute):
			t.Errorf("nothing was heard in a schema whose name has %d bytes", len(schema))
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestWakeIsRefusedInATransactionThatWrites: it would hold up the commits of the whole
// database. Enqueueing itself never notifies.
func TestWakeIsRefusedInATransactionThatWrites(t *testing.T) {
	b := onPostgres(t)
	tx := b.begin(t)
	if err := b.enqueue(t, tx, note()); err != nil {
		t.Fatal(err)
	}
	_, err := tx.ExecContext(t.Context(), b.names.Replace("SELECT {s}wake()"))
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "55000" {
		t.Errorf("got %v", err)
	}
}

// TestEnqueueSendsNoNotification, whatever is listened to.
func TestEnqueueSendsNoNotification(t *testing.T) {
	b := onPostgres(t)
	conn, err := pgtest.Pool(t).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), `LISTEN "consign:`+b.schema+`"`); err != nil {
		t.Fatal(err)
	}
	if err := b.try(t, note()); err != nil {
		t.Fatal(err)
	}
	b.exec(t, "SELECT pg_notify($1, 'the end')", "consign:"+b.schema)
	n, err := conn.Conn().WaitForNotification(t.Context())
	if err != nil || n.Payload != "the end" {
		t.Errorf("heard %v, %v", n, err)
	}
}
