package dispatch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// inHand counts the rows that somebody holds and does not merely wait with.
func inHand(rows map[driver.ID]row) (n int) {
	for _, d := range rows {
		status := d["status"].(int)
		if status == isLeased || status == isDelivering && d["in_flight"].(bool) {
			n++
		}
	}
	return n
}

// Claims never exceed the free slots, loops that come back from a pause included.
func TestClaimsNeverExceedFreeSlots(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.far.takes = 700 * time.Millisecond
		r.far.script(refuse, refuse, accept)
		var mu sync.Mutex
		most := 0
		note := func() {
			mu.Lock()
			defer mu.Unlock()
			most = max(most, inHand(deliveries(r.store)))
		}
		h := &hooked{Store: r.store}
		h.claim = func(ctx context.Context, req driver.ClaimRequest) ([]driver.Claimed, error) {
			time.Sleep(30 * time.Millisecond)
			out, err := r.store.Claim(ctx, req)
			note()
			time.Sleep(30 * time.Millisecond)
			return out, err
		}
		h.apply = func(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
			held, err := r.store.Apply(ctx, ts)
			note()
			return held, err
		}
		e := New(Config{Store: h, Workers: 5, Served: []*Served{r.served(kinds[4]), r.served(kinds[2]), r.served(kinds[1])}})
		refs := slices.Concat(r.enqueue(kinds[4], 15), r.enqueue(kinds[2], 15), r.enqueue(kinds[1], 15))
		stop := r.serve(e)
		r.settled(10*time.Minute, refs...)
		stop()
		if most != 5 {
			r.Errorf("%d in hand at once, want all of 5 slots and no more", most)
		}
		for _, ref := range refs {
			r.is(ref, lifecycle.Succeeded, "", false)
		}
	})
}

// What a store hands out beyond what was asked for is given back, not driven.
func TestSurplusIsGivenBack(t *testing.T) {
	inBubble(t, func(r *rig) {
		h := &hooked{Store: r.store}
		h.claim = func(ctx context.Context, req driver.ClaimRequest) ([]driver.Claimed, error) {
			req.Limit = 0
			for i := range req.Routes {
				req.Routes[i].Limit = 10
			}
			return r.store.Claim(ctx, req)
		}
		r.far.takes = time.Second
		e := New(Config{Store: h, Workers: 2, Served: []*Served{r.served(kinds[2])}})
		refs := r.enqueue(kinds[2], 10)
		stop := r.serve(e)
		r.settled(time.Minute, refs...)
		stop()
		if r.far.most != 2 {
			r.Errorf("%d effects at once with 2 slots", r.far.most)
		}
		for _, ref := range refs {
			r.is(ref, lifecycle.Succeeded, "", false)
			if rec := r.record(ref); rec.State.Crashes != 0 || rec.State.Attempts != 1 {
				r.Errorf("%d crashes, %d attempts", rec.State.Crashes, rec.State.Attempts)
			}
		}
	})
}

// No start is written before the answer to its claim has come.
func TestNoStartOvertakesItsClaim(t *testing.T) {
	inBubble(t, func(r *rig) {
		var mu sync.Mutex
		answered := map[driver.ID]bool{}
		h := &hooked{Store: r.store}
		h.claim = func(ctx context.Context, req driver.ClaimRequest) ([]driver.Claimed, error) {
			out, err := r.store.Claim(ctx, req)
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			for _, c := range out {
				answered[c.Intent.Ref] = true
			}
			return out, err
		}
		h.apply = func(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
			mu.Lock()
			for i := range ts {
				if !answered[ts[i].Ref] {
					r.Errorf("a write to %s before its claim was answered", ts[i].Ref)
				}
			}
			mu.Unlock()
			return r.store.Apply(ctx, ts)
		}
		refs := r.enqueue(kinds[2], 40)
		stop := r.serve(r.engineOn(h, r.served(kinds[2])))
		r.settled(time.Minute, refs...)
		stop()
	})
}

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
		if took > 5*time.Second {
			r.Errorf("took %s: they wait for more than each other's start", took)
		}
	})
}

// A suspect is not forgotten because there is always something else to do.
func TestSuspectsAreTakenUnderConstantLoad(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		suspects := r.enqueue(k, 3)
		r.crash(k, 1, suspects...)
		ctx, cancel := context.WithCancel(context.Background())
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

// A backlog on one route does not starve another.
func TestRoutesTakeTurns(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.far.takes = 10 * time.Millisecond
		var served []*Served
		var first []driver.ID
		for _, k := range kinds[:4] {
			served = append(served, r.served(k))
			refs := r.enqueue(k, 300)
			first = append(first, refs[:10]...)
		}
		stop := r.serve(New(Config{Store: r.store, Workers: 4, Served: served}))
		r.settled(time.Second, first...) // 40 of 1,200, which take 3 s
		stop()
	})
}

// Claims that go on behind the last one still find what was committed late with an
// earlier due time, or given back.
func TestNothingIsLeftBehindTheCursor(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		e := r.engine(r.served(k))
		life := lives{context.Background(), context.Background(), context.Background()}
		r.enqueue(k, 10)
		early := r.record(r.enqueue(k, 1)[0])
		time.Sleep(time.Second)
		r.enqueue(k, 30)
		seen := map[driver.ID]int{}
		take := func() int {
			tasks, _, err := e.claim(10, life, time.Second)
			if err != nil {
				r.Fatal(err)
			}
			for _, t := range tasks {
				seen[t.Intent.Ref]++
			}
			return len(tasks)
		}
		for range 3 {
			take()
		}
		// What comes now lies in front of the cursor.
		tr := lifecycle.DefaultPolicy.Apply(r.record(early.Intent.Ref).State, lifecycle.Event{Kind: lifecycle.EvReleased,
			Owner: r.record(early.Intent.Ref).State.Owner, Generation: 1})
		tr.Ref = early.Intent.Ref
		if held, err := r.store.Apply(context.Background(), []lifecycle.Transition{tr}); err != nil || !held[0] {
			r.Fatal(held, err)
		}
		time.Sleep(rewind + time.Millisecond)
		for n := 1; n > 0; {
			n = take()
		}
		take()
		if len(seen) != 41 || seen[early.Intent.Ref] != 2 {
			r.Errorf("%d of 41 claimed, the early one %d times", len(seen), seen[early.Intent.Ref])
		}
		for _, n := range slices.Collect(maps.Values(seen)) {
			if n > 2 {
				r.Errorf("claimed %d times", n)
			}
		}
	})
}
