package sqlite_test

import (
	"crypto/sha256"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/sqlite/internal/suite"
)

// TestTransactionThatSQLiteHasRolledBack: a statement of the program can take the
// whole transaction with it. A program that goes on all the same would have what it
// enqueues committed at once, alone.
func TestTransactionThatSQLiteHasRolledBack(t *testing.T) {
	db := modernc.Open(t, filepath.Join(t.TempDir(), "undone.db"), 1)
	b := suite.Migrated(t, db, "").Driver(driver.Key{})
	if _, err := db.Exec(`CREATE TABLE ticket (id INTEGER PRIMARY KEY); INSERT INTO ticket VALUES (41)`); err != nil {
		t.Fatal(err)
	}
	before := dump(t, db)
	for name, call := range map[string]func(tx driver.Tx) error{
		"insert":    func(tx driver.Tx) error { return tx.Insert(t.Context(), messages(2)) },
		"savepoint": func(tx driver.Tx) error { _, err := tx.Savepoint(t.Context()); return err },
		"open run": func(tx driver.Tx) error {
			return tx.OpenRun(t.Context(), driver.Run{ID: driver.NewID(), Operation: "triage", Actor: "staff:7", Tenant: "tenant:3"})
		},
		"propose": func(tx driver.Tx) error {
			return tx.Propose(t.Context(), driver.Approval{
				ID: driver.NewID(), Operation: "triage", Actor: "staff:7", Tenant: "tenant:3", Target: "ticket:41", Proposer: "staff:7",
				Input: []byte(`{}`), InputDigest: sha256.Sum256([]byte(`{}`)),
			}, time.Hour)
		},
	} {
		for whose, begin := range map[string]func() (*sql.Tx, driver.Tx, error){
			"the caller's": func() (*sql.Tx, driver.Tx, error) { raw, err := db.Begin(); return raw, b.Join(raw), err },
			"the store's":  func() (*sql.Tx, driver.Tx, error) { return b.Begin(t.Context()) },
		} {
			raw, tx, err := begin()
			if err != nil {
				t.Fatal(err)
			}
			if err := tx.Insert(t.Context(), messages(1)); err != nil {
				t.Fatal(err)
			}
			if _, err := raw.Exec(`INSERT OR ROLLBACK INTO ticket VALUES (41)`); err == nil {
				t.Fatal("the statement that takes the transaction with it succeeded")
			}
			if err := call(tx); !errors.Is(err, driver.ErrClosed) {
				t.Errorf("%s in %s transaction: %v", name, whose, err)
			}
			tx.Rollback(t.Context())
			if after := dump(t, db); after != before {
				t.Fatalf("%s in %s transaction left:\n%s\nwant\n%s", name, whose, after, before)
			}
			unchanged(t, db)
		}
	}
}
