package dispatch

import (
	"bytes"
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
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

// A claim whose answer was lost is looked up by its token: what it took is driven at
// once, under the same claim, and no crash is counted. The look-up may take a while.
func TestLostClaimIsLookedUp(t *testing.T) {
	for _, k := range kinds {
		for _, outage := range []time.Duration{0, 15 * time.Second} {
			inBubble(t, func(r *rig) {
				refs := r.enqueue(k, 3)
				f := newFaulty(r.store, newWatcher(r.store), down(1, losing, outage))
				began := time.Now()
				stop := r.serve(r.engineOn(f, r.served(k)))
				r.settled(outage+3*time.Second, refs...)
				stop()
				for _, ref := range refs {
					r.is(ref, lifecycle.Succeeded, "", false)
					if s := r.record(ref).State; s.Generation != 1 || s.Crashes != 0 || s.Attempts != 1 {
						r.Errorf("generation %d, %d crashes, %d attempts", s.Generation, s.Crashes, s.Attempts)
					}
					if at := r.far.arrivals(ref)[0].at; at.Sub(began) < outage {
						r.Errorf("sent %s after the claim", at.Sub(began))
					}
				}
			})
		}
	}
}

// Every claim is made under a token of its own, visits included: one whose answer was
// lost must not be told of what an earlier one has taken, which is being driven.
func TestEveryClaimHasATokenOfItsOwn(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		var mu sync.Mutex
		calls, tokens := 0, map[lifecycle.Token]bool{}
		h := &hooked{Store: r.store}
		h.claim = func(ctx context.Context, req driver.ClaimRequest) ([]driver.Claimed, error) {
			mu.Lock()
			defer mu.Unlock()
			calls++
			tokens[req.Owner] = true
			return r.store.Claim(ctx, req)
		}
		e := r.engineOn(h, r.served(k))
		r.visit(e, r.enqueue(k, 1)[0])
		stop := r.serve(e)
		r.settled(time.Minute, r.enqueue(k, 3)...)
		stop()
		if calls < 3 || len(tokens) != calls || tokens[lifecycle.Token{}] {
			r.Errorf("%d claims under %d tokens", calls, len(tokens))
		}
	})
}

// A claim that was lost by a visit is looked up as well.
func TestLostClaimOfAVisitIsLookedUp(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		ref := r.enqueue(k, 1)[0]
		f := newFaulty(r.store, newWatcher(r.store), down(1, losing, time.Second))
		if got := r.visit(r.engineOn(f, r.served(k)), ref); got.Status != lifecycle.Succeeded {
			r.Errorf("%+v", got)
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

// A drain is not made longer by a store that hands out too much, and a suspect
// stays alone.
func TestSurplusOfADrainIsGivenBack(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		h := &hooked{Store: r.store}
		h.claim = func(ctx context.Context, req driver.ClaimRequest) ([]driver.Claimed, error) {
			req.Limit, req.Routes[0].Limit = 0, 4
			return r.store.Claim(ctx, req)
		}
		e := r.engineOn(h, r.served(k))
		r.enqueue(k, 4)
		if results, err := e.Drain(r.Context(), 3); err != nil || len(results) != 3 || inHand(deliveries(r.store)) != 0 {
			r.Errorf("%d results, %d in hand, %v", len(results), inHand(deliveries(r.store)), err)
		}
		suspects := r.enqueue(k, 4)
		r.crash(k, 1, suspects...)
		r.far.takes = time.Second
		r.far.most = 0
		if results, err := e.Drain(r.Context(), 10); err != nil || len(results) != 5 || r.far.most != 1 {
			r.Errorf("%d results, %d at once, %v", len(results), r.far.most, err)
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

// goroutinesHere counts the goroutines of the bubble that it is called in. Others, as
// what an earlier test has left behind for a while, are none of its.
func goroutinesHere() int {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	own, _, _ := bytes.Cut(stacks, []byte("]:")) // goroutine 7 [running, synctest bubble 5
	_, bubble, _ := bytes.Cut(own, []byte("synctest bubble "))
	return bytes.Count(stacks, []byte("synctest bubble "+string(bubble)+"]:"))
}

// Goroutines that drove a burst of deliveries do not stay when there is nothing to
// do.
func TestIdleGoroutinesAreDismissed(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		r.far.takes = time.Second
		stop := r.serve(r.engine(r.served(k)))
		running := func() int { // at a moment at which all of them wait
			time.Sleep(123 * time.Millisecond)
			synctest.Wait()
			return goroutinesHere()
		}
		time.Sleep(time.Minute)
		before := running()
		refs := r.enqueue(k, 100)
		time.Sleep(2400 * time.Millisecond)
		if n := running(); n < before+16 {
			r.Errorf("%d goroutines in a burst, %d before", n, before)
		}
		r.settled(time.Minute, refs...)
		time.Sleep(time.Minute)
		if n := running(); n != before {
			r.Errorf("%d goroutines a minute later", n)
		}
		stop()
	})
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

// Claims that go on behind the last one still find, in a moment, what was committed
// late with an earlier due time, or given back.
func TestNothingIsLeftBehindTheCursor(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		e := r.engine(r.served(k))
		life := lives{context.Background(), context.Background(), context.Background()}
		early := r.enqueue(k, 1)[0]
		time.Sleep(time.Second)
		r.enqueue(k, 100)
		seen := map[driver.ID]int{}
		take := func() int {
			tasks, _, err := e.claim(10, 10, life, time.Second, false)
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
		s := r.record(early).State // it lies in front of the cursor now
		tr := lifecycle.DefaultPolicy.Apply(s, lifecycle.Event{Kind: lifecycle.EvReleased, Owner: s.Owner, Generation: s.Generation})
		tr.Ref = early
		if held, err := r.store.Apply(context.Background(), []lifecycle.Transition{tr}); err != nil || !held[0] {
			r.Fatal(held, err)
		}
		if take(); seen[early] != 1 {
			r.Error("a claim began at the front although the last one was a moment ago")
		}
		time.Sleep(rewind + time.Millisecond)
		if take(); seen[early] != 2 {
			r.Error("what was given back is not found while there is something behind it")
		}
		for take() > 0 {
		}
		late := r.enqueueNew(k, 1, func(_ int, n *driver.New) { n.NotBefore = time.Now().Add(-time.Hour) })[0]
		for range 2 {
			take()
		}
		if len(seen) != 102 || seen[late] != 1 {
			r.Errorf("%d of 102 claimed", len(seen))
		}
	})
}
