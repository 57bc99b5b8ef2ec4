package sqlite

import (
	"context"
	"time"

	"github.com/consign-go/consign/internal/driver"
)

var _ driver.Elapser = (*engine)(nil)

// elapseSQL move times back by ?1. It is for tests: the clock of the machine is not
// to be moved, and to who looks at the rows this is the same.
var elapseSQL = []string{
	`UPDATE {s}delivery
SET created_at = created_at - ?1, deadline = deadline - ?1, due_at = due_at - ?1, updated_at = updated_at - ?1,
    lease_until = lease_until - ?1, started_at = started_at - ?1, review_at = review_at - ?1, erased_at = erased_at - ?1`,
	`UPDATE {s}attempt SET started_at = started_at - ?1, at = at - ?1`,
	`UPDATE {s}resolution SET at = at - ?1`,
	`UPDATE {s}run SET created_at = created_at - ?1, sealed_at = sealed_at - ?1`,
	`UPDATE {s}approval
SET created_at = created_at - ?1, expires_at = expires_at - ?1, decided_at = decided_at - ?1, consumed_at = consumed_at - ?1`,
	`UPDATE {s}program SET started_at = started_at - ?1, heartbeat_at = heartbeat_at - ?1`,
	`UPDATE {s}pause SET at = at - ?1`,
}

// Elapse moves all times back.
func (e *engine) Elapse(ctx context.Context, d time.Duration) error {
	return e.write(ctx, "elapse", func(ctx context.Context, w *writer) error {
		for _, statement := range elapseSQL {
			if _, err := w.exec(ctx, statement, d.Microseconds()); err != nil {
				return err
			}
		}
		return nil
	})
}
