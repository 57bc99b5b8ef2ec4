package consign_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/pgtest"
)

// A drain delivers with no transaction open, and no connection held: with a pool of
// one, the effects of a drain write through the very same pool.
func TestDrainDeliversWithNoTransactionOpen(t *testing.T) {
	var write func() error
	o := consign.Options{Channels: []consign.Channel{{Name: "crm", Deliver: func(context.Context, consign.Message, consign.Attempt) error {
		return write()
	}}}}
	test := func(t *testing.T, h *host) {
		write = func() error {
			written := make(chan error, 1)
			go func() {
				tx := h.begin(t)
				written <- errors.Join(tx.Exec(`UPDATE {t}ticket SET lock_version = lock_version + 1 WHERE id = 41`), tx.Commit())
			}()
			select {
			case err := <-written:
				return err
			case <-time.After(patience):
				return errors.New("no connection, or no lock, was to be had")
			}
		}
		refs := commitMessages(t, h, "crm", 6)
		results, err := h.outbox.Drain(t.Context(), 0)
		if err != nil || len(results) != len(refs) {
			t.Errorf("%d results, %v", len(results), err)
		}
		for _, r := range results {
			if !r.Success() {
				t.Errorf("%s is %s %s: its effect could not write", r.Ref, r.Status, r.Code)
			}
		}
		if n := h.count(t, `SELECT lock_version FROM {t}ticket WHERE id = 41`); n != 1+len(refs) {
			t.Errorf("%d writes", n-1)
		}
	}
	t.Run("postgres", func(t *testing.T) {
		pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
		test(t, onPostgresSchema(t, pool, pgtest.Schema(t), o))
	})
	t.Run("sqlite", func(t *testing.T) { test(t, onSQLiteFile(t, filepath.Join(t.TempDir(), "one.db"), o)) })
}

// A scan and a drain make one pass and leave no goroutine behind, also where
// something was put off.
func TestScanAndDrainLeaveNothingRunning(t *testing.T) {
	busy := func(context.Context, consign.Message, consign.Attempt) error {
		return consign.Refused(errors.New("busy"), 0)
	}
	o := consign.Options{Channels: []consign.Channel{{Name: "crm", Retry: consign.OnSchedule, Waits: []time.Duration{time.Hour}, Deliver: busy}}}
	onEveryStore(t, o, func(t *testing.T, h *host) {
		refs := commitMessages(t, h, "crm", 5)
		before := goleak.IgnoreCurrent()
		var q queue
		if n, err := h.outbox.Scan(t.Context(), &q, 0); err != nil || n != len(refs) {
			t.Errorf("scan pushed %d: %v", n, err)
		}
		results, err := h.outbox.Drain(t.Context(), 0)
		if err != nil || len(results) != len(refs) {
			t.Errorf("drain: %d, %v", len(results), err)
		}
		goleak.VerifyNone(t, before)
		for _, r := range results {
			if r.Status != consign.StatusPending {
				t.Errorf("%s is %s, want one attempt and no more", r.Ref, r.Status)
			}
		}
	})
}
