package suite

import (
	"crypto/sha256"
	"database/sql"
	sqldriver "database/sql/driver"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Locks shows that the store understands what a library says when the database is
// locked, in the program's own transactions too.
func Locks(t *testing.T, l Library) {
	t.Run("a transaction that read first is told what to do", func(t *testing.T) { readFirst(t, l) })
	t.Run("a transaction of the store may read first", func(t *testing.T) { readInside(t, l) })
	t.Run("an enqueue waits for its turn", func(t *testing.T) { enqueueWaits(t, l) })
	t.Run("the store's writers wait without a busy timeout", func(t *testing.T) { writersWait(t, l) })
}

func messages(n int) []driver.New {
	rows := make([]driver.New, n)
	for i := range rows {
		r := &rows[i]
		r.Ref = driver.NewID()
		r.Key, r.Profile, r.Kind, r.Address, r.Payload = r.Ref, lifecycle.Message, "mail", "desk@example.org", []byte("{}")
		r.Digest = sha256.Sum256(r.Payload)
		r.Contract = lifecycle.Contract{Retry: lifecycle.Schedule, Idempotent: true, MaxAttempts: 3, Lease: time.Minute, Timeout: time.Second}
	}
	return rows
}

// enqueue inserts n messages in a transaction of the store's own.
func enqueue(t *testing.T, b driver.Bound[*sql.Tx], n int) {
	t.Helper()
	_, tx, err := b.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Insert(t.Context(), messages(n)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// readFirst: a transaction of the program that has read before another connection
// wrote can never write. Waiting does not mend that.
func readFirst(t *testing.T, l Library) {
	db := l.Open(t, filepath.Join(t.TempDir(), "snapshot.db"), 2)
	b := Migrated(t, db, "").Driver(driver.Key{})
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	var n int
	if err := tx.QueryRow("SELECT count(*) FROM consign_intent").Scan(&n); err != nil {
		t.Fatal(err)
	}
	enqueue(t, b, 1)
	begun := time.Now()
	err = b.Join(tx).Insert(t.Context(), messages(1))
	if err == nil || !strings.Contains(err.Error(), "_txlock=immediate") {
		t.Errorf("%v, want the advice", err)
	}
	if spent := time.Since(begun); spent > 3*time.Second {
		t.Errorf("it took %s to find out", spent)
	}
}

// readInside: a transaction of the store has the write lock before it reads.
func readInside(t *testing.T, l Library) {
	path := filepath.Join(t.TempDir(), "inside.db")
	b := Migrated(t, l.Open(t, path, 1), "").Driver(driver.Key{})
	raw, own, err := b.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := raw.QueryRow("SELECT count(*) FROM consign_intent").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d intents: %v", n, err)
	}
	impatient := l.OpenDSN(t, l.DSN(path, 0), 1, func(string, []sqldriver.NamedValue) error { return nil })
	if _, err := impatient.Exec("DELETE FROM consign_intent"); err == nil || !strings.Contains(err.Error(), "locked") {
		t.Errorf("another connection could write: %v", err)
	}
	if err := own.Insert(t.Context(), messages(1)); err != nil {
		t.Error(err)
	}
	if err := own.Commit(t.Context()); err != nil {
		t.Error(err)
	}
}

// locked returns a database without a busy timeout, which another connection has
// locked, and what is signalled whenever a statement that begins with text is tried.
func locked(t *testing.T, l Library, text string) (db *sql.DB, b driver.Bound[*sql.Tx], tried chan struct{}, release func()) {
	path := filepath.Join(t.TempDir(), "turn.db")
	tried = make(chan struct{}, 10_000)
	db = l.OpenDSN(t, l.DSN(path, 0), 1, func(query string, _ []sqldriver.NamedValue) error {
		if strings.HasPrefix(query, text) {
			tried <- struct{}{}
		}
		return nil
	})
	b = Migrated(t, db, "").Driver(driver.Key{})
	enqueue(t, b, 1)
	for len(tried) > 0 {
		<-tried
	}
	other := l.Open(t, path, 1)
	if _, err := other.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	return db, b, tried, func() {
		if _, err := other.Exec("COMMIT"); err != nil {
			t.Error(err)
		}
	}
}

// await waits for three tries, all in vain.
func await(tried chan struct{}) {
	for range 3 {
		<-tried
	}
}

// enqueueWaits: the first write of a program's transaction waits for another writer,
// though the program has set no busy timeout.
func enqueueWaits(t *testing.T, l Library) {
	db, b, tried, release := locked(t, l, "SAVEPOINT")
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- b.Join(tx).Insert(t.Context(), messages(3)) }()
	await(tried)
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// writersWait: each kind of call of the store that writes waits, and then writes.
func writersWait(t *testing.T, l Library) {
	for name, call := range map[string]func(b driver.Bound[*sql.Tx]) error{
		"begin": func(b driver.Bound[*sql.Tx]) error {
			_, tx, err := b.Begin(t.Context())
			if err == nil {
				err = tx.Commit(t.Context())
			}
			return err
		},
		"claim": func(b driver.Bound[*sql.Tx]) error {
			got, err := b.Claim(t.Context(), driver.ClaimRequest{
				Owner: lifecycle.Token{1}, Policy: lifecycle.DefaultPolicy, Routes: []driver.RouteLimit{{Route: "m:mail", Limit: 5}},
			})
			if err == nil && len(got) != 1 {
				t.Errorf("claimed %d", len(got))
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, b, tried, release := locked(t, l, "UPDATE consign_setting")
			done := make(chan error, 1)
			go func() { done <- call(b) }()
			await(tried)
			release()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}
