package postgres

import (
	"errors"
	"slices"
	"testing"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// TestCodesAreAClosedSet: the table takes every code that a delivery can have, and
// no other.
func TestCodesAreAClosedSet(t *testing.T) {
	d := open(t)
	n := message("mail", webhook, 100)
	d.insert(t, n)
	reported := []lifecycle.Code{lifecycle.Fenced, lifecycle.AuthorityMissing, lifecycle.EffectCalledTwice}
	for _, code := range append(slices.Clone(lifecycle.Codes), "", "NO_SUCH_CODE", "rejected") {
		_, err := d.pool.Exec(t.Context(), d.expand("UPDATE {s}delivery SET code = $2 WHERE ref = $1"), n.Ref.String(), string(code))
		want := slices.Contains(lifecycle.Codes, code) && !slices.Contains(reported, code)
		if (err == nil) != want {
			t.Errorf("code %q is stored: %v, want %v (%v)", code, err == nil, want, err)
		}
	}
}

// TestAuditIsAppendOnly: what was noted is never changed.
func TestAuditIsAppendOnly(t *testing.T) {
	d := open(t)
	d.exec(t, "INSERT INTO {s}audit (at, made_by, action) VALUES (now(), 'user:1', 'run')")
	for _, set := range []string{"made_by = 'user:2'", "action = 'cancel'", "at = now()", "reason = 'because'"} {
		if _, err := d.pool.Exec(t.Context(), d.expand("UPDATE {s}audit SET ")+set); err == nil {
			t.Errorf("%s was accepted", set)
		}
	}
}

// TestWordsForPeople: the view spells every number out.
func TestWordsForPeople(t *testing.T) {
	d := open(t)
	n := message("mail", webhook, 100)
	d.insert(t, n)
	got := one[string](t, d, "SELECT profile || ' ' || kind || ' ' || status FROM {s}delivery_words WHERE ref = $1", n.Ref.String())
	if got != "message mail pending" {
		t.Errorf("the view says %q", got)
	}
	words := one[[]string](t, d, `SELECT array_agg(pg_get_viewdef('{s}delivery_words'::regclass) LIKE '%' || w || '%' AND w <> ''
		ORDER BY w)::text[] FROM unnest($1::text[]) w`, names(lifecycle.Statuses))
	if slices.Contains(words, "false") {
		t.Errorf("the view lacks a status: %v", words)
	}
}

func names(statuses []lifecycle.Status) []string {
	var out []string
	for _, s := range statuses {
		out = append(out, s.String())
	}
	return out
}

// TestTransactionThatWasEndedByAStatement: pgx does not know of it, and what is
// written next would be committed at once, alone.
func TestTransactionThatWasEndedByAStatement(t *testing.T) {
	d := open(t)
	for _, end := range []string{"COMMIT", "ROLLBACK"} {
		raw, err := d.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		tx := d.bound.Join(raw)
		if _, err := raw.Exec(t.Context(), end); err != nil {
			t.Fatal(err)
		}
		if err := tx.Insert(t.Context(), []driver.New{message("mail", webhook, 100)}); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("%s: %v", end, err)
		}
		if _, err := tx.Savepoint(t.Context()); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("%s: savepoint: %v", end, err)
		}
		raw.Rollback(t.Context())
		if n := one[int](t, d, "SELECT count(*)::int FROM {s}intent"); n != 0 {
			t.Errorf("%s: %d intents are committed", end, n)
		}
	}
}
