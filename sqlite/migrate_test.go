package sqlite_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/migration"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/sqlite"
	"github.com/consign-go/consign/sqlite/internal/suite"
)

// schemaOf returns everything that the database says of its tables, with where each
// is and how it was written.
func schemaOf(t *testing.T, db *sql.DB) string {
	t.Helper()
	rows, err := suite.Rows(t.Context(), db, "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, row := range rows {
		fmt.Fprintln(&b, row)
	}
	return b.String()
}

func unmigrated(t *testing.T) (*sql.DB, *sqlite.Store) {
	t.Helper()
	db := modernc.Open(t, filepath.Join(t.TempDir(), "test.db"), 2)
	s, err := sqlite.New(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	return db, s
}

func up(t *testing.T, s *sqlite.Store, want int) {
	t.Helper()
	steps, err := migrate.Up(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) != want {
		t.Fatalf("%d steps were done, want %d", len(steps), want)
	}
}

func execute(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatal(err)
	}
}

func TestMigrateTwiceAndDown(t *testing.T) {
	db, s := unmigrated(t)
	before := schemaOf(t, db)
	status, err := migrate.Status(t.Context(), s)
	if err != nil || len(status) != 1 || !status[0].Applied.IsZero() {
		t.Errorf("status of an empty database: %v, %v", status, err)
	}
	if schemaOf(t, db) != before {
		t.Error("asking for the status has changed the database")
	}
	up(t, s, 1)
	first := schemaOf(t, db)
	up(t, s, 0)
	if schemaOf(t, db) != first {
		t.Error("migrating a second time has changed the schema")
	}
	status, err = migrate.Status(t.Context(), s)
	if err != nil || len(status) != 1 || status[0].Applied.IsZero() {
		t.Errorf("status of a migrated database: %v, %v", status, err)
	}
	useEverything(t, s.Driver(driver.Key{}))
	if steps, err := migrate.Down(t.Context(), s, 0); err != nil || len(steps) != 1 {
		t.Fatalf("down: %v, %v", steps, err)
	}
	if schemaOf(t, db) != before {
		t.Errorf("down has left something:\n%s", schemaOf(t, db))
	}
	if steps, err := migrate.Down(t.Context(), s, 0); err != nil || len(steps) != 0 {
		t.Fatalf("down again: %v, %v", steps, err)
	}
	up(t, s, 1)
	if schemaOf(t, db) != first {
		t.Error("up after down makes another schema")
	}
}

func TestMigrateScriptIsTheSame(t *testing.T) {
	db, s := unmigrated(t)
	up(t, s, 1)
	other, scripted := unmigrated(t)
	execute(t, other, migrate.SQL(scripted, false))
	if a, b := schemaOf(t, db), schemaOf(t, other); a != b {
		t.Errorf("the script makes another schema:\n%s\nwant\n%s", b, a)
	}
	up(t, scripted, 0)
	if _, err := migrate.Status(t.Context(), scripted); err != nil {
		t.Error(err)
	}
	useEverything(t, scripted.Driver(driver.Key{}))
	execute(t, other, migrate.SQL(scripted, true))
	if left := schemaOf(t, other); left != "" {
		t.Errorf("the script down leaves\n%s", left)
	}
}

func TestMigrateRefusesWhatDoesNotFit(t *testing.T) {
	insert := func(version, oldest int) string {
		return fmt.Sprintf("INSERT INTO consign_migration SELECT %d, 'later', 'x', %d, applied_at FROM consign_migration WHERE version = 1", version, oldest)
	}
	for _, c := range []struct {
		name, change string
		want         error
		advice       string
	}{
		{"newer", insert(2, 2), migrate.ErrNewer, "run a newer program"},
		{"newer and compatible", insert(2, 1), nil, ""},
		{"edited", "UPDATE consign_migration SET checksum = 'edited'", migrate.ErrChanged, "never edited"},
		{"a gap", insert(3, 1), migrate.ErrChanged, "3 is recorded where 2 was expected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			db, s := unmigrated(t)
			up(t, s, 1)
			execute(t, db, c.change)
			before := schemaOf(t, db)
			steps, err := migrate.Up(t.Context(), s)
			if !errors.Is(err, c.want) || len(steps) != 0 {
				t.Errorf("up: %d steps, %v, want %v", len(steps), err, c.want)
			}
			if err != nil && !strings.Contains(err.Error(), c.advice) {
				t.Errorf("up: %v, want %q in it", err, c.advice)
			}
			if _, err := migrate.Status(t.Context(), s); !errors.Is(err, c.want) {
				t.Errorf("status: %v, want %v", err, c.want)
			}
			if _, err := migrate.Down(t.Context(), s, 0); err == nil {
				t.Error("taken down by a program that did not bring it up")
			}
			if schemaOf(t, db) != before {
				t.Error("a refusal has changed the schema")
			}
		})
	}
}

// changed is a target with other steps.
type changed struct {
	migration.Target
	steps []migration.Step
}

func (c changed) Steps() []migration.Step { return c.steps }

func TestMigrateFailingStepLeavesNothing(t *testing.T) {
	db, s := unmigrated(t)
	target := s.Migrations(driver.Key{})
	good := target.Steps()[0]
	bad := migration.Step{Version: 2, Name: "bad", Up: "CREATE TABLE consign_new (x); CREATE TABLE consign_new (x);", Down: "DROP TABLE consign_new;", Checksum: "x", Oldest: 1}
	for _, steps := range [][]migration.Step{{good, bad}, {{Version: 1, Name: "bad", Up: good.Up + "SELECT nothing;", Down: "x", Checksum: "x", Oldest: 1}}} {
		if _, err := migration.Up(t.Context(), changed{target, steps}); err == nil || !strings.Contains(err.Error(), "_bad") {
			t.Errorf("a failing step: %v, want its name", err)
		}
		if left := schemaOf(t, db); left != "" {
			t.Errorf("a failing step has left\n%s", left)
		}
	}
	up(t, s, 1)
	before := schemaOf(t, db)
	if _, err := migration.Up(t.Context(), changed{target, []migration.Step{good, bad}}); err == nil {
		t.Error("a failing step is not reported")
	}
	if schemaOf(t, db) != before {
		t.Error("a failing second step has changed the schema")
	}
}

func TestTwoPrefixesInOneFile(t *testing.T) {
	db := modernc.Open(t, filepath.Join(t.TempDir(), "test.db"), 1)
	one := suite.Migrated(t, db, "one_").Driver(driver.Key{})
	two := suite.Migrated(t, db, "two_").Driver(driver.Key{})
	refs := store(t, one, messages(5)...)
	if got := claim(t, two, asking(10)); len(got) != 0 {
		t.Errorf("claimed %d of the other prefix", len(got))
	}
	if got, err := two.Load(t.Context(), refs); err != nil || len(got) != 0 {
		t.Errorf("loaded %d of the other prefix: %v", len(got), err)
	}
	store(t, two, message(func(n *driver.New) { n.Ref, n.Key = refs[0], refs[0] }))
	if got := claim(t, one, asking(10)); len(got) != 5 {
		t.Errorf("claimed %d, want 5", len(got))
	}
	useEverything(t, two)
	s, err := sqlite.New(db, &sqlite.Options{Prefix: "two_"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrate.Down(t.Context(), s, 0); err != nil {
		t.Fatal(err)
	}
	if got, err := one.Load(t.Context(), refs); err != nil || len(got) != 5 {
		t.Errorf("%d are left after the other prefix went: %v", len(got), err)
	}
}
