package postgres

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// A claim is put together from these parts, which Due shares.
//
// clock is the one instant that the whole statement goes by. It is a sub-select,
// so that it is read once and can bound an index scan, and clock_timestamp, so
// that it is now even where the transaction is old. asked is the request: one row
// a route.
const askedSQL = `
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at),
asked AS (
    SELECT *
    FROM unnest($1::text[], $2::integer[], $3::timestamptz[], $4::uuid[],
                $5::smallint[], $6::smallint[], $7::integer[], $8::integer[], $9::integer[], $10::bigint[], $11::timestamptz[])
         AS r(route, n, after_due, after_ref, retry, idempotent, max_attempts, lease_ms, timeout_ms, max_age_ms, until)
)`

// standsSQL holds of an open row l that higher indexes of its task wait for:
// pending, leased, delivering under a lease that is not over, or, until somebody has
// ended it, with attempts left: it may still be claimed again after a crash, or be
// given back by an owner who writes late that it was refused.
const standsSQL = `l.terminal IS NULL
                  AND (l.status < 2
                       OR l.lease_until > (SELECT at FROM clock)
                       OR l.retry = 2
                          AND (l.deadline IS NULL OR l.deadline > (SELECT at FROM clock))
                          AND (l.max_attempts IS NULL
                               OR l.attempts + CASE WHEN l.profile = 2 AND l.in_flight THEN 1 ELSE 0 END < l.max_attempts))`

// gateSQL holds where no lower index of the task of d stands before it. It is an
// EXISTS under an OR, which the planner can only run as a look into the gate's index
// for the row at hand.
const gateSQL = `(d.gate_task IS NULL OR NOT EXISTS (
                SELECT FROM {s}delivery l
                WHERE l.gate_task = d.gate_task AND l.gate_index < d.gate_index AND ` + standsSQL + `))`

// claimableSQL is lifecycle's answer to EvClaim as a condition on a row d of the
// due index, where r is the request for its route: $12 asks for suspects, $13 is
// the crash budget and $14 the settle margin in microseconds. Status 0 is T2, 1
// is T2b and 2 is T2c.
const claimableSQL = `
          AND (d.deadline IS NULL OR d.deadline > (SELECT at FROM clock))
          AND (d.crashes > 0 OR d.status = 1) = $12::boolean
          AND CASE d.status
                  WHEN 0 THEN d.retry <> 0 OR r.retry <> 0
                  WHEN 1 THEN d.lease_until <= (SELECT at FROM clock) AND d.crashes + 1 < $13::integer
                  ELSE d.retry = 2 AND d.idempotent
                       AND d.lease_until <= (SELECT at FROM clock) - $14::bigint * interval '1 microsecond'
                       AND (d.max_attempts IS NULL
                            OR d.attempts + CASE WHEN d.profile = 2 AND d.in_flight THEN 1 ELSE 0 END < d.max_attempts)
              END
          AND ` + gateSQL

// byDueSQL finds the candidates of a route in the order of the due index, behind
// the position that the caller has come to. Behind one it passes over rows that
// somebody has locked or changed since they were written (xmax), without trying to
// lock them: that takes a lock of its own to be refused, or the row judged once more,
// and where several programs claim, every claim comes upon those of all others. What
// a claim that was undone has left locked in this sense is found from the front.
const byDueSQL = `
        WHERE d.route = r.route
          AND d.due_at <= LEAST(r.until, (SELECT at FROM clock))
          AND (d.due_at, d.ref) > (COALESCE(r.after_due, '-infinity'),
                                   COALESCE(r.after_ref, '00000000-0000-0000-0000-000000000000'))
          AND (r.after_due IS NULL OR d.xmax = '0'::xid)` + claimableSQL + `
        ORDER BY d.due_at, d.ref
        LIMIT r.n`

// byRefSQL finds them among given refs. The due time is wrapped, so that the due
// index cannot be used: it would be walked for rows that were not asked for.
const byRefSQL = `
        WHERE d.ref = ANY ($16::uuid[])` + ofRouteSQL

// nextSQL finds what stands next in each task behind an index: two rows, so that
// there is word of a second one with the same index. What stands before nobody, as
// what is stranded, is passed over, as gateSQL does. It is found once for all
// routes, since the next message may be on any.
const nextSQL = `,
next AS MATERIALIZED (
    SELECT DISTINCT l.ref, l.route
    FROM unnest($16::text[], $17::integer[]) AS t(task, place) CROSS JOIN LATERAL (
        SELECT l.ref, l.route
        FROM {s}delivery l
        WHERE l.gate_task = t.task AND l.gate_index > t.place AND ` + standsSQL + `
        ORDER BY l.gate_index
        LIMIT 2
    ) l
)`

// byNextSQL finds the candidates among those.
const byNextSQL = `
        JOIN next n ON n.route = r.route AND d.ref BETWEEN n.ref AND n.ref
        WHERE true` + ofRouteSQL

// ofRouteSQL is what rows found by key have to be to be candidates of a route.
const ofRouteSQL = `
          AND d.route = r.route
          AND COALESCE(d.due_at, 'infinity') <= LEAST(r.until, (SELECT at FROM clock))
          AND (COALESCE(d.due_at, 'infinity'), d.ref) > (COALESCE(r.after_due, '-infinity'),
                                   COALESCE(r.after_ref, '00000000-0000-0000-0000-000000000000'))` + claimableSQL + `
        ORDER BY COALESCE(d.due_at, 'infinity'), d.ref
        LIMIT r.n`

// takenHeadSQL and takenTailSQL stand around one of the three searches. The search
// runs once a route, so that a limit per route is a limit on what is looked at.
// Rows that another claim has locked are passed over; those that changed while
// they were being locked are judged again by what they are now. What the rows were
// is kept for the log of crashes.
const takenHeadSQL = `,
taken AS MATERIALIZED (
    SELECT c.*, r.retry, r.idempotent, r.max_attempts, r.lease_ms, r.timeout_ms, r.max_age_ms
    FROM asked r CROSS JOIN LATERAL (
        SELECT d.ref, d.ctid AS place, d.status, d.generation, d.started_at, d.attempts,
               CASE WHEN d.status = 2 AND d.profile = 2 AND d.in_flight THEN 1 ELSE 0 END AS spent,
               CASE WHEN d.profile = 1 THEN d.attempts ELSE d.attempts + 1 END AS number
        FROM {s}delivery d`

// The update finds its rows where they were when they were locked, which is a sixth
// of the claim cheaper than by key. A row that changed just before it was locked is
// somewhere else, out of this statement's sight, and left to the next claim. Intents
// are reached by primary key, one nested loop over what was taken (BETWEEN: see
// pinSQL).
// The contract is copied where the creating program lacked it (retry 0). An
// attempt that was in flight is logged as crashed in the same statement (T2c).
const takenTailSQL = `
        FOR NO KEY UPDATE OF d SKIP LOCKED
    ) c
    LIMIT $15::bigint
),
crashed AS (
    INSERT INTO {s}attempt (ref, generation, number, outcome, code, started_at, at)
    SELECT t.ref, t.generation, t.number, 6, 'OUTCOME_UNKNOWN', t.started_at, (SELECT at FROM clock)
    FROM taken t
    WHERE t.status = 2
    ON CONFLICT DO NOTHING
)
UPDATE {s}delivery d
SET status = 1,
    generation = d.generation + 1,
    revision = d.revision + 1,
    owner = {owner}::uuid,
    program = {program}::text,
    in_flight = false,
    attempts = d.attempts + t.spent,
    crashes = d.crashes + CASE d.status WHEN 1 THEN 1 ELSE 0 END,
    uncertain = d.uncertain OR d.status = 2,
    lease_until = (SELECT at FROM clock)
                  + CASE d.retry WHEN 0 THEN t.lease_ms ELSE d.lease_ms END * interval '1 millisecond',
    updated_at = (SELECT at FROM clock),
    retry = CASE d.retry WHEN 0 THEN t.retry ELSE d.retry END,
    idempotent = CASE d.retry WHEN 0 THEN t.idempotent <> 0 ELSE d.idempotent END,
    max_attempts = CASE d.retry WHEN 0 THEN NULLIF(t.max_attempts, 0) ELSE d.max_attempts END,
    lease_ms = CASE d.retry WHEN 0 THEN t.lease_ms ELSE d.lease_ms END,
    timeout_ms = CASE d.retry WHEN 0 THEN t.timeout_ms ELSE d.timeout_ms END,
    max_age_ms = CASE d.retry WHEN 0 THEN NULLIF(t.max_age_ms, 0) ELSE d.max_age_ms END,
    deadline = CASE WHEN d.retry = 0 AND d.deadline IS NULL
                    THEN d.due_at + NULLIF(t.max_age_ms, 0) * interval '1 millisecond'
                    ELSE d.deadline END
FROM taken t
JOIN {s}intent i ON i.ref BETWEEN t.ref AND t.ref
WHERE d.ctid = t.place
RETURNING ` + claimedColumns + `, ` + intentColumns

// claimSQL takes from the front of each route, or from behind a position.
var claimSQL = numbered(askedSQL+takenHeadSQL+byDueSQL+takenTailSQL, 16)

// claimRefsSQL takes given refs only ($16).
var claimRefsSQL = numbered(askedSQL+takenHeadSQL+byRefSQL+takenTailSQL, 17)

// claimNextSQL takes only what stands next in given tasks ($16, $17).
var claimNextSQL = numbered(askedSQL+nextSQL+takenHeadSQL+byNextSQL+takenTailSQL, 18)

// numbered fills in which parameters the owner and the program are.
func numbered(sql string, owner int) string {
	return strings.NewReplacer("{owner}", "$"+strconv.Itoa(owner), "{program}", "$"+strconv.Itoa(owner+1)).Replace(sql)
}

const dueHeadSQL = `
SELECT c.ref
FROM asked r CROSS JOIN LATERAL (
        SELECT d.ref
        FROM {s}delivery d`

const dueTailSQL = `
) c LIMIT $15::bigint`

// dueSQL, dueRefsSQL and dueNextSQL look for what the three claims would take.
const (
	dueSQL     = askedSQL + dueHeadSQL + byDueSQL + dueTailSQL
	dueRefsSQL = askedSQL + dueHeadSQL + byRefSQL + dueTailSQL
	dueNextSQL = askedSQL + nextSQL + dueHeadSQL + byNextSQL + dueTailSQL
)

// heldSQL finds what an owner holds. The owner is in no index, because a claim
// would then have to write one, so this walks what is due of each route; it is
// asked only after the answer to a claim was lost.
const heldSQL = `
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at)
SELECT ` + stateColumns + `, ` + gateSQL + `, ` + intentColumns + `
FROM unnest($1::text[]) AS r(route)
CROSS JOIN LATERAL (
    SELECT *
    FROM {s}delivery d
    WHERE d.route = r.route AND d.due_at <= (SELECT at FROM clock) AND d.owner = $2::uuid AND d.status = 1
    OFFSET 0
) d
JOIN {s}intent i ON i.ref BETWEEN d.ref AND d.ref`

// Claim takes deliveries for r.Owner.
func (e *engine) Claim(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	if r.Owner == (lifecycle.Token{}) {
		return nil, errors.New("claim: no owner")
	}
	args, room := asked(&r)
	if room == 0 {
		return nil, nil
	}
	sql := search(&r, e.q.claim, e.q.claimRefs, e.q.claimNext)
	args = append(args, uuid(driver.ID(r.Owner)), text(r.Program))
	taken := r.Room[:0]
	if err := e.write(ctx, "claim", sql, args, newClaimedRow(r.Owner).collect(&taken)); err != nil {
		return nil, err
	}
	return taken, nil
}

// Held returns what r.Owner holds.
func (e *engine) Held(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	routes := make(texts, len(r.Routes))
	for i := range r.Routes {
		routes[i] = r.Routes[i].Route
	}
	var held []driver.Claimed
	args := []any{array(routes, len(routes)), uuid(driver.ID(r.Owner))}
	if err := e.read(ctx, "held", e.q.held, args, newRow().collect(&held)); err != nil {
		return nil, err
	}
	return held, nil
}

// collect appends each row to a list.
func (r *row) collect(list *[]driver.Claimed) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		if err := r.scan(rows); err != nil {
			return err
		}
		*list = append(*list, driver.Claimed{Intent: r.intent, State: r.state(), DueAt: r.dueAt})
		return nil
	}
}

// Due returns refs that Claim would take.
func (e *engine) Due(ctx context.Context, r driver.ClaimRequest) ([]driver.ID, error) {
	args, room := asked(&r)
	if room == 0 {
		return nil, nil
	}
	sql := search(&r, e.q.due, e.q.dueRefs, e.q.dueNext)
	var refs []driver.ID
	err := e.read(ctx, "due", sql, args, func(rows pgx.Rows) error {
		var ref driver.ID
		err := rows.Scan((*[16]byte)(&ref))
		refs = append(refs, ref)
		return err
	})
	if err != nil {
		return nil, err
	}
	return refs, nil
}

// asked is r as the parameters that claims and Due share, and how much it asks
// for altogether.
func asked(r *driver.ClaimRequest) (args []any, room int) {
	n := len(r.Routes)
	routes, limits, dues, refs, untils := make(texts, n), make(numbers, n), make(moments, n), make(uuids, n), make(moments, n)
	var contracts contractColumns
	contracts.grow(n)
	for i := range r.Routes {
		l := &r.Routes[i]
		routes[i], limits[i] = l.Route, int64(max(l.Limit, 0))
		dues[i], refs[i], untils[i] = l.After.DueAt, l.After.Ref, l.Until
		contracts.set(i, &l.Contract)
		room += max(l.Limit, 0)
	}
	if r.Limit > 0 {
		room = min(room, r.Limit)
	}
	args = []any{array(routes, n), array(limits, n), array(dues, n), array(refs, n)}
	args = append(args, contracts.args(n)...)
	args = append(args, array(untils, n), r.Suspects, int64(r.Policy.CrashBudget), r.Policy.SettleMargin.Microseconds(), int64(room))
	switch {
	case len(r.Next) > 0:
		tasks, places := make(texts, len(r.Next)), make(numbers, len(r.Next))
		for i, p := range r.Next {
			tasks[i], places[i] = p.Task, int64(p.Index)
		}
		args = append(args, array(tasks, len(tasks)), array(places, len(places)))
	case len(r.Refs) > 0:
		args = append(args, uuids(r.Refs))
	}
	return args, room
}

// search is the one of three statements that r asks for.
func search(r *driver.ClaimRequest, byDue, byRef, byNext string) string {
	switch {
	case len(r.Next) > 0:
		return byNext
	case len(r.Refs) > 0:
		return byRef
	}
	return byDue
}

// contractColumns are contracts as columns: retry, idempotent, max_attempts,
// lease_ms, timeout_ms, max_age_ms.
type contractColumns [6]numbers

func (c *contractColumns) grow(n int) {
	for i := range c {
		c[i] = make(numbers, n)
	}
}

func (c *contractColumns) set(i int, k *lifecycle.Contract) {
	values := [6]int64{
		int64(k.Retry), 0, int64(k.MaxAttempts), k.Lease.Milliseconds(), k.Timeout.Milliseconds(), k.MaxAge.Milliseconds(),
	}
	if k.Idempotent {
		values[1] = 1
	}
	for column, v := range values {
		c[column][i] = v
	}
}

func (c *contractColumns) args(n int) []any {
	args := make([]any, len(c))
	for i := range c {
		args[i] = array(c[i], n)
	}
	return args
}

// microseconds is d in the unit of stored times, rounded up: what must remain is
// never less than what was asked for.
func microseconds(d time.Duration) int64 {
	us := d.Microseconds()
	if time.Duration(us)*time.Microsecond < d {
		us++
	}
	return us
}
