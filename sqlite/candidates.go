package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Since only one connection writes at a time, a claim reads candidates under the
// write lock and lets lifecycle decide about each: the decision is the core's own
// and no copy of it in SQL. The conditions here only keep rows away that the core
// would refuse. They may be wider than its own, never narrower.

// claimableSQL is true of a delivery d that a claim may take. ?1 is the database's
// now, ?2 the route, ?3 and ?4 the position to go on behind, ?5 whether the request
// brings a contract, ?6 the crash budget, ?7 by when the lease of a started delivery
// must have ended, ?8 by when the delivery must be due. {suspect} is true of suspects,
// or of all others: it comes first, because a look for suspects goes over everything
// that is due.
const claimableSQL = `d.route = ?2 AND d.due_at IS NOT NULL AND d.due_at <= ?8 AND (d.due_at, d.ref) > (?3, ?4)
    AND {suspect} AND (d.lease_until IS NULL OR d.lease_until <= ?1) AND (d.deadline IS NULL OR d.deadline > ?1)
    AND CASE d.status
        WHEN 0 THEN d.retry <> 0 OR ?5
        WHEN 1 THEN d.crashes + 1 < ?6
        ELSE d.retry = 2 AND d.idempotent AND d.lease_until <= ?7
            AND (d.max_attempts IS NULL OR d.attempts + (d.profile = 2 AND d.in_flight) < d.max_attempts)
        END
    AND ` + gateSQL

const (
	isSuspectSQL = `(d.status = 1 OR d.crashes > 0)`
	noSuspectSQL = `d.status <> 1 AND d.crashes = 0`
)

// Indexes are named, so that no statistics, fresh or stale, change a plan.
const (
	byDue      = ` FROM {s}delivery d INDEXED BY {i}delivery_due`
	byRef      = ` FROM {s}delivery d INDEXED BY sqlite_autoindex_{s}delivery_1`
	withIntent = ` CROSS JOIN {s}intent i INDEXED BY sqlite_autoindex_{s}intent_1 ON i.ref = d.ref`
	inOrder    = ` ORDER BY d.due_at, d.ref`
	ofRefs     = ` AND d.ref IN ({refs})`
)

// selection is a pair of queries with one list of columns.
type selection struct {
	due, refs string
	width     int
}

var (
	claims = selection{
		due:   `SELECT ` + claimColumns + `, ` + intentColumns + byDue + withIntent + ` WHERE ` + claimableSQL + inOrder,
		refs:  `SELECT ` + claimColumns + `, ` + intentColumns + byRef + withIntent + ` WHERE ` + claimableSQL + ofRefs,
		width: stateWidth + intentWidth,
	}
	dues = selection{
		due:   `SELECT ` + claimColumns + byDue + ` WHERE ` + claimableSQL + inOrder,
		refs:  `SELECT ` + claimColumns + byRef + ` WHERE ` + claimableSQL + ofRefs,
		width: stateWidth,
	}
)

// candidate is a delivery that may be claimed, and how. It is used again for the next.
type candidate struct {
	stored
	values []any // of the row
	before lifecycle.State
	claim  lifecycle.Transition
}

// candidates calls fn for each delivery that r may claim at now, in the order of due
// time per route, until the limits are reached. The order gate is the one before any
// of them is taken: taking a lower index of a task keeps the gate of a higher one as
// closed as it was.
func (q selection) candidates(ctx context.Context, s *session, r *driver.ClaimRequest, now int64, fn func(c *candidate) error) error {
	r, err := s.resolved(ctx, r, now)
	if err != nil {
		return err
	}
	all := r.Limit
	if all <= 0 {
		all = math.MaxInt
	}
	for i := range r.Routes {
		route := &r.Routes[i]
		left := min(route.Limit, all)
		if left <= 0 {
			continue
		}
		event := lifecycle.Event{Kind: lifecycle.EvClaim, Owner: r.Owner, Contract: route.Contract}
		var c candidate
		err := q.rows(ctx, s, r, route, now, func(v []any) (bool, error) {
			c.stored, c.values = readState(v), v
			c.before = c.at(now)
			if c.claim = r.Policy.Apply(c.before, event); c.claim.Answer != lifecycle.Apply {
				return true, nil
			}
			c.claim.Ref = c.ref
			left--
			all--
			return left > 0, fn(&c)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// nextSQL finds what stands next in a task behind an index: two rows, so that there
// is word of a second one with the same index.
const nextSQL = `SELECT g.ref FROM {s}delivery g INDEXED BY {i}delivery_gate
WHERE g.gate_task = ?2 AND g.gate_index > ?3 AND ` + standsSQL + `
ORDER BY g.gate_index LIMIT 2`

// resolved is r with what stands next in its tasks as refs.
func (s *session) resolved(ctx context.Context, r *driver.ClaimRequest, now int64) (*driver.ClaimRequest, error) {
	if len(r.Next) == 0 {
		return r, nil
	}
	found := *r
	found.Refs, found.Next = nil, nil
	for _, p := range r.Next {
		err := s.query(ctx, nextSQL, []any{now, p.Task, int64(p.Index)}, 1, func(v []any) (bool, error) {
			found.Refs = append(found.Refs, bytes16(v[0]))
			return true, nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(found.Refs) == 0 {
		found.Routes = nil // no refs would mean any
	}
	return &found, nil
}

// rows calls fn for the rows of one route, those of r.Refs alone where it names any.
func (q selection) rows(ctx context.Context, s *session, r *driver.ClaimRequest, route *driver.RouteLimit, now int64,
	fn func(v []any) (bool, error)) error {
	after := int64(0)
	if !route.After.DueAt.IsZero() {
		after = micros(route.After.DueAt)
	}
	until := now
	if !route.Until.IsZero() {
		until = min(now, micros(route.Until))
	}
	args := []any{
		now, route.Route, after, route.After.Ref[:], flag(route.Contract.Retry != lifecycle.Unclaimed),
		int64(r.Policy.CrashBudget), now - r.Policy.SettleMargin.Microseconds(), until,
	}
	suspect := isSuspectSQL
	if !r.Suspects {
		suspect = noSuspectSQL
	}
	if len(r.Refs) == 0 {
		return s.query(ctx, strings.Replace(q.due, "{suspect}", suspect, 1), args, q.width, fn)
	}
	var rows [][]any
	err := s.queryRefs(ctx, strings.Replace(q.refs, "{suspect}", suspect, 1), args, r.Refs, q.width, func(v []any) error {
		rows = append(rows, kept(v))
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(rows, func(a, b []any) int {
		x, y := bytes16(a[0]), bytes16(b[0])
		return cmp.Or(cmp.Compare(whole(a[dueColumn]), whole(b[dueColumn])), bytes.Compare(x[:], y[:]))
	})
	for _, v := range rows {
		if more, err := fn(v); err != nil || !more {
			return err
		}
	}
	return nil
}

// refsPerQuery is how many refs one statement names at most. Shorter lists are
// filled up with NULL, so that a call prepares one statement and not one per length.
const refsPerQuery = 100

var placeholders = "?" + strings.Repeat(", ?", refsPerQuery-1)

// queryRefs runs a query for each part of refs, every one of them once. {refs} in
// the query is where they go; it stands behind all other parameters.
func (s *session) queryRefs(ctx context.Context, query string, args []any, refs []driver.ID, columns int, fn func(v []any) error) error {
	query = strings.Replace(query, "{refs}", placeholders, 1)
	refs = slices.Clone(refs)
	slices.SortFunc(refs, func(a, b driver.ID) int { return bytes.Compare(a[:], b[:]) })
	for part := range slices.Chunk(slices.Compact(refs), refsPerQuery) {
		all := make([]any, len(args)+refsPerQuery)
		copy(all, args)
		for i := range part {
			all[len(args)+i] = part[i][:]
		}
		err := s.query(ctx, query, all, columns, func(v []any) (bool, error) { return true, fn(v) })
		if err != nil {
			return err
		}
	}
	return nil
}
