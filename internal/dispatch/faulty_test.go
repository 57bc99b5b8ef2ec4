package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/driver/memory"
	"github.com/consign-go/consign/internal/lifecycle"
)

// fault is what befalls one call of the store.
type fault uint8

const (
	healthy  fault = iota
	failing        // it fails, and nothing has happened
	losing         // it happens, and its answer is lost
	delaying       // it fails, and happens a while later
	hanging        // nobody answers until the caller gives up, and nothing has happened
	freezing       // the caller itself stands still for a while, then it happens
)

// errDown is the error of a call that was made to fail.
var errDown = errors.New("connection refused")

// faulty is a store whose calls fail as planned. It lets through one at a time,
// and has every write watched.
type faulty struct {
	*memory.Store
	watch *watcher
	plan  func(n int, op string) (fault, time.Duration) // of the n-th call, from 1

	mu     sync.Mutex
	calls  int
	fenced int // writes that did not hold
}

func newFaulty(s *memory.Store, w *watcher, plan func(n int, op string) (fault, time.Duration)) *faulty {
	return &faulty{Store: s, watch: w, plan: plan}
}

// counted numbers a call and says what befalls it.
func (f *faulty) counted(op string) (fault, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.plan == nil {
		return healthy, 0
	}
	return f.plan(f.calls, op)
}

// made is how many calls there were.
func (f *faulty) made() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// through makes a call as planned.
func through[T any](ctx context.Context, f *faulty, op string, call func(ctx context.Context) (T, error)) (none T, err error) {
	kind, d := f.counted(op)
	switch kind {
	case failing:
		return none, errDown
	case losing:
		call(ctx)
		return none, errDown
	case delaying:
		time.AfterFunc(d, func() { call(context.Background()) })
		return none, errDown
	case hanging:
		<-ctx.Done()
		return none, ctx.Err()
	case freezing:
		time.Sleep(d)
		return call(context.Background())
	}
	return call(ctx)
}

// Claim counts only where there is something to be had: looking again and again
// at nothing is no step of a delivery.
func (f *faulty) Claim(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	if due, err := f.Store.Due(ctx, r); err == nil && len(due) == 0 {
		return nil, nil
	}
	return through(ctx, f, "claim", func(ctx context.Context) (out []driver.Claimed, err error) {
		f.watch.during(func() []driver.ID {
			out, err = f.Store.Claim(ctx, r)
			return nil
		})
		return out, err
	})
}

func (f *faulty) Apply(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
	ts = slices.Clone(ts) // it may happen when its caller has gone on
	return through(ctx, f, "apply", func(ctx context.Context) (out []bool, err error) {
		f.watch.during(func() (refused []driver.ID) {
			out, err = f.Store.Apply(ctx, ts)
			for i := range ts {
				if err == nil && !out[i] {
					refused = append(refused, ts[i].Ref)
				}
			}
			f.mu.Lock()
			f.fenced += len(refused)
			f.mu.Unlock()
			return refused
		})
		return out, err
	})
}

func (f *faulty) Append(ctx context.Context, rows []driver.Logged) error {
	_, err := through(ctx, f, "append", func(ctx context.Context) (_ struct{}, err error) {
		f.watch.during(func() (refs []driver.ID) {
			err = f.Store.Append(ctx, rows)
			for _, r := range rows {
				refs = append(refs, r.Ref)
			}
			return refs // evidence changes no delivery
		})
		return struct{}{}, err
	})
	return err
}

func (f *faulty) Held(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	return through(ctx, f, "held", func(ctx context.Context) ([]driver.Claimed, error) { return f.Store.Held(ctx, r) })
}

func (f *faulty) Load(ctx context.Context, refs []driver.ID) ([]driver.Record, error) {
	return through(ctx, f, "load", func(ctx context.Context) ([]driver.Record, error) { return f.Store.Load(ctx, refs) })
}

func (f *faulty) History(ctx context.Context, ref driver.ID) ([]driver.Logged, error) {
	return through(ctx, f, "history", func(ctx context.Context) ([]driver.Logged, error) { return f.Store.History(ctx, ref) })
}

// hooked is a store with something around its claims and its writes.
type hooked struct {
	*memory.Store
	claim func(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error)
	apply func(ctx context.Context, ts []lifecycle.Transition) ([]bool, error)
}

func (h *hooked) Claim(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	if h.claim != nil {
		return h.claim(ctx, r)
	}
	return h.Store.Claim(ctx, r)
}

func (h *hooked) Apply(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
	if h.apply != nil {
		return h.apply(ctx, ts)
	}
	return h.Store.Apply(ctx, ts)
}
