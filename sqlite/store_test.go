package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/driver/drivertest"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/sqlite"
	"github.com/consign-go/consign/sqlite/internal/suite"
)

var modernc = suite.Library{
	Driver: "sqlite",
	DSN: func(path string, busy int) string {
		return fmt.Sprintf("file:%s?_pragma=busy_timeout(%d)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)", suite.Escaped(path), busy)
	},
}

func open(t testing.TB, db *sql.DB) *sqlite.Store {
	t.Helper()
	s, err := sqlite.New(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func setBudget(s *sqlite.Store, d time.Duration) { sqlite.SetBudget(s, d) }

// TestConformance is for a pool of several connections, where the race detector has
// something to watch; more of it is in conformance_test.go.
func TestConformance(t *testing.T) { conform(t, modernc, 8) }

func conform(t *testing.T, l suite.Library, conns int) {
	drivertest.Run(t, func(t *testing.T) drivertest.Harness[*sql.Tx] {
		db, s := l.Fresh(t, conns)
		return suite.Harness(t, db, s, conns > 1)
	})
}

func TestNewRefusesBadOptions(t *testing.T) {
	db := modernc.Open(t, filepath.Join(t.TempDir(), "new.db"), 1)
	for _, prefix := range []string{"Consign_", "1a", "a-b", "a b", `a"; DROP TABLE x`, "sqlite_x", strings.Repeat("a", 32), "ä"} {
		if _, err := sqlite.New(db, &sqlite.Options{Prefix: prefix}); err == nil || !strings.Contains(err.Error(), "prefix") {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
	for _, prefix := range []string{"", "a", "_", "box2_", strings.Repeat("a", 31)} {
		if _, err := sqlite.New(db, &sqlite.Options{Prefix: prefix}); err != nil {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
	if _, err := sqlite.New(nil, nil); err == nil {
		t.Error("no database is accepted")
	}
	if n := db.Stats().OpenConnections; n != 0 {
		t.Errorf("New has opened %d connections", n)
	}
}

func TestErrorsThatCallersBranchOn(t *testing.T) {
	db, s := unmigrated(t)
	b := s.Driver(driver.Key{})
	_, err := b.Load(t.Context(), []driver.ID{driver.NewID()})
	if !errors.Is(err, driver.ErrNoSchema) {
		t.Errorf("load without tables: %v", err)
	}
	_, tx, err := b.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = tx.Schema(t.Context())
	for name, err := range map[string]error{"schema": err, "insert": tx.Insert(t.Context(), messages(1))} {
		if !errors.Is(err, driver.ErrNoSchema) {
			t.Errorf("%s without tables: %v", name, err)
		}
	}
	tx.Rollback(t.Context())
	up(t, s, 1)
	const secret = "a-secret"
	row := message(func(n *driver.New) { n.Given, n.Payload, n.Address = true, []byte(`{"x":"`+secret+`"}`), secret })
	store(t, b, row)
	row.Payload = []byte(`{"y":"` + secret + `"}`)
	_, tx, err = b.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bad := message(func(n *driver.New) { n.Kind, n.Address = "", secret })
	var conflict *driver.ConflictError
	for name, err := range map[string]error{
		"conflict": tx.Insert(t.Context(), []driver.New{row}), "check": tx.Insert(t.Context(), []driver.New{bad}),
	} {
		if err == nil || strings.Contains(err.Error(), secret) || errors.As(err, &conflict) != (name == "conflict") {
			t.Errorf("%s: %v", name, err)
		}
	}
	tx.Rollback(t.Context())
	db.Close()
	_, err = b.Load(t.Context(), nil)
	if !errors.Is(err, driver.ErrClosed) {
		t.Errorf("load on a closed database: %v", err)
	}
	if _, _, err = b.Begin(t.Context()); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("begin on a closed database: %v", err)
	}
}

// TestCallerOfAnotherPool: the caller's transaction may come from another pool on
// the same file than the store's.
func TestCallerOfAnotherPool(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pools.db")
	db, other := modernc.Open(t, path, 2), modernc.Open(t, path, 2)
	b := suite.Migrated(t, db, "").Driver(driver.Key{})
	for i := range 6 { // the statements get into the store's cache meanwhile
		store(t, b, message())
		tx, err := other.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Join(tx).Insert(t.Context(), messages(2)); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if got := claim(t, b, asking(100)); len(got) != 18 {
		t.Errorf("claimed %d, want 18", len(got))
	}
}

// TestIdleProgramHoldsNothing: between calls no connection is taken, and where claims
// find nothing they take no write lock.
func TestIdleProgramHoldsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "idle.db")
	db := modernc.Open(t, path, 4)
	b := suite.Migrated(t, db, "").Driver(driver.Key{})
	useEverything(t, b)
	if in := db.Stats().InUse; in != 0 {
		t.Errorf("%d connections are held", in)
	}
	claim(t, b, asking(100))
	claim(t, b, asking(100)) // finds nothing
	other := modernc.Open(t, path, 1)
	if _, err := other.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if got, err := b.Claim(ctx, asking(100)); err != nil || len(got) != 0 {
		t.Errorf("a claim of nothing, beside a writer: %d, %v", len(got), err)
	}
	if _, err := other.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
}

func TestAdvice(t *testing.T) {
	advice := func(dsn string) string {
		t.Helper()
		db, err := sql.Open("sqlite", dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		list, err := open(t, db).Advise(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(list, "\n")
	}
	path := filepath.Join(t.TempDir(), "advice.db")
	bad := advice("file:" + suite.Escaped(path) + "?_pragma=encoding('UTF-16')&_pragma=synchronous(1)")
	for _, word := range []string{"encoding is UTF-16", "journal_mode is delete", "synchronous is 1", "busy_timeout is 0"} {
		if !strings.Contains(bad, word) {
			t.Errorf("no advice about %q in\n%s", word, bad)
		}
	}
	if good := advice(modernc.DSN(path, 5000)); good != "" {
		t.Errorf("advice for a database as recommended:\n%s", good)
	}
}

// TestTablesThatComeAndGo: statements kept from before the tables went are of no
// use after, and of use again when there are tables again.
func TestTablesThatComeAndGo(t *testing.T) {
	_, s := modernc.Fresh(t, 1)
	b := s.Driver(driver.Key{})
	for range 3 {
		useEverything(t, b)
	}
	if _, err := migrate.Down(t.Context(), s, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Apply(t.Context(), []lifecycle.Transition{{Answer: lifecycle.Apply}}); !errors.Is(err, driver.ErrNoSchema) {
		t.Errorf("apply without tables: %v", err)
	}
	up(t, s, 1)
	useEverything(t, b)
}
