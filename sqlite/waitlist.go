package sqlite

import (
	"context"

	"github.com/consign-go/consign/internal/driver"
)

var _ driver.Waitlist = (*engine)(nil)

// waitingSQL reads all open messages from their part of the due index (routes that
// begin with "m:") and keeps the first of those that were never started. An index in
// this order would have to hold what a start changes, and every start would write it.
const waitingSQL = `SELECT ifnull(i.task, '') AS task, i.task_index, d.ref
FROM {s}delivery d INDEXED BY {i}delivery_due
CROSS JOIN {s}intent i INDEXED BY sqlite_autoindex_{s}intent_1 ON i.ref = d.ref
WHERE d.due_at IS NOT NULL AND d.route >= 'm:' AND d.route < 'm;' AND d.status = 0 AND d.started_at IS NULL
    AND (ifnull(i.task, ''), i.task_index, d.ref) > (?, ?, ?)
ORDER BY 1, 2, 3 LIMIT ?`

// Waiting returns the messages that were never started, in the order of their turns.
func (e *engine) Waiting(ctx context.Context, after driver.Turn, limit int) ([]driver.Turn, error) {
	var turns []driver.Turn
	err := e.read(ctx, "waiting", func(ctx context.Context, s *session) error {
		turns = nil
		args := []any{after.Task, int64(after.Index), after.Ref[:], int64(max(limit, 0))}
		return s.query(ctx, waitingSQL, args, 3, func(v []any) (bool, error) {
			turns = append(turns, driver.Turn{Task: text(v[0]), Index: int(whole(v[1])), Ref: bytes16(v[2])})
			return true, nil
		})
	})
	if err != nil {
		return nil, err
	}
	return turns, nil
}
