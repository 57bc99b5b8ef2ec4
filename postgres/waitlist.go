package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign/internal/driver"
)

var _ driver.Waitlist = (*engine)(nil)

// waitingSQL reads all open messages from their part of the due index (routes that
// begin with "m:") and keeps the first of those that were never started. An index in
// this order would have to hold what a start changes, and every start would write it.
const waitingSQL = `
SELECT w.task, w.task_index, w.ref
FROM (
    SELECT COALESCE(i.task, '') AS task, i.task_index, d.ref
    FROM {s}delivery d
    JOIN {s}intent i ON i.ref BETWEEN d.ref AND d.ref
    WHERE d.due_at IS NOT NULL AND d.route >= 'm:' AND d.route < 'm;'
      AND d.status = 0 AND d.started_at IS NULL
) w
WHERE (w.task, w.task_index, w.ref) > ($1::text, $2::integer, $3::uuid)
ORDER BY w.task, w.task_index, w.ref
LIMIT $4::bigint`

// Waiting returns the messages that were never started, in the order of their turns.
func (e *engine) Waiting(ctx context.Context, after driver.Turn, limit int) ([]driver.Turn, error) {
	var turns []driver.Turn
	args := []any{after.Task, int64(after.Index), after.Ref.String(), int64(max(limit, 0))}
	err := e.read(ctx, "waiting", e.q.waiting, args, func(rows pgx.Rows) error {
		var t driver.Turn
		err := rows.Scan(&t.Task, (*whole)(&t.Index), (*id)(&t.Ref))
		turns = append(turns, t)
		return err
	})
	if err != nil {
		return nil, err
	}
	return turns, nil
}
