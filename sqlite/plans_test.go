//go:build !race

package sqlite_test

import (
	"database/sql"
	sqldriver "database/sql/driver"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/sqlite/internal/suite"
)

// recorder keeps every statement that goes through a database, with the arguments
// of the last time.
type recorder struct {
	mu   sync.Mutex
	seen map[string][]any
}

func (r *recorder) hook(query string, args []sqldriver.NamedValue) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = map[string][]any{}
	}
	values := make([]any, len(args))
	for i := range args {
		values[i] = args[i].Value
	}
	r.seen[query] = values
	return nil
}

// statements returns what was seen that has a plan and looks at a table of ours.
func (r *recorder) statements() map[string][]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := maps.Clone(r.seen)
	maps.DeleteFunc(out, func(query string, _ []any) bool {
		return !strings.Contains(query, "consign_") || strings.Contains(query, "CREATE TABLE") ||
			strings.HasPrefix(query, "SAVEPOINT") || strings.HasPrefix(query, "RELEASE") || strings.HasPrefix(query, "ROLLBACK")
	})
	return out
}

// mayScan are tables with a handful of rows, and what is no table at all.
var mayScan = []string{
	"p", "consign_program", "consign_migration", "consign_setting", "sqlite_master", // few rows; setting only under WHERE 0
	"consign_pause",      // few rows
	"t",                  // what a limit was put on
	"r", "v", "CONSTANT", // the engine's own rows
}

var scanned = regexp.MustCompile(`^SCAN (\w+)`)
var valueRows = regexp.MustCompile(`^SCAN \d+(-ROW VALUES CLAUSE| CONSTANT ROWS)$`)

// plan returns how SQLite would run a statement.
func plan(t *testing.T, db *sql.DB, query string, args []any) string {
	t.Helper()
	rows, err := suite.Rows(t.Context(), db, "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	var lines []string
	for _, row := range rows {
		detail := row["detail"].(string)
		lines = append(lines, detail)
		if m := scanned.FindStringSubmatch(detail); m != nil && !slices.Contains(mayScan, m[1]) && !valueRows.MatchString(detail) {
			t.Errorf("%s of\n%s", detail, query)
		}
		history := strings.Contains(query, "FROM consign_attempt WHERE ref = ? ORDER BY at") || // the log of one delivery
			strings.Contains(query, "WHERE i.subject = ? AND i.ref > ?") // what belongs to one subject
		waiting := strings.Contains(query, "ORDER BY 1, 2, 3 LIMIT ?") // the first of all open messages
		if strings.Contains(detail, "AUTOMATIC") || strings.Contains(detail, "TEMP B-TREE FOR ORDER BY") && !history && !waiting {
			t.Errorf("%s in\n%s", detail, query)
		}
	}
	return strings.Join(lines, "\n")
}

// hot are the statements that every delivery goes through, and what they must use.
var hot = map[string]string{
	"SELECT 1 FROM consign_delivery d ":                                                                                    dueRange,
	"d INDEXED BY consign_delivery_due WHERE d.route = ?2 AND d.due_at IS":                                                 dueRange,
	"consign_delivery_due CROSS JOIN consign_intent i INDEXED BY sqlite_autoindex_consign_intent_1 ON i.ref = d.ref WHERE": dueRange,
	"CROSS JOIN consign_intent i":                                                                                          "SEARCH i USING INDEX sqlite_autoindex_consign_intent_1 (ref=?)",
	"SELECT g.ref":                                                                                                         "SEARCH g USING INDEX consign_delivery_gate (gate_task=? AND gate_index>?)",
	"NOT EXISTS":                                                                                                           "SEARCH g USING INDEX consign_delivery_gate (gate_task=? AND gate_index<?)",
	"UPDATE OR FAIL consign_delivery INDEXED":                                                                              "SEARCH consign_delivery USING INDEX sqlite_autoindex_consign_delivery_1 (ref=?)",
	"WHERE rowid BETWEEN ? AND ?":                                                                                          "SEARCH consign_delivery USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
	"WHERE rowid IN (":                                                                                                     "SEARCH consign_delivery USING INTEGER PRIMARY KEY (rowid=?)",
	"WHERE rowid = v.k":                                                                                                    "SEARCH consign_delivery USING INTEGER PRIMARY KEY (rowid=?)",
	"LIMIT 2 OFFSET ?":                                                                                                     "SEARCH d USING COVERING INDEX consign_delivery_due ((route,due_at,ref)>(?,?,?))",
	"<= (?5, ?6, ?7)":                                                                                                      "SEARCH d USING INDEX consign_delivery_due ((route,due_at,ref)>(?,?,?) AND (route,due_at,ref)<(?,?,?))",
	"d.created_at < ? AND d.review_at IS NULL":                                                                             "SEARCH d USING INDEX consign_delivery_terminal (profile=? AND terminal=? AND created_at<?)",
	"consign_intent i INDEXED BY consign_intent_":                                                                          "SEARCH i USING INDEX consign_intent_subject (subject=?)",
	"FROM consign_approval a INDEXED BY consign_approval_open":                                                             "SEARCH a USING INDEX consign_approval_open ((expires_at,id)>(?,?))",
	"d.route >= 'm:'":                                                                                                      "SEARCH d USING INDEX consign_delivery_due (route>? AND route<?)",
	"WITH RECURSIVE r(route)":                                                                                              "SEARCH d USING COVERING INDEX consign_delivery_due (route>?)",
}

const dueRange = "SEARCH d USING INDEX consign_delivery_due (route=? AND (due_at,ref)>(?,?) AND due_at<?)"

// TestPlans: each statement of the engine uses the index that it was written for, in
// an empty database, a normal one and one that is nearly all history, with fresh,
// stale and no statistics.
func TestPlans(t *testing.T) {
	r := &recorder{}
	db := modernc.OpenHooked(t, filepath.Join(t.TempDir(), "plan.db"), 1, r.hook)
	b := suite.Migrated(t, db, "").Driver(driver.Key{})
	useEverything(t, b)
	useDesk(t, b.(driver.Desk))
	useScattered(t, b)
	statements := r.statements()
	if len(statements) < 50 {
		t.Errorf("only %d statements were seen", len(statements))
	}
	for part := range hot {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(statements)), func(q string) bool { return strings.Contains(q, part) }) {
			t.Errorf("no statement with %q was seen", part)
		}
	}
	exec := func(query string) {
		t.Helper()
		if _, err := db.Exec(query); err != nil {
			t.Fatal(err)
		}
	}
	empty := func() {
		for _, table := range []string{"intent", "delivery", "attempt", "resolution", "run", "approval", "audit", "setting"} {
			exec("DELETE FROM consign_" + table)
		}
	}
	first := map[string]string{}
	for _, c := range []struct {
		name  string
		apply func()
	}{
		{"empty, no statistics", empty},
		{"empty, analyzed", func() { exec("ANALYZE") }},
		{"normal, statistics of the empty one", func() { fillOpen(t, db, 2000) }},
		{"normal, analyzed", func() { exec("ANALYZE") }},
		{"history, statistics of the normal one", func() { fillEnded(t, db, 30_000) }},
		{"history, analyzed", func() { exec("ANALYZE") }},
		{"history, no statistics", func() { exec("DELETE FROM sqlite_stat1"); exec("ANALYZE sqlite_schema") }},
		{"empty, statistics of history", func() { exec("ANALYZE"); empty() }},
	} {
		c.apply()
		for query, args := range statements {
			got := plan(t, db, query, args)
			if first[query] == "" {
				first[query] = got
			} else if got != first[query] {
				t.Errorf("%s: the plan changes from\n%s\nto\n%s\nfor\n%s", c.name, first[query], got, query)
			}
			for part, want := range hot {
				if strings.Contains(query, part) && !strings.Contains(got, want) {
					t.Errorf("%s: want %q in the plan\n%s\nof\n%s", c.name, want, got, query)
				}
			}
		}
	}
}

const fillIntents = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
INSERT INTO consign_intent (ref, created_at, profile, kind, payload_digest, payload, address)
SELECT CAST(printf('%015d', i) || ?2 AS BLOB), i, 2, 'mail', zeroblob(32), '{}', 'a' FROM n`

const fillDeliveries = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
INSERT INTO consign_delivery (ref, created_at, updated_at, route, profile, retry, lease_ms, timeout_ms, status, terminal, due_at)
SELECT CAST(printf('%015d', i) || ?2 AS BLOB), i, i, 'm:mail', 2, 2, 1, 1, ?3, nullif(?3, 0), CASE ?3 WHEN 0 THEN i END FROM n`

func fillOpen(t *testing.T, db *sql.DB, n int)  { fillRows(t, db, n, "o", 0) }
func fillEnded(t *testing.T, db *sql.DB, n int) { fillRows(t, db, n, "e", 3) }

func fillRows(t *testing.T, db *sql.DB, n int, mark string, status int) {
	t.Helper()
	if _, err := db.Exec(fillIntents, n, mark); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(fillDeliveries, n, mark, status); err != nil {
		t.Fatal(err)
	}
}
