package sqlite

import (
	"slices"
	"strings"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// A transition becomes one UPDATE. Its text names an indexed column (due_at,
// review_at) only where that changes, since SQLite writes an index anew for each
// column that the text names. All values are bound, so that a batch needs few texts.

// change is an UPDATE under construction: what it sets and what it demands, each
// with the arguments in the order of the text.
type change struct {
	set, where         strings.Builder
	setArgs, whereArgs []any
}

// changeOf says in SQL what t says. digest is the expression that a start binds, with
// its arguments. Only a start sets one: whatever else happens, the core hands back the
// digest that is there.
func changeOf(t *lifecycle.Transition, now int64, program *string, digest string, digestArgs ...any) *change {
	c, set := &change{}, &t.Set
	c.to("status", int64(set.Status))
	if set.Status.Terminal() {
		c.to("terminal", int64(set.Status))
	}
	// What the fence demands is not set again: a constraint that names no column of
	// the text is not run.
	if set.Generation != t.Fence.Generation {
		c.to("generation", set.Generation)
	}
	if set.Owner != t.Fence.Owner {
		c.to("owner", blob(set.Owner))
	}
	c.to("in_flight", flag(set.InFlight))
	c.to("attempts", int64(set.Attempts))
	c.to("crashes", int64(set.Crashes))
	c.to("uncertain", flag(set.Uncertain))
	c.to("code", orNull(string(set.Code)))
	if !t.Fence.Status.Terminal() { // else it stays the time of the end
		c.to("updated_at", now)
	}
	if set.Started {
		c.to("started_at", now)
		c.set.WriteString(", digest = " + digest)
		c.setArgs = append(c.setArgs, digestArgs...)
	}
	if set.SetContract {
		c.contract(&set.Contract)
	}
	c.later("lease_until", set.Lease, set.Lease, now)
	c.later("due_at", set.Due, set.Lease, now)
	c.later("review_at", set.Review, set.Lease, now)
	if set.SetError {
		c.to("last_error", orNull(set.Error))
	}
	if set.Erased {
		c.to("erased_at", now)
		c.set.WriteString(`, gate_task = NULL, gate_index = NULL,
    digest = ifnull(digest, (SELECT i.payload_digest FROM {s}intent i WHERE i.ref = {s}delivery.ref))`)
	}
	if program != nil {
		c.to("program", orNull(*program))
	}
	c.demands(t, now)
	return c
}

func (c *change) to(column string, value any) {
	c.set.WriteString(", " + column + " = ?")
	c.setArgs = append(c.setArgs, value)
}

// contract copies a contract. A deadline that is not set yet counts from the due time.
func (c *change) contract(k *lifecycle.Contract) {
	c.to("retry", int64(k.Retry))
	c.to("idempotent", flag(k.Idempotent))
	for _, column := range contractColumns(k) {
		c.to(column.name, column.value)
	}
	if k.MaxAge > 0 {
		c.set.WriteString(", deadline = ifnull(deadline, due_at + ?)")
		c.setArgs = append(c.setArgs, k.MaxAge.Microseconds())
	}
}

type column struct {
	name  string
	value any
}

// contractColumns are the columns of a contract that may be NULL.
func contractColumns(k *lifecycle.Contract) [4]column {
	columns := [4]column{{name: "lease_ms"}, {name: "timeout_ms"}, {name: "max_attempts"}, {"max_age_ms", millis(k.MaxAge)}}
	if k.Retry != lifecycle.Unclaimed {
		columns[0].value, columns[1].value = k.Lease.Milliseconds(), k.Timeout.Milliseconds()
	}
	if k.MaxAttempts != 0 {
		columns[2].value = int64(k.MaxAttempts)
	}
	return columns
}

// later changes a stored time; lease is what becomes of the lease in the same write.
func (c *change) later(column string, to, lease lifecycle.Change, now int64) {
	if to == lifecycle.AtLeaseEnd {
		if lease == lifecycle.Keep {
			c.set.WriteString(", " + column + " = lease_until")
			return
		}
		to = lease
	}
	switch {
	case to == lifecycle.Keep:
	case to == lifecycle.Clear:
		c.set.WriteString(", " + column + " = NULL")
	case column == "due_at": // capped, so that the passing of the deadline is noticed in time
		at := after(now, to)
		c.set.WriteString(", due_at = CASE WHEN deadline < ? THEN deadline ELSE ? END")
		c.setArgs = append(c.setArgs, at, at)
	default:
		c.to(column, after(now, to))
	}
}

// after is the time that a change says, in microseconds.
func after(now int64, to lifecycle.Change) int64 { return now + int64(to)/1000 }

// demands is what must be so for t to change anything.
func (c *change) demands(t *lifecycle.Transition, now int64) {
	c.where.WriteString(" AND status = ? AND generation = ? AND revision = ? AND owner IS ?")
	f := &t.Fence
	c.whereArgs = append(c.whereArgs, int64(f.Status), f.Generation, f.Revision, blob(f.Owner))
	if left := t.Require.LeaseLeft; left > 0 {
		c.where.WriteString(" AND lease_until >= ?")
		c.whereArgs = append(c.whereArgs, now+(int64(left)+999)/1000)
	}
	if t.Require.DeadlineLeft {
		c.where.WriteString(" AND (deadline IS NULL OR deadline > ?)")
		c.whereArgs = append(c.whereArgs, now)
	}
}

// The table is updated by its primary key whatever the planner thinks of the rest.
// Where a row is refused, those before it stay changed (OR FAIL): the transaction is
// undone as a whole, and SQLite need not keep a copy of each page for the statement,
// unless that calls a function.
const (
	setSQL    = ` SET revision = revision + 1`
	updateSQL = `UPDATE OR FAIL {s}delivery INDEXED BY sqlite_autoindex_{s}delivery_1` + setSQL
	updateAt  = `UPDATE OR FAIL {s}delivery NOT INDEXED` + setSQL
	byEach    = ` WHERE ref = ?`
)

// one changes one row.
func (c *change) one(ref driver.ID) (string, []any) {
	args := append(c.setArgs, ref[:])
	return updateSQL + c.set.String() + byEach + c.where.String(), append(args, c.whereArgs...)
}

// stretch changes those rows alike that a word marks: its lowest bit stands for the row
// first of the table, and so on. To go through a part of the table costs less than to
// look for each row. refs, if not nil, are compared: 16 bytes for each row.
func (c *change) stretch(first, last int64, marks uint64, refs []byte) (string, []any) {
	args := append(c.setArgs, first, last, int64(marks), first)
	where := " WHERE rowid BETWEEN ? AND ? AND (? >> (rowid - ?)) & 1"
	if refs != nil {
		where += " AND ref = substr(?, (rowid - ?) * 16 + 1, 16)"
		args = append(args, refs, first)
	}
	return updateAt + c.set.String() + where + c.where.String(), append(args, c.whereArgs...)
}

// A start among many travels as the ref of its row and the digest that it binds, in one.
const (
	boundRef    = "substr(v.d, 1, 16)"
	boundDigest = "nullif(substr(v.d, 17), x'')"
)

func bound(t *lifecycle.Transition) []byte {
	if t.Set.Digest == (lifecycle.Digest{}) {
		return t.Ref[:]
	}
	return slices.Concat(t.Ref[:], t.Set.Digest[:])
}

// all changes up to size rows alike, which keys names: by their rows in the table, or
// by refs. With a start each key is followed by what is bound. Where there are refs,
// they must be those of the rows: which of the rows is whose makes no difference there.
func (c *change) all(keys, refs []any, size int, byRow, started bool) (string, []any) {
	update, key := updateSQL, "ref"
	if byRow {
		update, key = updateAt, "rowid"
	}
	list := func(each string) string { return each + strings.Repeat(", "+each, size-1) }
	args := make([]any, 0, len(c.setArgs)+2*size+len(c.whereArgs))
	fill := func(keys []any, n int) { args = append(args, keys...)[:len(args)+n] } // NULL is equal to none
	if started {
		fill(keys, 2*size)
		args = append(append(args, c.setArgs...), c.whereArgs...)
		return "WITH v(k, d) AS (VALUES " + list("(?, ?)") + ") " + update + c.set.String() + " FROM v WHERE " + key + " = v.k AND ref = " +
			boundRef + c.where.String(), args
	}
	args = append(args, c.setArgs...)
	fill(keys, size)
	where := " WHERE " + key + " IN (" + list("?") + ")"
	if len(refs) > 0 {
		fill(refs, size)
		where += " AND ref IN (" + list("?") + ")"
	}
	return update + c.set.String() + where + c.where.String(), append(args, c.whereArgs...)
}
