package sqlite_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/sqlite/internal/suite"
)

// failing fails the nth statement, once.
type failing struct {
	left int // statements until the one that fails; 0: none
	err  error
}

func (f *failing) hook(string, []sqldriver.NamedValue) error {
	if f.left == 0 {
		return nil
	}
	if f.left--; f.left == 0 {
		return f.err
	}
	return nil
}

// stocked returns a database with deliveries in every state that a write may meet,
// and a transition that can be applied.
func stocked(t *testing.T, db *sql.DB) (driver.Bound[*sql.Tx], lifecycle.Transition) {
	t.Helper()
	b := suite.Migrated(t, db, "").Driver(driver.Key{})
	about := func(n *driver.New) { n.Subject = "customer:1" }
	refs := store(t, b, messages(12, about)...)
	claim(t, b, asking(8))
	claimed := claimedOf(t, b, refs)
	apply(t, b, lifecycle.EvStart, claimed[:6]...)
	apply(t, b, lifecycle.EvSucceeded, claimed[:2]...)
	apply(t, b, lifecycle.EvRefused, claimed[2])
	return b, decided(t, b, claimed[3], lifecycle.EvRejected)
}

// claimedOf returns those of refs that are leased, in their order.
func claimedOf(t *testing.T, b driver.Driver, refs []driver.ID) []driver.ID {
	t.Helper()
	records, err := b.Load(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	var leased []driver.ID
	for _, r := range records {
		if r.State.Status == lifecycle.Leased {
			leased = append(leased, r.Intent.Ref)
		}
	}
	return leased
}

// TestEachStatementFails lets each call that writes fail at its first statement, its
// second, and so on until none is left. Every time nothing is half done, and the one
// connection of the pool is as it was.
func TestEachStatementFails(t *testing.T) {
	f := &failing{err: errors.New("injected")}
	names := []string{"claim", "apply", "append", "erase", "prune", "register", "insert", "run"}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			db := modernc.OpenHooked(t, filepath.Join(t.TempDir(), "fault.db"), 1, f.hook)
			b, transition := stocked(t, db)
			call := writes(b, transition)[name]
			before := dump(t, db)
			for n := 1; ; n++ {
				if n > 200 {
					t.Fatal("the call does not come to an end")
				}
				f.left = n
				err := call(t.Context())
				through := f.left > 0
				f.left = 0
				after := dump(t, db)
				unchanged(t, db)
				if err == nil {
					if after == before {
						t.Errorf("a call of %d statements has changed nothing", n-1)
					}
					// One statement more or less than ROLLBACK and the like, whose failure is survived.
					if through {
						t.Logf("%d statements were failed, one at a time", n-1)
						return
					}
					before = after
					continue
				}
				if after != before {
					t.Fatalf("statement %d failed (%v), and rows changed:\n%s\nwant\n%s", n, err, after, before)
				}
			}
		})
	}
}

// TestCommitWithoutAnAnswer: only where the database may have committed all the same
// is the commit called unconfirmed.
func TestCommitWithoutAnAnswer(t *testing.T) {
	for _, c := range []struct {
		err         error
		unconfirmed bool
	}{
		{errors.New("disk I/O error (10)"), true},
		{errors.New("something else"), true},
		{coded{5, "database is locked"}, false},
		{coded{13, "database or disk is full"}, false},
		{coded{10, "disk I/O error"}, true},
		{coded{8, "attempt to write a readonly database"}, false},
		{coded{787, "FOREIGN KEY constraint failed"}, false},
		{errors.New("database is locked"), false},
		{errors.New("database or disk is full"), false},
	} {
		t.Run(fmt.Sprintf("%T %v", c.err, c.err), func(t *testing.T) {
			commits := false
			db := modernc.OpenHooked(t, filepath.Join(t.TempDir(), "commit.db"), 1, func(query string, _ []sqldriver.NamedValue) error {
				if commits && query == "COMMIT" {
					return c.err
				}
				return nil
			})
			b := suite.Migrated(t, db, "").Driver(driver.Key{})
			_, tx, err := b.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			commits = true
			if err := tx.Commit(t.Context()); !errors.Is(err, c.err) || errors.Is(err, driver.ErrUnconfirmed) != c.unconfirmed {
				t.Errorf("%v is unconfirmed: %v, want %v", err, errors.Is(err, driver.ErrUnconfirmed), c.unconfirmed)
			}
			commits = false
			unchanged(t, db)
			store(t, b, message())
		})
	}
}

// coded is an error as modernc makes them.
type coded struct {
	code int
	text string
}

func (c coded) Error() string { return c.text }
func (c coded) Code() int     { return c.code }

// TestDiskFull: what does not fit is refused and nothing of it stays; with room
// again, it goes on.
func TestDiskFull(t *testing.T) {
	db := modernc.Open(t, filepath.Join(t.TempDir(), "full.db"), 1)
	b := suite.Migrated(t, db, "").Driver(driver.Key{})
	refs := store(t, b, messages(400, func(n *driver.New) { n.Subject = "customer:1" })...)
	setPages := func(pages string) {
		t.Helper()
		if _, err := db.Exec("PRAGMA max_page_count = " + pages); err != nil {
			t.Fatal(err)
		}
	}
	var now string
	if err := db.QueryRow("PRAGMA page_count").Scan(&now); err != nil {
		t.Fatal(err)
	}
	before := dump(t, db)
	setPages(now)
	full := func(name string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "full") {
			t.Errorf("%s: %v, want it to say that the disk is full", name, err)
		}
		if after := dump(t, db); after != before {
			t.Errorf("%s: half of it is there", name)
		}
		unchanged(t, db)
	}
	_, err := b.Claim(t.Context(), asking(400))
	full("claim", err)
	_, tx, err := b.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = tx.Insert(t.Context(), messages(400))
	if err == nil {
		err = tx.Commit(t.Context())
	}
	tx.Rollback(t.Context())
	full("insert", err)
	setPages("1000000")
	if got := claim(t, b, asking(400)); len(got) != len(refs) {
		t.Errorf("claimed %d with room again, want %d", len(got), len(refs))
	}
	starts := make([]lifecycle.Transition, len(refs))
	for i, ref := range refs {
		starts[i] = decided(t, b, ref, lifecycle.EvStart)
	}
	if err := db.QueryRow("PRAGMA page_count").Scan(&now); err != nil {
		t.Fatal(err)
	}
	before = dump(t, db)
	setPages(now)
	_, err = b.Apply(t.Context(), starts)
	full("apply", err)
	setPages("1000000")
	if _, err := b.Apply(t.Context(), starts); err != nil {
		t.Error(err)
	}
}

// TestReadOnlyFile: a file that cannot be written gives an error for each write, and
// can be read.
func TestReadOnlyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ro.db")
	writable := modernc.Open(t, path, 1)
	b, transition := stocked(t, writable)
	before := dump(t, writable)
	ro, err := sql.Open("sqlite", "file:"+suite.Escaped(path)+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	ro.SetMaxOpenConns(1)
	reader := open(t, ro).Driver(driver.Key{})
	for name, call := range writes(reader, transition) {
		if err := call(t.Context()); err == nil || !strings.Contains(err.Error(), "readonly database") {
			t.Errorf("%s: %v, want it to say that the database is read-only", name, err)
		}
		unchanged(t, ro)
	}
	if got, err := reader.Load(t.Context(), []driver.ID{transition.Ref}); err != nil || len(got) != 1 {
		t.Errorf("load: %d, %v", len(got), err)
	}
	if after := dump(t, writable); after != before {
		t.Error("rows changed")
	}
	claim(t, b, asking(100))
}

// TestOneConnectionIsEnoughOrSaysSo: a call that needs a second connection of a pool
// of one, while the first is held further up, fails in time and says why.
func TestOneConnectionIsEnoughOrSaysSo(t *testing.T) {
	db, s := modernc.Fresh(t, 1)
	setBudget(s, 200*time.Millisecond)
	b := s.Driver(driver.Key{})
	raw, tx, err := b.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func(ctx context.Context) error{
		"load":  func(ctx context.Context) error { _, err := b.Load(ctx, nil); return err },
		"claim": func(ctx context.Context) error { _, err := b.Claim(ctx, asking(1)); return err },
		"apply": func(ctx context.Context) error { _, err := b.Apply(ctx, make([]lifecycle.Transition, 1)); return err },
		"begin": func(ctx context.Context) error { _, _, err := b.Begin(ctx); return err },
		"view":  func(ctx context.Context) error { return b.View(ctx, func(*sql.Tx) error { return nil }) },
	} {
		if err := call(t.Context()); err == nil || !strings.Contains(err.Error(), "is a transaction of this program open in the same call?") {
			t.Errorf("%s: %v", name, err)
		}
	}
	setBudget(s, time.Minute) // for what has a connection
	if err := b.ViewIn(t.Context(), raw, func(tx *sql.Tx) error {
		_, err := tx.Exec("SELECT 1")
		return err
	}); err != nil {
		t.Errorf("a view inside the transaction: %v", err)
	}
	if err := tx.Insert(t.Context(), messages(30)); err != nil {
		t.Errorf("insert: %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	unchanged(t, db)
	if got := claim(t, b, asking(100)); len(got) != 30 {
		t.Errorf("claimed %d, want 30", len(got))
	}
}
