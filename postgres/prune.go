package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign/internal/lifecycle"
)

// pruneSQL removes the oldest ended records of one profile, and all that belongs
// to them, in one statement. It looks along the index of ended deliveries once for
// each way to end ($1), passing over what waits in review, what was erased (the
// tombstone keeps the ref from being used again) and what somebody has locked.
const pruneSQL = `
WITH old AS MATERIALIZED (
    SELECT o.ref
    FROM (
        SELECT c.ref, c.created_at
        FROM unnest($1::smallint[]) AS s(terminal) CROSS JOIN LATERAL (
            SELECT d.ref, d.created_at
            FROM {s}delivery d
            WHERE d.profile = $2::smallint AND d.terminal = s.terminal AND d.created_at < $3::timestamptz
              AND d.review_at IS NULL AND d.erased_at IS NULL
            ORDER BY d.created_at, d.ref
            LIMIT $4::bigint
            FOR UPDATE OF d SKIP LOCKED
        ) c
    ) o
    ORDER BY o.created_at, o.ref
    LIMIT $4::bigint
),
gone AS (
    DELETE FROM {s}delivery d
    USING old
    WHERE d.ref BETWEEN old.ref AND old.ref
    RETURNING d.ref
),
intents AS (
    DELETE FROM {s}intent i USING gone WHERE i.ref BETWEEN gone.ref AND gone.ref
),
attempts AS (
    DELETE FROM {s}attempt a USING gone WHERE a.ref BETWEEN gone.ref AND gone.ref
),
resolutions AS (
    DELETE FROM {s}resolution r USING gone WHERE r.ref BETWEEN gone.ref AND gone.ref
),
counted AS (
    INSERT INTO {s}setting AS s (name, value)
    SELECT 'pruned', n::text FROM (SELECT count(*) AS n FROM gone) g WHERE n > 0
    ON CONFLICT (name) DO UPDATE SET value = (s.value::bigint + EXCLUDED.value::bigint)::text
)
SELECT count(*) FROM gone`

// Prune removes ended records.
func (e *engine) Prune(ctx context.Context, p lifecycle.Profile, before time.Time, limit int) (int, error) {
	if limit <= 0 {
		return 0, nil
	}
	var ends numbers
	for _, s := range lifecycle.Statuses {
		if s.Terminal() {
			ends = append(ends, int64(s))
		}
	}
	var n int
	args := []any{ends, int64(p), moment(before), int64(limit)}
	err := e.write(ctx, "prune", e.q.prune, args, func(rows pgx.Rows) error { return rows.Scan(&n) })
	return n, err
}
