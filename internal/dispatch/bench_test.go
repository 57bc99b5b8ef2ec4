package dispatch

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/canon"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/driver/memory"
	"github.com/consign-go/consign/internal/lifecycle"
)

// hollow is a store that costs next to nothing: it hands out what was never
// enqueued, and every write holds. What is measured on it is the engine.
type hollow struct {
	driver.Driver
	left    atomic.Int64
	claims  atomic.Int64
	writes  atomic.Int64
	profile lifecycle.Profile
	payload []byte
	delay   time.Duration // of each call, as a database has
}

func (h *hollow) Claim(_ context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	if r.Suspects || len(r.Routes) == 0 {
		return nil, nil
	}
	time.Sleep(h.delay)
	n := int64(r.Limit)
	if left := h.left.Add(-n); left < 0 {
		n = max(n+left, 0)
	}
	h.claims.Add(1)
	out := make([]driver.Claimed, n)
	for i := range out {
		ref := driver.NewID()
		out[i] = driver.Claimed{
			Intent: driver.Intent{Ref: ref, Key: ref, Profile: h.profile, Kind: "bench", Payload: h.payload},
			State: lifecycle.State{
				Profile: h.profile, Contract: scheduled, Status: lifecycle.Leased, Generation: 1, Revision: 1, Owner: r.Owner,
				GateOpen: true, LeaseLeft: scheduled.Lease, DeadlineLeft: lifecycle.Never,
			},
		}
	}
	return out, nil
}

func (h *hollow) Apply(_ context.Context, ts []lifecycle.Transition) ([]bool, error) {
	time.Sleep(h.delay)
	h.writes.Add(1)
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

// benchServed counts deliveries down and ends the benchmark with the last.
func benchServed(profile lifecycle.Profile, wanted int, done func()) *Served {
	var delivered atomic.Int64
	return &Served{
		Profile: profile, Kind: "bench", Contract: scheduled, Schedule: DefaultSchedule,
		Deliver: func(ctx context.Context, t *Task) error {
			err := t.Effect(ctx, t.Intent.Digest, func(context.Context, Attempt) error { return nil })
			if delivered.Add(1) == int64(wanted) {
				done()
			}
			return err
		},
	}
}

// The engine's own overhead: intents per second and allocations per intent, without
// a database, with an effect that does nothing.
func BenchmarkEngine(b *testing.B) {
	for _, workers := range []int{64, 1000, 2000} {
		for _, delay := range []time.Duration{0, time.Millisecond} {
			b.Run(fmt.Sprintf("workers=%d/store=%s", workers, delay), func(b *testing.B) {
				h := &hollow{profile: lifecycle.Message, payload: []byte(`{"a":1}`), delay: delay}
				ctx, cancel := context.WithCancel(context.Background())
				e := New(Config{Store: h, Workers: workers, Served: []*Served{benchServed(h.profile, b.N, cancel)}})
				h.left.Store(int64(b.N))
				b.ReportAllocs()
				b.ResetTimer()
				if err := e.Serve(ctx); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "intents/s")
				b.ReportMetric(2*float64(b.N)/float64(max(h.writes.Load(), 1)), "rows/write")
			})
		}
	}
}

// The engine on the memory store, which sorts all that is due at every claim and so
// is asked for a thousand intents at a time.
func BenchmarkEngineOnMemory(b *testing.B) {
	const round = 1000
	s := memory.New()
	s.Follow()
	payload := []byte(`{"a":1}`)
	b.ReportAllocs()
	for left := b.N; left > 0; left -= round {
		b.StopTimer()
		n := min(left, round)
		rows := make([]driver.New, n)
		for i := range rows {
			ref := driver.NewID()
			rows[i] = driver.New{Contract: scheduled, Intent: driver.Intent{
				Ref: ref, Key: ref, Profile: lifecycle.Message, Kind: "bench", Payload: payload, Digest: canon.Digest(payload),
			}}
		}
		s.Reset()
		insert(b, s, rows)
		e := New(Config{Store: s, Workers: round, Served: []*Served{benchServed(lifecycle.Message, n, func() {})}})
		b.StartTimer()
		if got, err := e.Drain(context.Background(), n); err != nil || len(got) != n {
			b.Fatal(len(got), err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "intents/s")
}

// A lane under as many callers as a busy engine has.
func BenchmarkLane(b *testing.B) {
	l := newLane(1000, 2, func(_ context.Context, in []int) ([]bool, error) { return make([]bool, len(in)), nil })
	b.ReportAllocs()
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			for range b.N/1000 + 1 {
				l.submit(context.Background(), 1, false)
			}
		})
	}
	wg.Wait()
}
