package consign_test

import (
	"context"
	"errors"
	"testing"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/approval"
)

// SQLite ends a transaction by itself after some errors, and what comes then is no
// part of one: each statement commits alone. Nothing is enqueued, run or proposed
// in a transaction that has ended so.
func TestNothingIsWrittenOnceSQLiteHasEndedTheTransaction(t *testing.T) {
	h := onSQLite(t, consign.Options{Authority: &deskOn[any]{desk: &desk{}}})
	end := func(tx *txn) {
		t.Helper()
		if tx.Exec(`INSERT OR ROLLBACK INTO ticket VALUES (41, 'again', 1)`) == nil {
			t.Fatal("the conflict was not noticed")
		}
	}
	work := func(_ context.Context, run *consign.Run) error {
		_, err := triaged.Enqueue(run, "notice", noticeInput{Ticket: "41"})
		return err
	}
	m := consign.Message{Channel: "crm", Payload: map[string]any{"a": 1}}
	for name, call := range map[string]func(tx *txn) error{
		"enqueue":     func(tx *txn) error { end(tx); _, err := tx.Enqueue(m); return err },
		"enqueue all": func(tx *txn) error { end(tx); _, err := tx.EnqueueAll([]consign.Message{m, m}); return err },
		"propose": func(tx *txn) error {
			end(tx)
			_, err := tx.Propose(approval.Proposal{Admission: admit, Proposer: robot})
			return err
		},
		"join": func(tx *txn) error { end(tx); _, err := tx.Join(admit, work); return err },
		"enqueue another": func(tx *txn) error {
			_, first := tx.Enqueue(m)
			end(tx)
			_, err := tx.Enqueue(m)
			return errors.Join(first, err)
		},
		"join that is ended in": func(tx *txn) error {
			_, err := tx.Join(admit, func(ctx context.Context, run *consign.Run) error { end(tx); return work(ctx, run) })
			return err
		},
	} {
		tx := h.begin(t)
		if err := call(tx); !errors.Is(err, consign.ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", name, err)
		}
		if tx.Commit() == nil {
			t.Errorf("%s: committed", name)
		}
		tx.Rollback()
		leftNothing(t, h)
	}
	_, err := h.outbox.Run(t.Context(), admit, func(ctx context.Context, tx *txn, run *consign.Run) error { end(tx); return work(ctx, run) })
	if !errors.Is(err, consign.ErrClosed) {
		t.Errorf("run: %v, want ErrClosed", err)
	}
	leftNothing(t, h)
	if n := h.count(t, `SELECT count(*) FROM {s}approval`); n != 0 {
		t.Errorf("%d approvals were proposed", n)
	}
	if _, err := runTriage(t, h, admit); err != nil {
		t.Errorf("the next run: %v", err)
	}
}

// A script that ends the transaction by itself leaves pgx with one that is none.
func TestNothingIsWrittenOnceAScriptHasEndedTheTransaction(t *testing.T) {
	h := onPostgres(t, consign.Options{Authority: &deskOn[any]{desk: &desk{}}})
	for name, call := range map[string]func(tx *txn) error{
		"enqueue": func(tx *txn) error {
			_, err := tx.Enqueue(consign.Message{Channel: "crm", Payload: map[string]any{"a": 1}})
			return err
		},
		"join": func(tx *txn) error {
			_, err := tx.Join(admit, func(context.Context, *consign.Run) error { return nil })
			return err
		},
		"propose": func(tx *txn) error {
			_, err := tx.Propose(approval.Proposal{Admission: admit, Proposer: robot})
			return err
		},
	} {
		tx := h.begin(t)
		if err := tx.Exec(`COMMIT`); err != nil {
			t.Fatal(err)
		}
		if err := call(tx); !errors.Is(err, consign.ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", name, err)
		}
		tx.Rollback()
		leftNothing(t, h)
	}
}
