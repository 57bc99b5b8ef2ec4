package postgres

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// buffers runs a statement, undoes what it did, and returns how many pages it looked
// at.
func (d *database) buffers(t *testing.T, sql string, args []any) int {
	t.Helper()
	tx, err := d.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), pinSQL); err != nil {
		t.Fatal(err)
	}
	var raw string
	for i, literal := range sqlLiterals(args) {
		_ = i
		_ = literal
	}
	name := "s" + driver.NewID().String()[:8]
	name = "probe"
	if _, err := tx.Exec(t.Context(), "PREPARE "+name+" AS "+sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	defer tx.Exec(t.Context(), "DEALLOCATE probe")
	call := "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE " + name + "(" + strings.Join(sqlLiterals(args), ", ") + ")"
	if err := tx.QueryRow(t.Context(), call, pgx.QueryExecModeSimpleProtocol).Scan(&raw); err != nil {
		t.Fatal(err)
	}
	tx.Exec(t.Context(), "DEALLOCATE probe")
	var top []struct{ Plan node }
	if err := json.Unmarshal([]byte(raw), &top); err != nil {
		t.Fatal(err)
	}
	if testing.Verbose() {
		t.Log(raw)
	}
	return top[0].Plan.Hit + top[0].Plan.Read
}

func TestX(t *testing.T) {
	d := open(t)
	rows := messages(5000)
	for i := range rows {
		rows[i].Task, rows[i].Index = "a", i
	}
	d.insert(t, rows...)
	r := request("m:mail", 100)
	step := driver.Step{Task: "a", Index: -1}
	for i := range 4000 {
		r.Next = []driver.Step{step}
		r.Owner = token()
		if i%500 == 3 {
			args, _ := asked(&r)
			t.Log(i, d.buffers(t, d.q.claimNext, append(args, uuid(driver.ID(r.Owner)), "worker")))
		}
		claimed, err := d.Claim(t.Context(), r)
		if err != nil || len(claimed) != 1 {
			t.Fatal(len(claimed), err)
		}
		ts := starts(claimed)
		if held, err := d.Apply(t.Context(), ts); err != nil || !held[0] {
			t.Fatal(held, err)
		}
		c := after(claimed[0], &ts[0])
		ts = transitionsOf([]driver.Claimed{c}, func(c *driver.Claimed) lifecycle.Event {
			return lifecycle.Event{Kind: lifecycle.EvSucceeded, Owner: c.State.Owner, Generation: c.State.Generation, Attempt: 1}
		})
		if held, err := d.Apply(t.Context(), ts); err != nil || !held[0] {
			t.Fatal(held, err)
		}
		step.Index = claimed[0].Intent.Index
	}
}
