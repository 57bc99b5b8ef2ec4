package main

import (
	"database/sql"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
)

// open opens the database of a place past the command, and returns what stands before
// each table.
func (p *place) open(t *testing.T) (db *sql.DB, before string) {
	t.Helper()
	driver, url, before := "sqlite", "file:"+filepath.Join(p.dir, "consign.db")+"?_pragma=busy_timeout(5000)", "consign_"
	for _, e := range p.env {
		if s, ok := strings.CutPrefix(e, "CONSIGN_DB=postgres"); ok {
			driver, url = "pgx", "postgres"+s
		}
	}
	if driver == "pgx" {
		before = regexp.MustCompile(`schema = "(\w+)"`).FindStringSubmatch(p.read(t, "consign.toml"))[1] + "."
	}
	db, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db, before
}

// exec runs a statement past the command; {s} stands before each table.
func (p *place) exec(t *testing.T, sqlite, postgres string) {
	t.Helper()
	db, before := p.open(t)
	text := postgres
	if before == "consign_" {
		text = sqlite
	}
	if _, err := db.ExecContext(t.Context(), strings.ReplaceAll(text, "{s}", before)); err != nil {
		t.Fatal(err)
	}
}

// leasesEnd is what the passing of a minute does to every lease.
func (p *place) leasesEnd(t *testing.T) {
	t.Helper()
	p.exec(t, `UPDATE {s}delivery SET lease_until = lease_until - 120000000`,
		`UPDATE {s}delivery SET lease_until = lease_until - interval '2 minutes'`)
}

// overdue makes a ref due two minutes ago.
func (p *place) overdue(t *testing.T, ref string) {
	t.Helper()
	p.exec(t, `UPDATE {s}delivery SET due_at = due_at - 120000000 WHERE hex(ref) = '`+strings.ToUpper(strings.ReplaceAll(ref, "-", ""))+`'`,
		`UPDATE {s}delivery SET due_at = due_at - interval '2 minutes' WHERE ref = '`+ref+`'`)
}

// old makes everything that has ended 100 days old.
func (p *place) old(t *testing.T) {
	t.Helper()
	p.exec(t, `UPDATE {s}delivery SET created_at = created_at - 8640000000000 WHERE terminal IS NOT NULL`,
		`UPDATE {s}delivery SET created_at = created_at - interval '100 days' WHERE terminal IS NOT NULL`)
}
