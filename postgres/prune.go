package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// lockEndedSQL locks the oldest ended deliveries of one profile. It looks along the
// index of ended deliveries once for each way to end ($1), passing over what waits
// in review, what was erased (the tombstone keeps the ref from being used again)
// and what somebody else has locked.
const lockEndedSQL = `
SELECT c.ref
FROM unnest($1::smallint[]) AS s(terminal) CROSS JOIN LATERAL (
    SELECT d.ref, d.created_at
    FROM {s}delivery d
    WHERE d.profile = $2::smallint AND d.terminal = s.terminal AND d.created_at < $3::timestamptz
      AND d.review_at IS NULL AND d.erased_at IS NULL
    ORDER BY d.created_at, d.ref
    LIMIT $4::bigint
    FOR UPDATE OF d SKIP LOCKED
) c
ORDER BY c.created_at, c.ref
LIMIT $4::bigint`

// pruneSQL removes deliveries that are locked, and all that belongs to them. It is
// a statement of its own, so that it sees the evidence that was appended up to the
// moment of the lock.
const pruneSQL = `
WITH deliveries AS (
    DELETE FROM {s}delivery WHERE ref = ANY ($1::uuid[])
),
intents AS (
    DELETE FROM {s}intent WHERE ref = ANY ($1::uuid[])
),
attempts AS (
    DELETE FROM {s}attempt WHERE ref = ANY ($1::uuid[])
),
resolutions AS (
    DELETE FROM {s}resolution WHERE ref = ANY ($1::uuid[])
)
INSERT INTO {s}setting AS s (name, value)
VALUES ('pruned', cardinality($1::uuid[])::text)
ON CONFLICT (name) DO UPDATE SET value = (s.value::bigint + EXCLUDED.value::bigint)::text`

// Prune removes ended records.
func (e *engine) Prune(ctx context.Context, p lifecycle.Profile, before time.Time, limit int) (int, error) {
	return e.prune(ctx, p, before, limit, nil)
}

// prune is Prune with an audit row, if there is one.
func (e *engine) prune(ctx context.Context, p lifecycle.Profile, before time.Time, limit int, by *driver.Audited) (int, error) {
	if limit <= 0 {
		return 0, nil
	}
	var ends numbers
	for _, s := range lifecycle.Statuses {
		if s.Terminal() {
			ends = append(ends, int64(s))
		}
	}
	var refs uuids
	err := e.inside(ctx, "prune", func(tx pgx.Tx) error {
		args := []any{ends, int64(p), moment(before), int64(limit)}
		err := query(ctx, tx, e.q.lockEnded, args, func(rows pgx.Rows) error {
			var ref driver.ID
			err := rows.Scan((*id)(&ref))
			refs = append(refs, ref)
			return err
		})
		if err != nil || len(refs) == 0 {
			return err
		}
		if err := query(ctx, tx, e.q.prune, []any{refs}, nothing); err != nil {
			return err
		}
		return e.auditRemoved(ctx, tx, by, len(refs))
	})
	if err != nil {
		return 0, err
	}
	return len(refs), nil
}
