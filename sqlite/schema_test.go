package sqlite_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/sqlite/internal/suite"
)

var (
	tableText      = regexp.MustCompile(`(?s)CREATE TABLE \{s\}(\w+) \((.*?)\n\)`)
	columnText     = regexp.MustCompile(`(?m)^    ([a-z_]+) +[A-Za-z]`)
	constraintText = regexp.MustCompile(`CONSTRAINT (\w+)`)
	indexText      = regexp.MustCompile(`CREATE (UNIQUE )?INDEX (?:\{i\})?(\w+) ON \{s\}(\w+) \(([^)]*)\)( WHERE [^;]*)?;`)
	triggerText    = regexp.MustCompile(`CREATE TRIGGER (?:\{i\})?(\w+) BEFORE UPDATE ON \{s\}(\w+)`)
	viewText       = regexp.MustCompile(`CREATE VIEW \{s\}(\w+)`)
)

// names lists what a migration makes, by the names that programs and people know.
func names(t *testing.T, path string) (list, constraints []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sql := string(text)
	for _, table := range tableText.FindAllStringSubmatch(sql, -1) {
		list = append(list, "table "+table[1])
		for _, column := range columnText.FindAllStringSubmatch(table[2], -1) {
			list = append(list, "column "+table[1]+"."+column[1])
		}
		for _, c := range constraintText.FindAllStringSubmatch(table[2], -1) {
			constraints = append(constraints, table[1]+"."+c[1])
		}
	}
	for _, m := range indexText.FindAllStringSubmatch(sql, -1) {
		list = append(list, fmt.Sprintf("index %s%s on %s (%s)%s", m[1], m[2], m[3], m[4], m[5]))
	}
	for _, m := range triggerText.FindAllStringSubmatch(sql, -1) {
		list = append(list, "trigger "+m[1]+" on "+m[2])
	}
	for _, m := range viewText.FindAllStringSubmatch(sql, -1) {
		if strings.HasPrefix(m[1], "enqueue_") {
			continue // SQLite's stand-ins for PostgreSQL's functions
		}
		list = append(list, "view "+m[1])
	}
	slices.Sort(list)
	return list, constraints
}

// TestNamesAreThoseOfPostgreSQL: what is written about one database is true of the
// other.
func TestNamesAreThoseOfPostgreSQL(t *testing.T) {
	ours, constraints := names(t, "sql/0001_consign.up.sql")
	theirs, wanted := names(t, "../postgres/sql/0001_consign.up.sql")
	if len(theirs) < 150 {
		t.Errorf("only %d names were found", len(theirs))
	}
	for _, name := range theirs {
		if !slices.Contains(ours, name) {
			t.Errorf("missing: %s", name)
		}
	}
	for _, name := range ours {
		if !slices.Contains(theirs, name) {
			t.Errorf("only in SQLite: %s", name)
		}
	}
	for _, name := range wanted {
		if !slices.Contains(constraints, name) {
			t.Errorf("missing constraint: %s", name)
		}
	}
}

// TestDatabaseRefuses: rows that contradict the rules are refused by the database
// itself, whoever writes them.
func TestDatabaseRefuses(t *testing.T) {
	db, s := modernc.Fresh(t, 1)
	b := s.Driver(driver.Key{})
	refs := store(t, b, messages(2)...)
	useEverything(t, b)
	before := dump(t, db)
	ref := fmt.Sprintf("x'%x'", refs[0][:])
	for what, query := range map[string]string{
		"an intent changed":             `UPDATE consign_intent SET payload = '{}'`,
		"an intent changed to the same": `UPDATE consign_intent SET kind = kind`,
		"an audit row changed":          `UPDATE consign_audit SET reason = 'other'`,
		"a text for a number":           `UPDATE consign_delivery SET attempts = 'many' WHERE ref = ` + ref,
		"a fraction for a number":       `UPDATE consign_delivery SET generation = 1.5 WHERE ref = ` + ref,
		"a text for a digest":           `UPDATE consign_delivery SET digest = 'digest' WHERE ref = ` + ref,
		"a digest of 31 bytes":          `UPDATE consign_delivery SET digest = zeroblob(31) WHERE ref = ` + ref,
		"an owner of 15 bytes":          `UPDATE consign_delivery SET status = 1, lease_until = 1, owner = zeroblob(15) WHERE ref = ` + ref,
		"a ref of 15 bytes":             `UPDATE consign_delivery SET ref = zeroblob(15) WHERE ref = ` + ref,
		"no ref":                        `UPDATE consign_delivery SET ref = NULL WHERE ref = ` + ref,
		"a mark of 2":                   `UPDATE consign_delivery SET uncertain = 2 WHERE ref = ` + ref,
		"in flight at 2":                `UPDATE consign_delivery SET in_flight = 2 WHERE ref = ` + ref,
		"idempotent at 2":               `UPDATE consign_delivery SET idempotent = 2 WHERE ref = ` + ref,
		"a terminal status set by hand": `UPDATE consign_delivery SET terminal = 3 WHERE ref = ` + ref,
		"an end that is not marked":     `UPDATE consign_delivery SET status = 3, due_at = NULL WHERE ref = ` + ref,
		"an unknown code":               `UPDATE consign_delivery SET code = 'OTHER' WHERE ref = ` + ref,
		"a code that is never stored":   `UPDATE consign_delivery SET code = 'FENCED' WHERE ref = ` + ref,
		"an empty code":                 `UPDATE consign_delivery SET code = '' WHERE ref = ` + ref,
		"two codes":                     `UPDATE consign_delivery SET code = 'REJECTED DEADLINE_EXPIRED' WHERE ref = ` + ref,
		"part of a code":                `UPDATE consign_delivery SET code = 'REJECT' WHERE ref = ` + ref,
		"a second row for a ref":        `INSERT INTO consign_delivery SELECT * FROM consign_delivery WHERE ref = ` + ref,
		"an approval of no known status": `INSERT INTO consign_approval (id, created_at, expires_at, operation, actor, tenant, input_digest, proposer, status)
			VALUES (zeroblob(16), 1, 1, 'o', 'a', 't', zeroblob(32), 'p', 9)`,
		"a resolution of no outcome":      `INSERT INTO consign_resolution VALUES (zeroblob(16), zeroblob(16), 1, 0, 1, NULL, 'a', NULL)`,
		"an attempt that is neither late": `INSERT INTO consign_attempt (ref, generation, number, late, outcome, at) VALUES (zeroblob(16), 1, 1, 2, 1, 1)`,
	} {
		if _, err := db.Exec(query); err == nil {
			t.Errorf("stored: %s", what)
		}
		if after := dump(t, db); after != before {
			t.Fatalf("%s: rows changed", what)
		}
	}
	nul := "a\x00b"
	for what, change := range map[string]func(*driver.New){
		"kind":    func(n *driver.New) { n.Kind = nul },
		"address": func(n *driver.New) { n.Address = nul },
		"payload": func(n *driver.New) { n.Payload = []byte(nul) },
		"task":    func(n *driver.New) { n.Task = nul },
		"subject": func(n *driver.New) { n.Subject = nul },
		"trace":   func(n *driver.New) { n.Trace = nul },
		"target":  func(n *driver.New) { work(n); n.Target = nul },
		"version": func(n *driver.New) { work(n); n.TargetVersion = nul },
	} {
		_, tx, err := b.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.Insert(t.Context(), []driver.New{message(change)}); err == nil {
			t.Errorf("a NUL was stored in the %s", what)
		}
		tx.Rollback(t.Context())
	}
}

// work makes a message into work.
func work(n *driver.New) {
	n.Profile, n.Address, n.Version, n.Run, n.WorkKey = lifecycle.Work, "", "1", driver.NewID(), "notice"
	n.Operation, n.Actor, n.Tenant, n.SecurityVersion, n.Target, n.TargetVersion = "triage", "staff:7", "tenant:1", "3", "ticket:1", "4"
}

// TestEveryCodeCanBeStored: the list of codes in the table is the closed set, less
// those that are only ever reported.
func TestEveryCodeCanBeStored(t *testing.T) {
	db, s := modernc.Fresh(t, 1)
	ref := store(t, s.Driver(driver.Key{}), message())[0]
	reported := []lifecycle.Code{lifecycle.Fenced, lifecycle.AuthorityMissing, lifecycle.EffectCalledTwice}
	for _, code := range lifecycle.Codes {
		_, err := db.Exec("UPDATE consign_delivery SET code = ? WHERE ref = ?", string(code), ref[:])
		if refused := err != nil; refused != slices.Contains(reported, code) {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// TestViewSpellsItOut: a person with a SQL prompt reads words, not numbers.
func TestViewSpellsItOut(t *testing.T) {
	db, s := modernc.Fresh(t, 1)
	b := s.Driver(driver.Key{})
	ref := store(t, b, message())[0]
	claim(t, b, asking(1))
	rows, err := suite.Rows(t.Context(), db, "SELECT * FROM consign_delivery_words")
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	row := rows[0]
	if row["ref"] != ref.String() || row["status"] != "leased" || row["profile"] != "message" || row["kind"] != "mail" {
		t.Errorf("row %v", row)
	}
	if due, ok := row["due_at"].(string); !ok || !regexp.MustCompile(`^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`).MatchString(due) || strings.HasPrefix(due, "2000") {
		t.Errorf("due at %v", row["due_at"])
	}
}
