package consign_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/consign-go/consign"
)

// countdown is a context that ends when it has been asked for its end so many times.
type countdown struct {
	context.Context
	cancel context.CancelFunc
	left   atomic.Int64
}

func newCountdown(parent context.Context, n int64) *countdown {
	c := &countdown{}
	c.Context, c.cancel = context.WithCancel(parent)
	c.left.Store(n)
	return c
}

func (c *countdown) tick() {
	if c.left.Add(-1) == 0 {
		c.cancel()
	}
}

func (c *countdown) Done() <-chan struct{} { c.tick(); return c.Context.Done() }
func (c *countdown) Err() error            { c.tick(); return c.Context.Err() }

// atEveryMoment calls fn with contexts that end at one moment after the other, until
// one has outlived it.
func atEveryMoment(t *testing.T, fn func(ctx context.Context)) {
	t.Helper()
	for n := int64(1); ; n++ {
		ctx := newCountdown(t.Context(), n)
		fn(ctx)
		ctx.cancel()
		if ctx.left.Load() > 0 || t.Failed() {
			return
		}
	}
}

// Whenever its context ends, a join that fails has left nothing in the caller's
// transaction, or that transaction cannot commit.
func TestJoinCutOffAtAnyMomentLeavesNothing(t *testing.T) {
	onDesk(t, func(t *testing.T, h *host, _ *desk) {
		runs, failed, joined := 0, 0, 0
		atEveryMoment(t, func(ctx context.Context) {
			tx := h.begin(t)
			_, err := tx.JoinUnder(ctx, admit, func(ctx context.Context, run *consign.Run) error {
				_, err := triaged.Enqueue(run, "notice", noticeInput{Ticket: "41"})
				return err
			})
			lost := tx.Exec(`UPDATE {t}ticket SET status = 'seen' WHERE id = 42`) != nil || tx.Commit() != nil
			switch {
			case err != nil:
				failed++
				tx.Rollback()
			case lost:
				t.Errorf("joined, and the transaction is of no use")
			default:
				joined++
			}
			for _, table := range []string{"run", "intent", "audit"} {
				if runs = h.count(t, `SELECT count(*) FROM {s}`+table); runs != joined {
					t.Errorf("%d rows in %s after %d joins; this one: %v", runs, table, joined, err)
				}
			}
		})
		if failed < 3 || joined == 0 {
			t.Errorf("%d failed and %d joined", failed, joined)
		}
	})
}

// Whenever its context ends, a run has committed as a whole or not at all, and says
// which.
func TestRunCutOffAtAnyMomentIsWholeOrNothing(t *testing.T) {
	onDesk(t, func(t *testing.T, h *host, _ *desk) {
		failed, done, unsure := 0, 0, 0
		atEveryMoment(t, func(ctx context.Context) {
			_, err := h.outbox.Run(ctx, admit, func(ctx context.Context, tx *txn, run *consign.Run) error {
				_, err := triaged.Enqueue(run, "notice", noticeInput{Ticket: "41"})
				if err == nil {
					err = tx.Exec(triageSQL)
				}
				return err
			})
			switch {
			case err == nil:
				done++
			case errors.Is(err, consign.ErrUnconfirmed):
				unsure++
			default:
				failed++
			}
			if n := h.count(t, `SELECT lock_version - 1 FROM {t}ticket WHERE id = 41`); n < done || n > done+unsure {
				t.Errorf("the ticket has changed %d times after %d runs and %d unconfirmed ones; this one: %v", n, done, unsure, err)
			}
			if whole := h.count(t, `SELECT count(*) FROM {t}ticket WHERE id = 41 AND lock_version - 1 = (SELECT count(*) FROM {s}run)
				AND lock_version - 1 = (SELECT count(*) FROM {s}intent) AND lock_version - 1 = (SELECT count(*) FROM {s}audit)`); whole != 1 {
				t.Errorf("only a part of a run is there; this one: %v", err)
			}
		})
		if failed < 3 || done == 0 {
			t.Errorf("%d failed and %d done", failed, done)
		}
	})
}
