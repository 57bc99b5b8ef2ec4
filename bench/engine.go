package bench

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/consign-go/consign/internal/canon"
	"github.com/consign-go/consign/internal/dispatch"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Engine is the measure of what the engine spends beside its store.
const Engine = "engine"

// The subjects of it.
const (
	EngineAlone  = "engine and handler, beside the store"
	Handler      = "of which the handler"
	HandlerLarge = "the handler with a large payload"
)

// hollow is a store that agrees to everything after a while, so that what is left
// is the engine's own cost.
type hollow struct {
	driver.Driver
	wait time.Duration

	mu   sync.Mutex
	left int
	row  driver.Claimed
}

func newHollow(n int, wait time.Duration) (*hollow, error) {
	row, err := newWork(1, 100)
	return &hollow{wait: wait, left: n, row: driver.Claimed{
		Intent: row.Intent, DueAt: time.Now(),
		State: lifecycle.State{
			Profile: lifecycle.Work, Contract: workContract, Status: lifecycle.Leased, Generation: 1, Revision: 1,
			GateOpen: true, LeaseLeft: workContract.Lease, DeadlineLeft: workContract.MaxAge,
		},
	}}, err
}

// Claim hands out what is left, each with a payload of its own as a store would.
func (h *hollow) Claim(_ context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	time.Sleep(h.wait)
	h.mu.Lock()
	defer h.mu.Unlock()
	n := min(r.Limit, h.left)
	h.left -= n
	out := r.Room[:0]
	for range n {
		row := h.row
		row.State.Owner, row.Intent.Ref = r.Owner, driver.NewID()
		row.Intent.Payload = bytes.Clone(h.row.Intent.Payload)
		out = append(out, row)
	}
	return out, nil
}

func (h *hollow) Apply(_ context.Context, ts []lifecycle.Transition) ([]bool, error) {
	time.Sleep(h.wait)
	held := make([]bool, len(ts))
	for i := range held {
		held[i] = true
	}
	return held, nil
}

func (h *hollow) Overdue(context.Context, driver.OverdueRequest) ([]driver.Overdue, driver.Cursor, error) {
	return nil, driver.Cursor{}, nil
}

func (h *hollow) Routes(context.Context) ([]driver.Route, error) { return nil, nil }
func (h *hollow) Now(context.Context) (time.Time, error)         { return time.Now(), nil }

// engineSpends is what n pieces of work cost where the store costs nothing.
func engineSpends(ctx context.Context, c Config, n int) (Spent, error) {
	store, err := newHollow(n, 2*time.Millisecond)
	if err != nil {
		return Spent{}, err
	}
	a, count := newAuthority(), newCountdown(n)
	engine := dispatch.New(engineConfig(store, c, a.served(func() { count.add(1) })))
	return spentHere(func() error {
		_, _, err := serve(ctx, engine.Serve, count)
		return err
	})
}

// handlerSpends is what the handler's part of it costs.
func handlerSpends(size, n int) (Spent, error) {
	row, err := newWork(1, size)
	if err != nil {
		return Spent{}, err
	}
	a := newAuthority()
	return spentHere(func() error {
		for range n {
			body, err := a.request(&row.Intent)
			if err != nil {
				return err
			}
			canon.Digest(body)
		}
		return nil
	})
}

// engine takes the measure, in rounds.
func (s *Suite) engine(ctx context.Context, done func(Sample)) error {
	n := s.Config.N
	for round := range s.Config.Runs {
		for _, sub := range []struct {
			name  string
			spent func() (Spent, error)
		}{
			{EngineAlone, func() (Spent, error) { return engineSpends(ctx, s.Config, n) }},
			{Handler, func() (Spent, error) { return handlerSpends(s.Config.Payload, n) }},
			{HandlerLarge, func() (Spent, error) { return handlerSpends(s.Config.Large, n) }},
		} {
			spent, err := sub.spent()
			if err != nil {
				return err
			}
			done(Sample{Subject: sub.name, Round: round + 1, N: n, Drain: spent, PerSec: float64(n) / spent.Seconds})
		}
	}
	return nil
}
