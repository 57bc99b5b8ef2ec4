package postgres

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

func TestNewRefusesBadSchemaNames(t *testing.T) {
	pool := new(pgxpool.Pool)
	for _, name := range []string{
		"Consign", "1st", "a-b", "a b", `a"b`, "a.b", "pg_own", "ä", "a;drop schema public", "a\n", strings.Repeat("x", 64),
	} {
		s, err := New(pool, &Options{Schema: name})
		if err == nil || s != nil || !strings.Contains(err.Error(), "schema") {
			t.Errorf("schema %q: %v", name, err)
		}
		if _, err := NewSQL(pool, new(sql.DB), &Options{Schema: name}); err == nil {
			t.Errorf("schema %q is accepted for database/sql", name)
		}
	}
	for _, name := range []string{"", "a", "_", "user", "select", "a1_b", strings.Repeat("x", 63)} {
		if _, err := New(pool, &Options{Schema: name}); err != nil {
			t.Errorf("schema %q: %v", name, err)
		}
	}
	if s, err := New(pool, nil); err != nil || s.bound.schema != "consign" {
		t.Errorf("the default schema is not consign, %v", err)
	}
}

func TestNewRefusesMissingPools(t *testing.T) {
	if _, err := New(nil, nil); err == nil {
		t.Error("no pool is accepted")
	}
	if _, err := NewSQL(nil, new(sql.DB), nil); err == nil {
		t.Error("no pool is accepted")
	}
	if _, err := NewSQL(new(pgxpool.Pool), nil, nil); err == nil {
		t.Error("no *sql.DB is accepted")
	}
}

// TestReservedWordAsSchema: names are quoted wherever they stand.
func TestReservedWordAsSchema(t *testing.T) {
	d := absent(t)
	s, err := New(d.pool, &Options{Schema: "select"})
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{s.bound.q.claim, s.bound.q.insert, s.bound.steps[0].Up} {
		if strings.Contains(sql, "{s}") || !strings.Contains(sql, `"select".delivery`) {
			t.Errorf("not filled in: %s", sql)
		}
	}
}
