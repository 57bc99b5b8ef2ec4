package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// changed are the updates of the delivery table inside one transaction.
type changed struct{ rows, heapOnly int }

// counting runs one engine statement in a transaction of the test's own, where the
// server's counters can be read at once, and commits it.
func (d *database) counting(t *testing.T, sql string, args []any, each func(pgx.Rows) error) changed {
	t.Helper()
	var before, after changed
	read := func(tx pgx.Tx, c *changed) error {
		return tx.QueryRow(t.Context(), d.expand(`SELECT pg_stat_get_xact_tuples_updated('{s}delivery'::regclass),
			pg_stat_get_xact_tuples_hot_updated('{s}delivery'::regclass)`)).Scan(&c.rows, &c.heapOnly)
	}
	err := d.engine.inside(t.Context(), "test", func(tx pgx.Tx) error {
		if err := read(tx, &before); err != nil { // what this session did before counts too
			return err
		}
		if err := query(t.Context(), tx, sql, args, each); err != nil {
			return err
		}
		return read(tx, &after)
	})
	if err != nil {
		t.Fatal(err)
	}
	return changed{after.rows - before.rows, after.heapOnly - before.heapOnly}
}

// TestClaimAndStartAreHeapOnly: neither a claim nor a start writes an index, so
// that only the end of a delivery does. A batch rewrites every row of a page in one
// transaction, and each page has the room.
func TestClaimAndStartAreHeapOnly(t *testing.T) {
	for name, rows := range map[string][]driver.New{
		"messages": messages(1000),
		"work":     works(1000),
		"gated": func() []driver.New {
			rows := messages(1000)
			for i := range rows {
				rows[i].Task = rows[i].Ref.String() // the first of its task
			}
			return rows
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			d.insert(t, rows...)
			r := request(rows[0].Route(), len(rows))
			args, _ := asked(&r)
			args = append(args, uuid(driver.ID(r.Owner)), "worker-7.example.org")
			claim := d.counting(t, d.q.claim, args, nothing)
			if claim.rows != len(rows) || claim.heapOnly != claim.rows {
				t.Errorf("of %d claimed rows %d were heap-only", claim.rows, claim.heapOnly)
			}
			claimed, err := d.Held(t.Context(), r)
			if err != nil || len(claimed) != len(rows) {
				t.Fatal(len(claimed), err)
			}
			// The room of what the claim left behind is reused once nobody can see it
			// any more; a background process may look at just that moment.
			start := d.counting(t, d.q.plain, plainOf(starts(claimed)).args(), nothing)
			if start.rows != len(rows) || start.heapOnly < start.rows*9/10 {
				t.Errorf("of %d started rows %d were heap-only", start.rows, start.heapOnly)
			}
		})
	}
}

// changesOf is all of ts as the columns of a statement.
func changesOf(ts []lifecycle.Transition) *changes {
	order, err := ordered(ts)
	if err != nil {
		panic(err)
	}
	return columns(ts, order)
}

// plainOf is all of ts as the columns of a plain statement.
func plainOf(ts []lifecycle.Transition) *plainChanges {
	order, err := ordered(ts)
	if err != nil {
		panic(err)
	}
	return plainColumns(ts, order)
}

// works is n pieces of work of one run.
func works(n int) []driver.New {
	rows, run := make([]driver.New, n), driver.NewID()
	for i := range rows {
		rows[i] = work("tickets.closed", run, driver.NewID().String())
	}
	return rows
}

// TestHeapOnlyOneByOne: the same of single rows, whatever may happen to them
// before their end.
func TestHeapOnlyOneByOne(t *testing.T) {
	d := open(t)
	n := message("mail", webhook, 200)
	d.insert(t, n)
	c := d.take(t, n.Ref)
	for _, step := range []struct {
		event    lifecycle.EventKind
		heapOnly bool
	}{
		{lifecycle.EvStart, true},
		{lifecycle.EvSucceeded, false}, // it leaves the due index
	} {
		x := decide(t, c, lifecycle.Event{Kind: step.event})
		got := d.counting(t, d.q.plain, plainOf([]lifecycle.Transition{x}).args(), nothing)
		if got.rows != 1 || (got.heapOnly == 1) != step.heapOnly {
			t.Errorf("%s: %d rows, %d heap-only", step.event, got.rows, got.heapOnly)
		}
		c = after(c, &x)
	}
}
