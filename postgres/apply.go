package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// applySQL compares and sets any number of deliveries, whatever becomes of each:
// starts and settles of one moment share it, which costs the least write-ahead
// log. It decides nothing.
//
// w is one row for each transition, put together from one array a column. Most of
// a transition is yes or no or one of a few, so that travels as the bits of one
// number (see bit* in Go); an array of which no row needs a value is NULL and
// costs nothing. The log row of a change travels beside it and is written where the
// change held: to be joined later, it would have to be found again.
//
// Only the primary key can find the rows, one after the other: the conditions name
// no column that leads another index, nothing repeats the predicate of a partial
// one, and BETWEEN keeps the planner from turning the join around (see pinSQL).
// clock_timestamp is not wrapped here on purpose. It is read again for a row that
// was waited for, so that a start cannot hold on the lease that there was before.
const applySQL = `
WITH done AS (
    UPDATE {s}delivery d
    SET status = w.to_status,
        terminal = CASE WHEN w.to_status >= 3 THEN w.to_status END,
        generation = d.generation + COALESCE(w.rise, 0),
        revision = d.revision + 1,
        owner = CASE WHEN w.keep_owner THEN d.owner ELSE w.new_owner END,
        in_flight = w.in_flight,
        uncertain = w.uncertain,
        attempts = COALESCE(w.attempts, 0),
        crashes = COALESCE(w.crashes, 0),
        digest = COALESCE(w.digest, d.digest),
        code = w.code,
        retry = CASE WHEN w.set_contract THEN w.retry ELSE d.retry END,
        idempotent = CASE WHEN w.set_contract THEN w.idempotent <> 0 ELSE d.idempotent END,
        max_attempts = CASE WHEN w.set_contract THEN NULLIF(w.max_attempts, 0) ELSE d.max_attempts END,
        lease_ms = CASE WHEN w.set_contract THEN w.lease_ms ELSE d.lease_ms END,
        timeout_ms = CASE WHEN w.set_contract THEN w.timeout_ms ELSE d.timeout_ms END,
        max_age_ms = CASE WHEN w.set_contract THEN NULLIF(w.max_age_ms, 0) ELSE d.max_age_ms END,
        deadline = CASE WHEN w.set_contract AND d.deadline IS NULL
                        THEN d.due_at + NULLIF(w.max_age_ms, 0) * interval '1 millisecond'
                        ELSE d.deadline END,
        due_at = CASE w.due WHEN 0 THEN d.due_at WHEN 1 THEN NULL WHEN 3 THEN d.lease_until
                            ELSE LEAST(clock_timestamp() + COALESCE(w.due_in, 0) * interval '1 microsecond', d.deadline) END,
        lease_until = CASE w.lease WHEN 0 THEN d.lease_until WHEN 1 THEN NULL
                                   ELSE clock_timestamp() + COALESCE(w.lease_in, 0) * interval '1 microsecond' END,
        review_at = CASE w.review WHEN 0 THEN d.review_at WHEN 1 THEN NULL WHEN 3 THEN d.lease_until
                                  ELSE clock_timestamp() + COALESCE(w.review_in, 0) * interval '1 microsecond' END,
        started_at = CASE WHEN w.started THEN clock_timestamp() ELSE d.started_at END,
        erased_at = CASE WHEN w.erased THEN clock_timestamp() ELSE d.erased_at END,
        gate_task = CASE WHEN w.erased THEN NULL ELSE d.gate_task END,
        gate_index = CASE WHEN w.erased THEN NULL ELSE d.gate_index END,
        last_error = CASE WHEN w.set_error THEN w.error ELSE d.last_error END,
        updated_at = CASE WHEN d.terminal IS NULL THEN clock_timestamp() ELSE d.updated_at END
    FROM (
        SELECT u.*,
               (u.bits & 7)::smallint AS from_status,
               (u.bits >> 3 & 7)::smallint AS to_status,
               u.bits & 64 <> 0 AS in_flight,
               u.bits & 128 <> 0 AS uncertain,
               u.bits & 256 <> 0 AS keep_owner,
               u.bits & 512 <> 0 AS need_deadline,
               u.bits & 1024 <> 0 AS started,
               u.bits & 2048 <> 0 AS set_error,
               u.bits & 4096 <> 0 AS erased,
               u.bits & 8192 <> 0 AS set_contract,
               u.bits >> 14 & 3 AS due,
               u.bits >> 16 & 3 AS lease,
               u.bits >> 18 & 3 AS review
        FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::uuid[], $5::integer[],
                    $6::integer[], $7::integer[], $8::bigint[], $9::uuid[], $10::bytea[], $11::text[], $12::text[],
                    $13::bigint[], $14::bigint[], $15::bigint[],
                    $16::bigint[], $17::smallint[], $18::smallint[], $19::integer[], $20::integer[], $21::integer[], $22::bigint[],
                    $23::smallint[], $24::integer[], $25::text[], $26::text[], $27::integer[], $28::bigint[],
                    $29::bigint[], $30::smallint[], $31::text[])
             WITH ORDINALITY
             AS u(ref, generation, revision, owner, bits,
                  attempts, crashes, need_lease, new_owner, digest, code, error,
                  due_in, lease_in, review_in,
                  rise, retry, idempotent, max_attempts, lease_ms, timeout_ms, max_age_ms,
                  outcome, number, log_code, log_error, http_status, wait_ms, log_rise, late, proof, n)
    ) w
    WHERE d.ref BETWEEN w.ref AND w.ref
      AND d.revision = w.revision
      AND d.generation = w.generation
      AND d.status = w.from_status
      AND d.owner IS NOT DISTINCT FROM w.owner
      AND (COALESCE(w.need_lease, 0) = 0
           OR d.lease_until >= clock_timestamp() + w.need_lease * interval '1 microsecond')
      AND (NOT w.need_deadline OR d.deadline IS NULL OR d.deadline > clock_timestamp())
    RETURNING w.n, d.ref, w.generation + COALESCE(w.log_rise, 0) AS generation, w.outcome, w.number,
              w.log_code, w.log_error, w.http_status, w.wait_ms, COALESCE(w.late, 0) <> 0 AS late, w.proof,
              CASE w.from_status WHEN 2 THEN d.started_at END AS started_at
),
logged AS (
    INSERT INTO {s}attempt (ref, generation, number, outcome, code, error, http_status, wait_ms, late, started_at, proof, at)
    SELECT ref, generation, number, outcome, log_code, log_error, NULLIF(http_status, 0), NULLIF(wait_ms, 0), late,
           started_at, proof, clock_timestamp()
    FROM done
    WHERE outcome <> 0
    ON CONFLICT DO NOTHING
)
SELECT n FROM done`

// What a transition says in bits, as applySQL takes them apart.
const (
	bitFrom         = 0 // three bits: the status that must be
	bitTo           = 3 // three bits: the status that is set
	bitInFlight     = 1 << 6
	bitUncertain    = 1 << 7
	bitKeepOwner    = 1 << 8
	bitNeedDeadline = 1 << 9
	bitStarted      = 1 << 10
	bitSetError     = 1 << 11
	bitErased       = 1 << 12
	bitSetContract  = 1 << 13
	bitDue          = 14 // two bits each: keep, clear, in so long, at the end of the lease
	bitLease        = 16
	bitReview       = 18
)

// Apply compares and sets ts in one write.
func (e *engine) Apply(ctx context.Context, ts []lifecycle.Transition) (held []bool, err error) {
	if slices.ContainsFunc(ts, func(t lifecycle.Transition) bool { return t.Set.Erased }) {
		err = e.inside(ctx, "apply", func(tx pgx.Tx) error {
			held, err = e.set(ctx, tx, ts)
			return err
		})
	} else {
		held, err = e.compareAndSet(ctx, ts)
	}
	if err != nil {
		return nil, err
	}
	return held, nil
}

// compareAndSet writes what needs nothing but one or two statements.
func (e *engine) compareAndSet(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
	order, err := ordered(ts)
	if err != nil {
		return nil, err
	}
	held := make([]bool, len(ts))
	var plains, others []int
	for _, i := range order {
		if plain(&ts[i]) {
			plains = append(plains, i)
		} else {
			others = append(others, i)
		}
	}
	var all []statement
	for part := range slices.Chunk(plains, mostListed) {
		all = append(all, statement{e.q.plain, plainColumns(ts, part).args(), marker(held, part)})
	}
	if len(others) > 0 {
		all = append(all, statement{e.q.apply, columns(ts, others).args(), marker(held, others)})
	}
	if len(all) == 0 {
		return held, nil
	}
	return held, clean("apply", e.roundTrip(ctx, beginWrite, all...))
}

// set applies ts inside tx, and removes the content of what it erases.
func (e *engine) set(ctx context.Context, tx pgx.Tx, ts []lifecycle.Transition) ([]bool, error) {
	held := make([]bool, len(ts))
	order, err := ordered(ts)
	if err != nil || len(order) == 0 {
		return held, err
	}
	if err := query(ctx, tx, e.q.apply, columns(ts, order).args(), marker(held, order)); err != nil {
		return nil, err
	}
	return held, e.forget(ctx, tx, ts, held)
}

// marker notes which rows of a statement held.
func marker(held []bool, order []int) func(pgx.Rows) error {
	var n int64
	target := []any{&n}
	return func(rows pgx.Rows) error {
		err := rows.Scan(target...)
		if err == nil {
			held[order[n-1]] = true
		}
		return err
	}
}

// ordered is where in ts the transitions are that are to be applied, by their refs:
// two batches that meet then lock their rows in one order, and do not deadlock.
func ordered(ts []lifecycle.Transition) ([]int, error) {
	order := make([]int, 0, len(ts))
	for i := range ts {
		if ts[i].Answer == lifecycle.Apply {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return bytes.Compare(ts[a].Ref[:], ts[b].Ref[:]) })
	for n := 1; n < len(order); n++ {
		if ref := ts[order[n]].Ref; ref == ts[order[n-1]].Ref {
			return nil, fmt.Errorf("apply: ref %s appears twice", driver.ID(ref))
		}
	}
	return order, nil
}

// columns are the transitions at some places of ts as the columns of a statement.
func columns(ts []lifecycle.Transition, order []int) *changes {
	var c changes
	c.grow(len(order))
	for row, i := range order {
		c.set(row, &ts[i])
	}
	return &c
}
