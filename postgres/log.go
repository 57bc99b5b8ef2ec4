package postgres

import (
	"bytes"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// appendSQL keeps late evidence. It takes a share lock on the delivery, which is
// what an erasure has to wait for: without it the text could arrive between the
// erasure's look at the log and its commit, and stay. Of what was erased before,
// the text is left out; of what was pruned, the row.
const appendSQL = `
WITH locked AS MATERIALIZED (
    SELECT l.*, d.erased_at
    FROM unnest($1::uuid[], $2::bigint[], $3::integer[], $4::smallint[], $5::text[], $6::text[],
                $7::integer[], $8::bigint[], $9::smallint[], $10::timestamptz[], $11::text[])
         AS l(ref, generation, number, outcome, code, error, http_status, wait_ms, late, started_at, proof)
    JOIN {s}delivery d ON d.ref BETWEEN l.ref AND l.ref
    FOR SHARE OF d
)
INSERT INTO {s}attempt (ref, generation, number, outcome, code, error, http_status, wait_ms, late, started_at, proof, at)
SELECT ref, generation, number, outcome, code, CASE WHEN erased_at IS NULL THEN error END,
       NULLIF(http_status, 0), NULLIF(wait_ms, 0), late <> 0, started_at,
       CASE WHEN erased_at IS NULL THEN proof END, clock_timestamp()
FROM locked
ON CONFLICT DO NOTHING`

// Append keeps late evidence.
func (e *engine) Append(ctx context.Context, rows []driver.Logged) error {
	if len(rows) == 0 {
		return nil
	}
	return e.write(ctx, "append", e.q.appendLate, logArgs(rows), nothing)
}

// nothing is for statements that return no rows.
func nothing(pgx.Rows) error { return nil }

// logArgs are log rows as the parameters of appendSQL, in the order of refs, as
// every batch of writes locks its rows.
func logArgs(rows []driver.Logged) []any {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b driver.Logged) int { return bytes.Compare(a.Ref[:], b.Ref[:]) })
	n := len(rows)
	refs, code, text, proof, started := make(uuids, n), make(texts, n), make(texts, n), make(texts, n), make(moments, n)
	generation, number, outcome := make(numbers, n), make(numbers, n), make(numbers, n)
	status, wait, late := make(numbers, n), make(numbers, n), make(numbers, n)
	for i := range rows {
		a := &rows[i].Attempt
		refs[i], started[i], proof[i] = rows[i].Ref, rows[i].StartedAt, a.Proof
		generation[i], number[i], outcome[i] = a.Generation, int64(a.Number), int64(a.Outcome)
		code[i], text[i], status[i], wait[i] = string(a.Code), a.Error, int64(a.HTTPStatus), a.Wait.Milliseconds()
		if a.Late {
			late[i] = 1
		}
	}
	return []any{refs, generation, number, outcome, code, text, status, wait, late, started, proof}
}

// historySQL reads the log of one delivery by the head of its primary key.
const historySQL = `
SELECT generation, number, late, outcome, http_status, wait_ms, started_at, at, code, error, proof
FROM {s}attempt
WHERE ref = $1::uuid
ORDER BY at, generation, number, late`

// History returns the attempt log of ref, oldest first.
func (e *engine) History(ctx context.Context, ref driver.ID) ([]driver.Logged, error) {
	var log []driver.Logged
	err := e.read(ctx, "history", e.q.history, []any{uuid(ref)}, func(rows pgx.Rows) error {
		l := driver.Logged{Ref: ref}
		err := rows.Scan(&l.Generation, (*whole)(&l.Number), &l.Late, (*small[lifecycle.Outcome])(&l.Outcome),
			(*whole)(&l.HTTPStatus), (*millis)(&l.Wait), (*instant)(&l.StartedAt), (*instant)(&l.At),
			(*words[lifecycle.Code])(&l.Code), (*words[string])(&l.Error), (*words[string])(&l.Proof))
		log = append(log, l)
		return err
	})
	if err != nil {
		return nil, err
	}
	return log, nil
}
