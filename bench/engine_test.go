package bench

import (
	"bytes"
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/canon"
	"github.com/consign-go/consign/internal/dispatch"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
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

// BenchmarkEngine is what the engine spends on one piece of work beside its store:
// processor time, memory and allocations, the work of P1's handler included.
func BenchmarkEngine(b *testing.B) {
	store, err := newHollow(b.N, 2*time.Millisecond)
	if err != nil {
		b.Fatal(err)
	}
	a, count := newAuthority(), newCountdown(b.N)
	engine := dispatch.New(engineConfig(store, Config{}.Filled(), a.served(func() { count.add(1) })))
	b.ReportAllocs()
	b.ResetTimer()
	spent, err := spentHere(func() error {
		_, _, err := serve(b.Context(), engine.Serve, count)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(spent.Client*1e9/float64(b.N), "cpu-ns/op")
}

// BenchmarkHandler is the part of BenchmarkEngine that is the handler's.
func BenchmarkHandler(b *testing.B) {
	for _, size := range []int{100, 1500} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			row, err := newWork(1, size)
			if err != nil {
				b.Fatal(err)
			}
			a := newAuthority()
			b.ReportAllocs()
			for b.Loop() {
				body, err := a.request(&row.Intent)
				if err != nil {
					b.Fatal(err)
				}
				canon.Digest(body)
			}
		})
	}
}
