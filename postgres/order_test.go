package postgres

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign/internal/driver"
)

// pages runs a statement, undoes what it did, and returns how many pages it looked at.
func (d *database) pages(t *testing.T, sql string, args []any) int {
	t.Helper()
	tx, err := d.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	for _, s := range []string{pinSQL, "PREPARE probe AS " + sql} {
		if _, err := tx.Exec(t.Context(), s, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	var raw string
	call := "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE probe(" + strings.Join(sqlLiterals(args), ", ") + ")"
	err = tx.QueryRow(t.Context(), call, pgx.QueryExecModeSimpleProtocol).Scan(&raw)
	if err == nil {
		_, err = tx.Exec(t.Context(), "DEALLOCATE probe")
	}
	var top []struct{ Plan node }
	if err == nil {
		err = json.Unmarshal([]byte(raw), &top)
	}
	if err != nil {
		t.Fatal(err)
	}
	return top[0].Plan.Hit + top[0].Plan.Read
}

// TestNextOfATaskCostsTheSameHoweverLongItIs: what stands next in a task is found
// without a step over what waits in that task and in others, while a claim of
// whatever is due takes all of those steps.
func TestNextOfATaskCostsTheSameHoweverLongItIs(t *testing.T) {
	next, due := map[int]int{}, map[int]int{}
	for _, length := range []int{100, 5000} {
		d := open(t)
		rows := messages(length)
		for i := range rows {
			rows[i].Task, rows[i].Index = "a", i
		}
		d.insert(t, rows...)
		r := request("m:mail", 100)
		claimed, err := d.Claim(t.Context(), r)
		if err != nil || len(claimed) != 1 {
			t.Fatal(len(claimed), err)
		}
		ts := starts(claimed)
		if held, err := d.Apply(t.Context(), ts); err != nil || !held[0] {
			t.Fatal(held, err)
		}
		ts = successes([]driver.Claimed{after(claimed[0], &ts[0])})
		if held, err := d.Apply(t.Context(), ts); err != nil || !held[0] {
			t.Fatal(held, err)
		}
		owner := []any{uuid(driver.ID(r.Owner)), "worker"}
		args, _ := asked(&r)
		due[length] = d.pages(t, d.q.claim, append(args, owner...))
		r.Next = []driver.Step{{Task: "a", Index: claimed[0].Intent.Index}}
		args, _ = asked(&r)
		next[length] = d.pages(t, d.q.claimNext, append(args, owner...))
	}
	t.Logf("pages by length: the next of a task %v, whatever is due %v", next, due)
	if next[5000] > next[100]+10 {
		t.Errorf("pages of a claim of the next by length: %v", next)
	}
	if due[5000] < 5000 {
		t.Errorf("pages of a claim of what is due by length: %v: this test shows nothing", due)
	}
}
