package postgres

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign/internal/driver"
)

var _ driver.Elapser = (*engine)(nil)

// elapseSQL moves times back by {d}. It is for tests, so nothing waits for a disk.
// The server's clock is not to be moved; to who looks at the rows this is the same.
const elapseSQL = `
SET LOCAL synchronous_commit = off;
UPDATE {s}delivery
SET created_at = created_at - {d}, deadline = deadline - {d}, due_at = due_at - {d}, updated_at = updated_at - {d},
    lease_until = lease_until - {d}, started_at = started_at - {d}, review_at = review_at - {d}, erased_at = erased_at - {d};
UPDATE {s}attempt SET started_at = started_at - {d}, at = at - {d};
UPDATE {s}resolution SET at = at - {d};
UPDATE {s}run SET created_at = created_at - {d}, sealed_at = sealed_at - {d};
UPDATE {s}approval
SET created_at = created_at - {d}, expires_at = expires_at - {d}, decided_at = decided_at - {d}, consumed_at = consumed_at - {d};
UPDATE {s}program SET started_at = started_at - {d}, heartbeat_at = heartbeat_at - {d};
UPDATE {s}pause SET at = at - {d}`

// Elapse moves all times back.
func (e *engine) Elapse(ctx context.Context, d time.Duration) error {
	interval := "interval '" + strconv.FormatInt(d.Microseconds(), 10) + " microseconds'"
	statements := strings.ReplaceAll(e.expand(elapseSQL), "{d}", interval)
	// Statements that are sent together are one transaction.
	_, err := e.pool.Exec(ctx, statements, pgx.QueryExecModeSimpleProtocol)
	return clean("elapse", err)
}
