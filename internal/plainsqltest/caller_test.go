package plainsqltest

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestMessageSharesTheCallersTransaction: it commits with the caller's row or not at
// all, nobody sees it before, and after a refusal the rest can still commit.
func TestMessageSharesTheCallersTransaction(t *testing.T) {
	onBoth(t, func(t *testing.T, b *base) {
		b.exec(t, "CREATE TABLE {s}ticket (id integer PRIMARY KEY)")
		both := func() (int, int) {
			return one[int](t, b, "SELECT count(*) FROM {s}ticket"), one[int](t, b, "SELECT count(*) FROM {s}delivery")
		}
		for i, commit := range []bool{false, true} {
			tx := b.begin(t)
			if _, err := tx.ExecContext(t.Context(), b.names.Replace("INSERT INTO {s}ticket VALUES (1)")); err != nil {
				t.Fatal(err)
			}
			if err := b.enqueue(t, tx, note()); err != nil {
				t.Fatal(err)
			}
			if _, err := tx.ExecContext(t.Context(), "SAVEPOINT refused"); err != nil {
				t.Fatal(err)
			}
			if err := b.enqueue(t, tx, note(func(r *row) { r.channel = "" })); refusal(t, err) != "invalid" {
				t.Fatal(err)
			}
			if _, err := tx.ExecContext(t.Context(), "ROLLBACK TO SAVEPOINT refused"); err != nil {
				t.Fatal(err)
			}
			if tickets, messages := both(); tickets != 0 || messages != 0 {
				t.Errorf("before the commit others see %d tickets, %d messages", tickets, messages)
			}
			end := tx.Rollback
			if commit {
				end = tx.Commit
			}
			if err := end(); err != nil {
				t.Fatal(err)
			}
			if tickets, messages := both(); tickets != i || messages != i {
				t.Errorf("committed %t: %d tickets, %d messages", commit, tickets, messages)
			}
		}
	})
}

// TestSameIDAtOnce: of two transactions with one id the second waits for the first,
// and then finds its message, or is free to write its own.
func TestSameIDAtOnce(t *testing.T) {
	b := onPostgres(t)
	for _, commit := range []bool{true, false} {
		r := note(func(r *row) { r.id = newID() })
		first, second := b.begin(t), b.begin(t)
		var pid int
		if err := second.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			t.Fatal(err)
		}
		if err := b.enqueue(t, first, r); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- b.enqueue(t, second, r) }()
		waits := func() bool {
			return one[bool](t, b, "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)", pid)
		}
		for end := time.Now().Add(2 * time.Minute); !waits(); {
			if time.Now().After(end) {
				t.Fatal("the second does not wait")
			}
		}
		if commit {
			first.Commit()
		} else {
			first.Rollback()
		}
		if err := <-done; err != nil {
			t.Errorf("first committed %t: %v", commit, err)
		}
		if err := second.Commit(); err != nil {
			t.Error(err)
		}
		if n := one[int](t, b, "SELECT count(*) FROM {s}intent WHERE ref = $1", r.id); n != 1 {
			t.Errorf("first committed %t: %d intents", commit, n)
		}
	}
}

// as runs fn in a transaction of a role without any right but those that are granted.
func as(t *testing.T, b *base, role string, fn func(tx *sql.Tx)) {
	t.Helper()
	tx := b.begin(t)
	if _, err := tx.ExecContext(t.Context(), "SET LOCAL ROLE "+role); err != nil {
		t.Fatal(err)
	}
	fn(tx)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
}

// denied reports whether err is a missing right.
func denied(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "42501"
}

// TestOnlyExecuteIsNeeded: USAGE of the schema and EXECUTE are all that an application
// has, and without EXECUTE nobody may.
func TestOnlyExecuteIsNeeded(t *testing.T) {
	b := onPostgres(t)
	role := b.schema + "_r"
	b.exec(t, "CREATE ROLE "+role)
	t.Cleanup(func() {
		if _, err := b.db.ExecContext(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	b.exec(t, "GRANT USAGE ON SCHEMA "+b.schema+" TO "+role)
	for _, call := range []string{
		`SELECT {s}enqueue_message(1, 'crm', '{}')`, `SELECT {s}wake()`, `SELECT {s}canonical_json('{}', 1)`, `SELECT {s}canonical_number('1')`,
	} {
		as(t, b, role, func(tx *sql.Tx) {
			if _, err := tx.ExecContext(t.Context(), b.names.Replace(call)); !denied(err) {
				t.Errorf("without EXECUTE %s: %v", call, err)
			}
		})
	}
	b.exec(t, "GRANT EXECUTE ON FUNCTION {s}enqueue_message, {s}wake TO "+role)
	as(t, b, role, func(tx *sql.Tx) {
		if err := b.enqueue(t, tx, note()); err != nil {
			t.Errorf("with EXECUTE: %v", err)
		}
	})
	as(t, b, role, func(tx *sql.Tx) {
		if _, err := tx.ExecContext(t.Context(), b.names.Replace("SELECT {s}wake()")); err != nil {
			t.Errorf("with EXECUTE: %v", err)
		}
	})
	for _, other := range []string{
		"SELECT FROM {s}intent", "INSERT INTO {s}setting VALUES ('a', 'b')", "UPDATE {s}delivery SET attempts = 0", "DELETE FROM {s}delivery",
	} {
		as(t, b, role, func(tx *sql.Tx) {
			if _, err := tx.ExecContext(t.Context(), b.names.Replace(other)); !denied(err) {
				t.Errorf("%s: %v", other, err)
			}
		})
	}
}

// TestCallersSearchPathIsNotUsed: what a caller defines under the name of a function
// of PostgreSQL is not called with the owner's rights, and its settings change nothing.
func TestCallersSearchPathIsNotUsed(t *testing.T) {
	b := onPostgres(t)
	evil := pgSchema(t, b)
	b.exec(t, `CREATE FUNCTION `+evil+`.sha256(bytea) RETURNS bytea LANGUAGE sql AS 'SELECT decode(repeat(''00'', 32), ''hex'')'`)
	b.exec(t, `CREATE FUNCTION `+evil+`.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT NULL::timestamptz'`)
	b.exec(t, `CREATE FUNCTION `+evil+`.json_typeof(json) RETURNS text LANGUAGE sql AS 'SELECT ''number'''`)
	tx := b.begin(t)
	for _, query := range []string{
		"SET LOCAL search_path = " + evil + ", pg_catalog", "CREATE TEMPORARY TABLE pg_proc (a int) ON COMMIT DROP",
		"SET LOCAL extra_float_digits = -10", "SET LOCAL standard_conforming_strings = off", "SET LOCAL bytea_output = 'escape'",
		"SET LOCAL IntervalStyle = 'sql_standard'", "SET LOCAL DateStyle = 'SQL, DMY'", "SET LOCAL TimeZone = 'Asia/Kathmandu'",
	} {
		if _, err := tx.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	compare(t, b, tx, `{"b":0.30000000000000004,"a":1e23}`, false)
}

// pgSchema makes a schema that goes with the test.
func pgSchema(t *testing.T, b *base) string {
	name := b.schema + "_evil"
	b.exec(t, "CREATE SCHEMA "+name)
	t.Cleanup(func() {
		if _, err := b.db.ExecContext(context.Background(), "DROP SCHEMA "+name+" CASCADE"); err != nil {
			t.Error(err)
		}
	})
	return name
}
