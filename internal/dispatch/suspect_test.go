package dispatch

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// crash claims refs for an owner that is never heard of again.
func (r *rig) crash(k kind, times int, refs ...driver.ID) {
	r.Helper()
	for i := range times {
		route := driver.MessageRoute(k.name)
		if k.profile == lifecycle.Work {
			route = driver.WorkRoute(k.name, [32]byte{})
		}
		got, err := r.store.Claim(context.Background(), driver.ClaimRequest{
			Owner: newToken(), Routes: []driver.RouteLimit{{Route: route, Limit: len(refs), Contract: k.contract}},
			Refs: refs, Suspects: i > 0, Policy: lifecycle.DefaultPolicy,
		})
		if err != nil || len(got) != len(refs) {
			r.Fatalf("claimed %d of %d: %v", len(got), len(refs), err)
		}
		time.Sleep(k.contract.Lease)
	}
}

// What died before its start is claimed again, under both profiles, and nothing
// counts as sent.
func TestDeathBeforeStartIsUnsent(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				ref := r.enqueue(k, 1)[0]
				r.crash(k, 1, ref)
				stop := r.serve(r.engine(r.served(k)))
				r.settled(time.Minute, ref)
				stop()
				r.is(ref, lifecycle.Succeeded, "", false)
				if s := r.record(ref).State; s.Generation != 2 || s.Attempts != 1 || len(r.log(ref)) != 0 {
					r.Errorf("generation %d, %d attempts, log %v", s.Generation, s.Attempts, r.log(ref))
				}
			})
		})
	}
}

// Intents that crashed an owner before the start are taken one at a time until
// they have started, so that a poisonous one takes no other down.
func TestSuspectsAreTakenAlone(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		suspects := r.enqueue(k, 20)
		r.crash(k, 1, suspects...)
		fresh := r.enqueue(k, 20)
		most := 0
		r.far.takes = time.Second
		served := r.served(k)
		deliver := served.Deliver
		served.Deliver = func(ctx context.Context, t *Task) error {
			time.Sleep(100 * time.Millisecond) // the time in which it could take others down
			return deliver(ctx, t)
		}
		h := &hooked{Store: r.store}
		h.claim = func(ctx context.Context, req driver.ClaimRequest) ([]driver.Claimed, error) {
			out, err := r.store.Claim(ctx, req)
			n := 0
			for _, d := range deliveries(r.store) {
				if d["status"].(int) == isLeased && d["crashes"].(int) > 0 {
					n++
				}
			}
			most = max(most, n)
			return out, err
		}
		began := time.Now()
		stop := r.serve(r.engineOn(h, served))
		r.settled(10*time.Minute, append(suspects, fresh...)...)
		took := time.Since(began)
		stop()
		if most != 1 {
			r.Errorf("%d suspects at once", most)
		}
		if took > 10*time.Second {
			r.Errorf("took %s: they wait for more than each other's start", took)
		}
	})
}

// Visits of suspects take turns too, and hold up no visit of anything else.
func TestVisitedSuspectsTakeTurns(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		suspects := r.enqueue(k, 5)
		r.crash(k, 1, suspects...)
		later := r.enqueueNew(k, 1, func(_ int, n *driver.New) { n.NotBefore = time.Now().Add(time.Hour) })[0]
		fresh := r.enqueue(k, 1)[0]
		s := r.served(k)
		deliver := s.Deliver
		var mu sync.Mutex
		preparing, most := 0, 0
		s.Deliver = func(ctx context.Context, t *Task) error {
			if t.state.Crashes > 0 {
				mu.Lock()
				preparing++
				most = max(most, preparing)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				preparing--
				mu.Unlock()
			}
			return deliver(ctx, t)
		}
		e := r.engine(s)
		var visits sync.WaitGroup
		for _, ref := range suspects {
			visits.Go(func() { r.visit(e, ref) })
		}
		time.Sleep(time.Millisecond)
		began := time.Now()
		r.visit(e, fresh)
		r.visit(e, later)
		if took := time.Since(began); took > 0 {
			r.Errorf("others waited %s", took)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second/2)
		defer cancel()
		waits := slices.IndexFunc(suspects, func(ref driver.ID) bool { return r.record(ref).State.Generation == 1 })
		if _, _, err := e.Visit(ctx, suspects[waits]); err != context.DeadlineExceeded {
			r.Errorf("a visit whose context ended while it waited: %v", err)
		}
		visits.Wait()
		if most != 1 {
			r.Errorf("%d suspects at once", most)
		}
	})
}

// A visit of a suspect does not wait for a slot of Serve.
func TestVisitedSuspectWaitsForNoSlot(t *testing.T) {
	inBubble(t, func(r *rig) {
		k, slow := kinds[2], kinds[3]
		suspect := r.enqueue(k, 1)[0]
		r.crash(k, 1, suspect)
		r.enqueue(slow, 1)
		hold := r.servedBy(slow, func(context.Context, *Task, Attempt) error {
			time.Sleep(10 * time.Second)
			return nil
		})
		e := New(Config{Store: r.store, Workers: 1, Served: []*Served{hold, r.served(k)}})
		stop := r.serve(e)
		time.Sleep(time.Second) // the slot is taken
		began := time.Now()
		if got := r.visit(e, suspect); got.Status != lifecycle.Succeeded || time.Since(began) > 0 {
			r.Errorf("%s after %s", got.Status, time.Since(began))
		}
		stop()
	})
}

// A suspect is not forgotten because there is always something else to do.
func TestSuspectsAreTakenUnderConstantLoad(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		suspects := r.enqueue(k, 3)
		r.crash(k, 1, suspects...)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		r.far.takes = 50 * time.Millisecond
		var load sync.WaitGroup
		load.Go(func() {
			for ctx.Err() == nil {
				r.enqueue(k, 40)
				time.Sleep(20 * time.Millisecond)
			}
		})
		stop := r.serve(New(Config{Store: r.store, Workers: 2, Served: []*Served{r.served(k)}}))
		r.settled(time.Minute, suspects...)
		cancel()
		load.Wait()
		stop()
	})
}

// An intent whose owners vanish before the start, one after another, or whose
// handler panics there, ends as poisoned when the crash budget of 5 is spent.
func TestPoisonedIntentEnds(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				vanishing := r.enqueue(k, 1)[0]
				r.crash(k, 5, vanishing)
				panicking := r.enqueue(k, 1)[0]
				served := r.served(k)
				calls := 0
				served.Deliver = func(context.Context, *Task) error {
					calls++
					panic("before the effect")
				}
				stop := r.serve(r.engine(served))
				r.settled(time.Hour, vanishing, panicking)
				stop()
				r.is(vanishing, k.stopped(), lifecycle.Poisoned, false)
				r.is(panicking, k.stopped(), lifecycle.Poisoned, false)
				if calls != 5 || len(r.far.log) != 0 {
					r.Errorf("%d calls, %d sent", calls, len(r.far.log))
				}
			})
		})
	}
}
