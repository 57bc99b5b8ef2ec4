package postgres

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/migration"
	"github.com/consign-go/consign/internal/pgtest"
	"github.com/consign-go/consign/migrate"
)

// absent returns a store whose schema does not exist yet.
func absent(t *testing.T, options ...func(*pgxpool.Config)) *database {
	t.Helper()
	pool, schema := pgtest.Pool(t, options...), pgtest.Schema(t)+"_x"
	s, err := New(pool, &Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	d := &database{Store: s, engine: s.bound.engine, pool: pool, schema: schema}
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), pgtest.URL(t))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(context.Background(), "DROP SCHEMA IF EXISTS "+schema+" CASCADE"); err != nil {
			t.Error(err)
		}
	})
	return d
}

func up(t *testing.T, s migrate.Store) []migrate.Step {
	t.Helper()
	done, err := migrate.Up(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// catalog is everything that a schema holds, as the server describes it.
func (d *database) catalog(t *testing.T) string {
	t.Helper()
	const sql = `
SELECT string_agg(line, E'\n' ORDER BY line) FROM (
    SELECT format('column %s.%s %s %s %s %s %s %s', c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod),
                  a.attnotnull, a.attgenerated, a.attidentity, pg_get_expr(ad.adbin, ad.adrelid)) AS line
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND c.relkind IN ('r', 'v')
    LEFT JOIN pg_attrdef ad ON ad.adrelid = c.oid AND ad.adnum = a.attnum
    WHERE c.relnamespace = $1::regnamespace
    UNION ALL
    SELECT format('relation %s %s %s', relname, relkind, reloptions) FROM pg_class WHERE relnamespace = $1::regnamespace
    UNION ALL
    SELECT format('index %s', pg_get_indexdef(i.indexrelid)) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
    WHERE c.relnamespace = $1::regnamespace
    UNION ALL
    SELECT format('constraint %s %s', conname, pg_get_constraintdef(oid)) FROM pg_constraint
    WHERE connamespace = $1::regnamespace
    UNION ALL
    SELECT format('trigger %s', pg_get_triggerdef(g.oid)) FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid
    WHERE c.relnamespace = $1::regnamespace AND NOT g.tgisinternal
    UNION ALL
    SELECT format('function %s', pg_get_functiondef(oid)) FROM pg_proc WHERE pronamespace = $1::regnamespace
    UNION ALL
    SELECT format('view %s %s', relname, pg_get_viewdef(oid)) FROM pg_class
    WHERE relnamespace = $1::regnamespace AND relkind = 'v'
) x`
	return strings.ReplaceAll(one[string](t, d, sql, d.schema), d.schema, "…")
}

func TestMigrateTwice(t *testing.T) {
	d := absent(t)
	if done := up(t, d); len(done) != driver.SchemaVersion || done[0].Version != 1 {
		t.Fatalf("did %v", done)
	}
	before := d.catalog(t)
	if done := up(t, d); len(done) != 0 {
		t.Errorf("the second time did %v", done)
	}
	if d.catalog(t) != before {
		t.Error("the second time changed the schema")
	}
	status, err := migrate.Status(t.Context(), d)
	if err != nil || len(status) != driver.SchemaVersion || status[0].Applied.IsZero() {
		t.Errorf("status is %v, %v", status, err)
	}
}

func TestMigrateAtOnce(t *testing.T) {
	d := absent(t)
	const programs = 8
	var wait sync.WaitGroup
	did, faults := make([]int, programs), make([]error, programs)
	for i := range programs {
		s, err := New(pgtest.Pool(t, connections(1)), &Options{Schema: d.schema})
		if err != nil {
			t.Fatal(err)
		}
		wait.Go(func() {
			done, err := migrate.Up(t.Context(), s)
			did[i], faults[i] = len(done), err
		})
	}
	wait.Wait()
	if err := errors.Join(faults...); err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, n := range did {
		sum += n
	}
	if sum != driver.SchemaVersion {
		t.Errorf("applied %v times, want each step once", did)
	}
}

func TestMigrateDownAndUp(t *testing.T) {
	d := absent(t)
	up(t, d)
	before := d.catalog(t)
	d.insert(t, message("mail", webhook, 100))
	if done, err := migrate.Down(t.Context(), d, 0); err != nil || len(done) != driver.SchemaVersion {
		t.Fatal(done, err)
	}
	if left := one[int](t, d, "SELECT count(*) FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r'", d.schema); left != 1 {
		t.Errorf("%d tables are left, want the list of migrations", left)
	}
	if status, err := migrate.Status(t.Context(), d); err != nil || !status[0].Applied.IsZero() {
		t.Errorf("status is %v, %v", status, err)
	}
	up(t, d)
	if after := d.catalog(t); after != before {
		t.Errorf("down and up again is another schema:\n%s\nwas\n%s", after, before)
	}
}

func TestMigrateNewerDatabase(t *testing.T) {
	d := open(t)
	next := driver.SchemaVersion + 1
	add := func(oldest int) {
		d.exec(t, "DELETE FROM {s}migration WHERE version > $1", driver.SchemaVersion)
		d.exec(t, "INSERT INTO {s}migration VALUES ($1, 'future', 'x', $2, now())", next, oldest)
	}
	add(next)
	for what, err := range map[string]error{
		"up":     second(migrate.Up(t.Context(), d)),
		"down":   second(migrate.Down(t.Context(), d, 0)),
		"status": second(migrate.Status(t.Context(), d)),
	} {
		if !errors.Is(err, migrate.ErrNewer) || !strings.Contains(err.Error(), "newer program") {
			t.Errorf("%s of a database that needs a newer program: %v", what, err)
		}
	}
	add(1) // it still works with this program
	if done, err := migrate.Up(t.Context(), d); err != nil || len(done) != 0 {
		t.Errorf("a newer database that works with this program is refused: %v %v", done, err)
	}
	if _, err := migrate.Down(t.Context(), d, 0); !errors.Is(err, migrate.ErrNewer) {
		t.Errorf("steps that this program does not know were taken down: %v", err)
	}
	if one[int](t, d, "SELECT count(*) FROM {s}delivery") != 0 {
		t.Error("the tables are gone")
	}
}

func second[T any](_ T, err error) error { return err }

func TestMigrateEditedStep(t *testing.T) {
	d := open(t)
	d.exec(t, "UPDATE {s}migration SET checksum = repeat('0', 64) WHERE version = 1")
	if _, err := migrate.Up(t.Context(), d); !errors.Is(err, migrate.ErrChanged) {
		t.Errorf("an edited step gives %v", err)
	}
}

// altered is the store with other steps.
type altered struct {
	migration.Target
	steps []migration.Step
}

func (a altered) Steps() []migration.Step { return a.steps }

func TestMigrateFailingStepLeavesNothing(t *testing.T) {
	d := absent(t)
	steps := append([]migration.Step{}, d.steps...)
	steps = append(steps, migration.Step{
		Version: 2, Name: "broken", Checksum: "x", Oldest: 1, Up: d.expand("CREATE TABLE {s}half (); SELECT 1/0;"), Down: "SELECT",
	})
	_, err := migration.Up(t.Context(), altered{d.Migrations(driver.Key{}), steps})
	if err == nil || !strings.Contains(err.Error(), "0002_broken") {
		t.Fatalf("a broken step gives %v", err)
	}
	if one[bool](t, d, "SELECT to_regnamespace($1) IS NOT NULL", d.schema) {
		t.Error("the schema is there")
	}
	up(t, d)
	before := d.catalog(t)
	if _, err := migration.Up(t.Context(), altered{d.Migrations(driver.Key{}), steps}); err == nil {
		t.Fatal("a broken step succeeds")
	}
	if d.catalog(t) != before {
		t.Error("half of a step is left")
	}
}

// TestMigrateScript: teams that apply the exported script with a tool of their own
// get what Up makes, and Up agrees.
func TestMigrateScript(t *testing.T) {
	psql, err := exec.LookPath("psql")
	if err != nil {
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/psql")
		if len(found) == 0 {
			t.Fatal("no psql; it comes with PostgreSQL's client package")
		}
		psql = found[0]
	}
	run := func(script string) {
		t.Helper()
		cmd := exec.Command(psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", pgtest.URL(t))
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	want, got := open(t), absent(t)
	run(migrate.SQL(got, false))
	if w, g := want.catalog(t), got.catalog(t); w != g {
		t.Errorf("the script makes\n%s\nUp makes\n%s", g, w)
	}
	if done := up(t, got); len(done) != 0 {
		t.Errorf("after the script Up still did %v", done)
	}
	run(migrate.SQL(got, true))
	if done := up(t, got); len(done) != driver.SchemaVersion {
		t.Errorf("after the script down Up did %v", done)
	}
}

func TestMigrateTwoSchemasInOneDatabase(t *testing.T) {
	a, b := open(t), open(t)
	n := message("mail", webhook, 100)
	a.insert(t, n)
	if got, err := b.Claim(t.Context(), request("m:mail", 1)); err != nil || len(got) != 0 {
		t.Errorf("a store claims %d rows of another schema, %v", len(got), err)
	}
	if _, err := migrate.Down(t.Context(), b, 0); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Claim(t.Context(), request("m:mail", 1)); err != nil || len(got) != 1 {
		t.Errorf("taking one schema down touched another: %d rows, %v", len(got), err)
	}
}

// TestMigrateRights: a role that may not create is told so, with advice; where
// there is nothing to create it needs no such right.
func TestMigrateRights(t *testing.T) {
	owner := absent(t)
	role := owner.schema + "_r"
	owner.exec(t, "CREATE ROLE "+role)
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), pgtest.URL(t))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(context.Background(), fmt.Sprintf("DROP OWNED BY %[1]s; DROP ROLE %[1]s", role)); err != nil {
			t.Error(err)
		}
	})
	pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["role"] = role })
	s, err := New(pool, &Options{Schema: owner.schema})
	if err != nil {
		t.Fatal(err)
	}
	refused := func(when string) {
		t.Helper()
		_, err := migrate.Up(t.Context(), s)
		var e *Error
		if !errors.As(err, &e) || e.SQLState() != "42501" || !strings.Contains(err.Error(), "grant CREATE") {
			t.Errorf("%s: %v, want a refusal with advice", when, err)
		}
	}
	refused("no schema")
	owner.exec(t, "CREATE SCHEMA "+owner.schema)
	refused("a schema that is another's")
	up(t, owner)
	owner.exec(t, fmt.Sprintf("GRANT USAGE ON SCHEMA %[1]s TO %[2]s; GRANT SELECT ON %[1]s.migration TO %[2]s", owner.schema, role))
	if done, err := migrate.Up(t.Context(), s); err != nil || len(done) != 0 {
		t.Errorf("a role that may only read finds the schema up to date: %v, %v", done, err)
	}
	if _, err := migrate.Down(t.Context(), s, 0); err == nil {
		t.Error("a role that may only read took the schema down")
	}
}
