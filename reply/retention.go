package reply

import (
	"context"
	"strconv"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/lifecycle"
)

// pruneBatch is how many replies one transaction of a deletion removes.
const pruneBatch = 1000

// DeleteOlderThan removes the messages that ended and were created strictly before
// t, in batches of 1,000, and returns how many, also where it fails on the way.
// Pending and delivering ones stay however old they are, and so do failed ones that
// may have arrived until a person has resolved them.
//
// Errors: ErrInvalid where t is not in the years 1 to 9999, ErrClosed, ErrSchema, or
// the database's own.
func (o *Outbox[TX]) DeleteOlderThan(ctx context.Context, t time.Time) (int, error) {
	const op = "delete older than"
	if y := t.UTC().Year(); y < 1 || y > 9999 {
		return 0, &consign.Error{Op: op, Err: consign.ErrInvalid, Faults: []consign.Fault{
			{Field: "time", Rule: "year " + strconv.Itoa(y) + ", limit 1 to 9999"},
		}}
	}
	if err := o.ready(ctx, op); err != nil {
		return 0, err
	}
	removed := 0
	for {
		n, err := o.bound.Prune(ctx, lifecycle.Message, t, pruneBatch)
		removed += n
		if err != nil || n < pruneBatch {
			return removed, failure(op, err)
		}
	}
}

// PurgeSessions erases every message of these sessions, one or many, whatever its
// status, and returns how many. The payload, the recipient and every text go at once,
// all in one transaction; nothing of it is sent afterwards, and whoever is just
// sending one is fenced. What stays is a record without content, so that the ID
// cannot be used again. Work and runs of the same subject are erased too.
//
// IDs are compared as they are. Blank ones match nothing; without any, nothing is
// touched. Errors: ErrClosed, ErrSchema, or the database's own.
func (o *Outbox[TX]) PurgeSessions(ctx context.Context, sessions ...string) (int, error) {
	const op = "purge sessions"
	if len(sessions) == 0 {
		return 0, nil
	}
	if err := o.ready(ctx, op); err != nil {
		return 0, err
	}
	n, err := o.bound.Erase(ctx, sessions)
	return n, failure(op, err)
}
