// Package plainsql runs the examples of this folder: programs without Go that commit a
// row of their own together with a message, which Consign then delivers.
package plainsql

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/pgtest"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/postgres"
	"github.com/consign-go/consign/sqlite"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// desk is a database with the tables of a ticket desk and those of Consign, where its
// programs find it.
type desk struct {
	where string
	db    *sql.DB
	store consign.Store[*sql.Tx]
}

const tables = `CREATE TABLE ticket (id integer PRIMARY KEY, status text NOT NULL);
INSERT INTO ticket VALUES (41, 'new'), (42, 'new');
CREATE TABLE assignment (ticket integer PRIMARY KEY, staff text NOT NULL CHECK (staff <> ''))`

func onPostgres(t *testing.T) desk {
	t.Helper()
	name := "desk_" + strings.ToLower(rand.Text())
	admin := pgtest.Pool(t)
	if _, err := admin.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(context.Background(), "DROP DATABASE "+name); err != nil {
			t.Error(err)
		}
	})
	where, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	where.Path = "/" + name
	pool, err := pgxpool.New(t.Context(), where.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { db.Close() })
	store, err := postgres.NewSQL(pool, db, nil)
	if err != nil {
		t.Fatal(err)
	}
	return made(t, where.String(), db, store)
}

func onSQLite(t *testing.T) desk {
	t.Helper()
	path := filepath.Join(t.TempDir(), "app.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	store, err := sqlite.New(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	return made(t, path, db, store)
}

func made[S interface {
	consign.Store[*sql.Tx]
	migrate.Store
}](t *testing.T, where string, db *sql.DB, store S) desk {
	t.Helper()
	if _, err := migrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), tables); err != nil {
		t.Fatal(err)
	}
	return desk{where, db, store}
}

func (d desk) count(t *testing.T, query string) (n int) {
	t.Helper()
	if err := d.db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// program makes the command of an example. What runs it has to be there: a missing
// interpreter is a failure, and ./test.sh installs them all.
func program(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("the examples need %s: %v; Debian's packages are python3, nodejs, sqlite3 and postgresql-client", name, err)
	}
	return exec.CommandContext(t.Context(), path, args...)
}

var programs = map[string]struct {
	desk func(t *testing.T) desk
	run  func(t *testing.T, where, ticket, staff string) *exec.Cmd
}{
	"python-sqlite": {onSQLite, func(t *testing.T, where, ticket, staff string) *exec.Cmd {
		return program(t, "python3", "desk_sqlite.py", where, ticket, staff)
	}},
	"node-sqlite": {onSQLite, func(t *testing.T, where, ticket, staff string) *exec.Cmd {
		program(t, "sqlite3") // of a Node without SQLite
		return program(t, "node", "desk_sqlite.mjs", where, ticket, staff)
	}},
	"psql": {onPostgres, func(t *testing.T, where, ticket, staff string) *exec.Cmd {
		return program(t, "psql", "-X", "-q", "-t", "-A", "-v", "ticket="+ticket, "-v", "staff="+staff, "-f", "desk_postgres.sql", where)
	}},
	"python-postgres": {onPostgres, func(t *testing.T, where, ticket, staff string) *exec.Cmd {
		program(t, "psql")
		return program(t, "python3", "desk_postgres.py", where, ticket, staff)
	}},
	"node-postgres": {onPostgres, func(t *testing.T, where, ticket, staff string) *exec.Cmd {
		program(t, "psql")
		return program(t, "node", "desk_postgres.mjs", where, ticket, staff)
	}},
}

// TestProgramsInOtherLanguagesCommitRowAndMessageTogether: the message of a committed
// ticket is delivered as it was said; of a ticket that was rolled back there is none.
func TestProgramsInOtherLanguagesCommitRowAndMessageTogether(t *testing.T) {
	for name, p := range programs {
		t.Run(name, func(t *testing.T) {
			d := p.desk(t)
			const staff = `ada "l'été"`
			out, err := p.run(t, d.where, "41", staff).Output()
			if err != nil {
				t.Fatalf("%v: %s", err, stderr(err))
			}
			ref, err := consign.ParseRef(strings.TrimSpace(string(out)))
			if err != nil {
				t.Fatalf("it printed %q: %v", out, err)
			}
			// Nobody in particular cannot be assigned, and by then the message is written.
			if out, err := p.run(t, d.where, "42", "").Output(); err == nil {
				t.Errorf("the ticket of nobody was committed: %s", out)
			}
			if n := d.count(t, "SELECT count(*) FROM ticket WHERE id = 41 AND status = 'triaged' OR id = 42 AND status = 'new'"); n != 2 {
				t.Error("the tickets are not as they should be")
			}
			delivered(t, d, ref, `{"by":"ada \"l'été\"","event":"ticket.triaged","ticket":41}`)
		})
	}
}

// delivered wants one message, and delivers it.
func delivered(t *testing.T, d desk, ref consign.Ref, request string) {
	t.Helper()
	var got []string
	outbox, err := consign.New(d.store, &consign.Options{Channels: []consign.Channel{{
		Name: "crm", Retry: consign.OnSchedule, Idempotent: true,
		Deliver: func(_ context.Context, m consign.Message, a consign.Attempt) error {
			got = append(got, fmt.Sprintf("%s to %s under %s: %s", m.Channel, m.To, a.Key, a.Request))
			return nil
		},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	results, err := outbox.Drain(t.Context(), 0)
	if err != nil || len(results) != 1 || !results[0].Success() || results[0].Ref != ref {
		t.Errorf("delivered %v, %v, want %s", results, err, ref)
	}
	if want := fmt.Sprintf("crm to desk under %s: %s", ref, request); len(got) != 1 || got[0] != want {
		t.Errorf("sent %q, want %q", got, want)
	}
}

func stderr(err error) string {
	if e, ok := err.(*exec.ExitError); ok {
		return string(e.Stderr)
	}
	return ""
}
