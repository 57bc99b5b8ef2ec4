package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Settle shares neither its effect's context nor the engine's: it goes on through
// an outage, after the effect's context has ended and after the stop.
func TestSettleOutlivesItsEffectAndTheStop(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				ref := r.enqueue(k, 1)[0]
				stopping := make(chan struct{})
				h := &hooked{Store: r.store}
				downUntil := time.Time{}
				h.apply = func(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
					if ctx.Err() != nil {
						r.Errorf("a write under a context that has ended: %v", ctx.Err())
					}
					if time.Now().Before(downUntil) {
						return nil, errDown
					}
					return r.store.Apply(ctx, ts)
				}
				send := func(ctx context.Context, t *Task, a Attempt) error {
					downUntil = time.Now().Add(25 * time.Second)
					close(stopping)
					return r.far.receive(ctx, t, a)
				}
				stop := r.serve(r.engineOn(h, r.servedBy(k, send)))
				<-stopping
				began := time.Now()
				if err := stop(); err != nil {
					r.Error(err)
				}
				r.is(ref, lifecycle.Succeeded, "", false)
				if took := time.Since(began); took < 25*time.Second || took > 28*time.Second {
					r.Errorf("stopped after %s", took)
				}
			})
		})
	}
}

// What cannot be written down in the time for it stays unwritten, and is called
// unknown: by whoever claims it next, by the sweep, or as a stranded message.
func TestStopDoesNotWaitForEver(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				ref := r.enqueue(k, 1)[0]
				sent := make(chan struct{})
				h := &hooked{Store: r.store}
				h.apply = func(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
					if ts[0].Set.Started {
						return r.store.Apply(ctx, ts)
					}
					return nil, errDown
				}
				stop := r.serve(r.engineOn(h, r.servedBy(k, func(ctx context.Context, t *Task, a Attempt) error {
					close(sent)
					return r.far.receive(ctx, t, a)
				})))
				<-sent
				began := time.Now()
				stop()
				if took := time.Since(began); took > 31*time.Second {
					r.Errorf("stopped after %s", took)
				}
				if s := r.record(ref).State; s.Status != lifecycle.Delivering || !s.InFlight {
					r.Errorf("%s, in flight %v", s.Status, s.InFlight)
				}
				time.Sleep(2 * time.Minute)
				stop = r.serve(r.engine(r.served(k)))
				r.settled(time.Minute, ref)
				stop()
				if faults := audit(r.store, []driver.ID{ref}, r.far.log); faults != nil {
					r.Error(faults)
				}
			})
		})
	}
}

// A write that nobody answers holds up neither its lane nor the others for longer
// than the limit of a write, and where all lanes hang at once, that is all they wait.
func TestHungWriteDelaysNobodyForLong(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		var hung atomic.Int32
		h := &hooked{Store: r.store}
		h.apply = func(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
			if hung.Add(1) <= 2 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return r.store.Apply(ctx, ts)
		}
		began := time.Now()
		stop := r.serve(New(Config{Store: h, Served: []*Served{r.served(k)}, Workers: 64, Lanes: 2}))
		var refs []driver.ID
		for lane := int32(1); lane <= 2; lane++ { // one batch may hold all there are
			refs = append(refs, r.enqueue(k, 20)...)
			r.until(5*time.Second, "a lane hangs", func() bool { return hung.Load() >= lane })
		}
		refs = append(refs, r.enqueue(k, 20)...)
		r.settled(time.Minute, refs...)
		if took := time.Since(began); took > 15*time.Second {
			r.Errorf("took %s", took)
		}
		stop()
		for _, ref := range refs {
			r.is(ref, lifecycle.Succeeded, "", false)
		}
	})
}

// A row that the store never accepts takes no other down with it.
func TestOneUnacceptableWriteHoldsUpNoOther(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		refs := r.enqueue(k, 60)
		h := &hooked{Store: r.store}
		h.apply = func(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
			time.Sleep(time.Millisecond) // so that batches gather
			bad := func(tr lifecycle.Transition) bool { return tr.Ref == refs[7] && tr.Set.Status == lifecycle.Succeeded }
			if slices.ContainsFunc(ts, bad) {
				return nil, errors.New("violates a check")
			}
			return r.store.Apply(ctx, ts)
		}
		stop := r.serve(New(Config{Store: h, Served: []*Served{r.served(k)}, Workers: 64, Lanes: 1}))
		r.settled(time.Second, slices.Delete(slices.Clone(refs), 7, 8)...)
		r.settled(5*time.Minute, refs[7])
		stop()
		r.is(refs[7], lifecycle.Failed, lifecycle.OutcomeUnknown, true)
	})
}

// A failed bookkeeping write never lets another owner send: until the lease of an
// idempotent intent is over, by its margin, nobody else starts it.
func TestOnlyTheEndOfTheLeaseLetsAnotherSend(t *testing.T) {
	for _, k := range []kind{kinds[1], kinds[3]} {
		t.Run(k.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				ref := r.enqueue(k, 1)[0]
				h := &hooked{Store: r.store}
				h.apply = func(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
					if ts[0].Set.Started {
						return r.store.Apply(ctx, ts)
					}
					return nil, errDown
				}
				stopFirst := r.serve(r.engineOn(h, r.served(k)))
				stopOther := r.serve(r.engine(r.served(k)))
				r.settled(5*time.Minute, ref)
				stopFirst()
				stopOther()
				came := r.far.arrivals(ref)
				if came[0].owner == came[len(came)-1].owner {
					came = came[:1] // the healthy one was first
				}
				if len(came) == 2 {
					if gap := came[1].at.Sub(came[0].at); gap < k.contract.Lease+lifecycle.DefaultPolicy.SettleMargin {
						r.Errorf("another sent after %s", gap)
					}
				}
				if faults := audit(r.store, []driver.ID{ref}, r.far.log); faults != nil {
					r.Error(faults)
				}
			})
		})
	}
}

// A start that arrives late, after its owner has begun to give the delivery back,
// is settled as certainly not sent.
func TestStartThatArrivesDuringItsGivingBack(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				ref := r.enqueue(k, 1)[0]
				var cutOff []lifecycle.Transition
				first := time.Now()
				h := &hooked{Store: r.store}
				h.apply = func(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
					if ts[0].Set.Started && time.Since(first) < time.Minute {
						cutOff = slices.Clone(ts)
						return nil, errDown // and it stays on its way
					}
					if cutOff != nil {
						late := cutOff
						cutOff = nil
						late[0].Require.LeaseLeft = 1 // it was judged in time, and commits now
						if held, err := r.store.Apply(ctx, late); err != nil || !held[0] {
							r.Errorf("the late start: %v, %v", held, err)
						}
					}
					return r.store.Apply(ctx, ts)
				}
				r.visit(r.engineOn(h, r.served(k)), ref)
				s := r.record(ref).State
				if log := r.log(ref); len(log) == 0 || log[0] != "not_sent" || s.Uncertain || len(r.far.log) != 0 {
					r.Errorf("%s, uncertain %v, log %v, sent %d times", s.Status, s.Uncertain, log, len(r.far.log))
				}
			})
		})
	}
}

// A ref appears only once in a call of the store, also where two tasks of one
// engine have something to write of it, one of them long out of its lease.
func TestNoRefComesTwiceInOneWrite(t *testing.T) {
	inBubble(t, func(r *rig) {
		var calls []int
		h := &hooked{Store: r.store}
		h.apply = func(_ context.Context, ts []lifecycle.Transition) ([]bool, error) {
			calls = append(calls, len(ts))
			held := make([]bool, len(ts))
			for i := range ts {
				held[i] = ts[i].Fence.Revision%2 == 0
			}
			return held, nil
		}
		ts := make([]lifecycle.Transition, 9)
		for i := range ts {
			ts[i].Ref, ts[i].Fence.Revision = [16]byte{byte(i % 4)}, int64(i)
		}
		held, err := r.engineOn(h).apply(context.Background(), &batch{ts: ts, seen: map[driver.ID]struct{}{}})
		if err != nil || !slices.Equal(calls, []int{4, 4, 1}) {
			r.Errorf("calls of %v, %v", calls, err)
		}
		for i := range held {
			if held[i] != (i%2 == 0) {
				r.Errorf("answer %d is another's", i)
			}
		}
	})
}

// Where the answer to a settle was lost and another owner has gone on from it
// before it could be looked up, the attempt log tells that it was written: nothing
// is fenced, and nothing kept twice.
func TestLostAnswerIsFoundInTheLog(t *testing.T) {
	for _, k := range kinds[:4] {
		t.Run(k.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				ref := r.enqueue(k, 1)[0]
				r.far.script(refuse, accept)
				var lost time.Time
				f := newFaulty(r.store, newWatcher(r.store), func(_ int, op string) (fault, time.Duration) {
					switch {
					case op == "apply" && len(r.far.arrivals(ref)) == 1 && lost.IsZero():
						lost = time.Now()
						return losing, 0
					case !lost.IsZero() && time.Since(lost) < 10*time.Second:
						return failing, 0
					}
					return healthy, 0
				})
				fences := 0
				e := New(Config{Store: f, Served: []*Served{r.served(k)}, Observe: func(o Observation) {
					if o.Event == "fence" {
						fences++
					}
				}})
				stopFirst := r.serve(e)
				time.Sleep(100 * time.Millisecond)
				stopOther := r.serve(r.engine(r.served(k)))
				r.settled(5*time.Second, ref)
				time.Sleep(time.Minute)
				stopFirst()
				stopOther()
				if log := r.log(ref); fences != 0 || !slices.Equal(log, []string{"refused"}) {
					r.Errorf("%d fences, log %v", fences, log)
				}
				r.is(ref, lifecycle.Succeeded, "", false)
			})
		})
	}
}
