package postgres

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// An erasure is several statements in one transaction, because each has to see
// what was committed while the one before it waited for a row. Once the deliveries
// are locked nobody adds to what belongs to them: starts, settles and late evidence
// all lock the delivery first.

// lockSubjectsSQL locks the deliveries of some subjects, in the order of refs, as
// every batch of writes does.
const lockSubjectsSQL = `
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at)
SELECT ` + stateColumns + `, true
FROM {s}delivery d
WHERE d.ref = ANY (ARRAY(SELECT i.ref FROM {s}intent i WHERE i.subject = ANY ($1::text[])))
  AND d.erased_at IS NULL
ORDER BY d.ref
FOR UPDATE OF d`

// forgetSQL removes what is left of the content once the deliveries are marked as
// erased. The tombstone keeps the payload's digest where no request was bound.
const forgetSQL = `
WITH gone AS (
    DELETE FROM {s}intent WHERE ref = ANY ($1::uuid[]) RETURNING ref, payload_digest
),
kept AS (
    UPDATE {s}delivery d SET digest = gone.payload_digest
    FROM gone
    WHERE d.ref BETWEEN gone.ref AND gone.ref AND d.digest IS NULL
),
attempts AS (
    UPDATE {s}attempt SET error = NULL, proof = NULL
    WHERE ref = ANY ($1::uuid[]) AND (error IS NOT NULL OR proof IS NOT NULL)
)
UPDATE {s}resolution SET evidence = NULL WHERE ref = ANY ($1::uuid[]) AND evidence IS NOT NULL`

// forgetPeopleSQL removes the content of runs and approvals; that they took place
// stays on record. The time of an approval that was not consumed is over: without
// its target it would fit a run that creates one.
const forgetPeopleSQL = `
WITH runs AS (
    UPDATE {s}run SET subject = NULL, receipt = NULL WHERE subject = ANY ($1::text[])
)
UPDATE {s}approval
SET subject = NULL, target = NULL, input = NULL, reason = NULL, decision = NULL,
    expires_at = CASE WHEN status IN (0, 1) THEN LEAST(expires_at, clock_timestamp()) ELSE expires_at END
WHERE subject = ANY ($1::text[])`

// eraseBatch is how many deliveries one statement of an erasure writes.
const eraseBatch = 1000

// Erase removes the content of what belongs to subjects.
func (e *engine) Erase(ctx context.Context, subjects []string) (int, error) {
	return e.erase(ctx, subjects, nil)
}

// erase is Erase with an audit row, if there is one.
func (e *engine) erase(ctx context.Context, subjects []string, by *driver.Audited) (int, error) {
	var named texts
	for _, s := range subjects {
		if strings.TrimSpace(s) != "" {
			named = append(named, s)
		}
	}
	if len(named) == 0 {
		return 0, nil
	}
	erased := 0
	err := e.inside(ctx, "erase", func(tx pgx.Tx) error {
		// Again and again until nothing is left: whoever had a delivery locked may have
		// sent it again, with its content, and this statement cannot see the copy that
		// was committed while it waited.
		erased = 0
		for {
			n, err := e.erasePass(ctx, tx, named)
			if erased += n; err != nil {
				return err
			}
			if n == 0 {
				break
			}
		}
		if err := query(ctx, tx, e.q.forgets, []any{named}, nothing); err != nil {
			return err
		}
		return e.auditRemoved(ctx, tx, by, erased)
	})
	if err != nil {
		return 0, err
	}
	return erased, nil
}

// erasePass erases what is there now.
func (e *engine) erasePass(ctx context.Context, tx pgx.Tx, named texts) (int, error) {
	var marks []lifecycle.Transition
	row := newStateRow()
	err := query(ctx, tx, e.q.lockSubjects, []any{named}, func(rows pgx.Rows) error {
		if err := row.scan(rows); err != nil {
			return err
		}
		t := lifecycle.DefaultPolicy.Apply(row.state(), lifecycle.Event{Kind: lifecycle.EvErase})
		t.Ref = row.ref
		marks = append(marks, t)
		return nil
	})
	if err != nil {
		return 0, err
	}
	for part := range slices.Chunk(marks, eraseBatch) {
		if _, err := e.set(ctx, tx, part); err != nil {
			return 0, err
		}
	}
	return len(marks), nil
}

// forget removes the content of those of ts that held and erase.
func (e *engine) forget(ctx context.Context, tx pgx.Tx, ts []lifecycle.Transition, held []bool) error {
	var refs uuids
	for i := range ts {
		if held[i] && ts[i].Set.Erased {
			refs = append(refs, driver.ID(ts[i].Ref))
		}
	}
	if len(refs) == 0 {
		return nil
	}
	return query(ctx, tx, e.q.forget, []any{refs}, nothing)
}
