package dispatch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// stepping is a store whose looks from the front step over much that may not be had:
// they take long. from counts them.
func (r *rig) stepping(took time.Duration, from *atomic.Int64) *hooked {
	h := &hooked{Store: r.store}
	h.claim = func(ctx context.Context, req driver.ClaimRequest) ([]driver.Claimed, error) {
		if len(req.Next) == 0 && !req.Suspects && time.Since(req.Routes[0].After.DueAt) > time.Hour {
			from.Add(1)
			time.Sleep(took)
		}
		return r.store.Claim(ctx, req)
	}
	return h
}

// A claim waits for more slots than one, but only for a moment, however long the last
// claim took: a database that was slow once must not leave slots empty.
func TestClaimAfterASlowOneLeavesNoSlotsEmpty(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		var claims, sent atomic.Int64
		var mu sync.Mutex
		busy := 0           // of sixteen slots
		var since time.Time // slots are free, and no claim is under way
		h := &hooked{Store: r.store}
		h.claim = func(ctx context.Context, req driver.ClaimRequest) ([]driver.Claimed, error) {
			if req.Suspects || len(req.Next) > 0 {
				return r.store.Claim(ctx, req)
			}
			mu.Lock()
			if n := claims.Add(1); n > 2 && n < 12 && time.Since(since) > longestGather {
				r.Errorf("claim %d began after slots had been free for %s", n, time.Since(since))
			}
			mu.Unlock()
			time.Sleep(2 * time.Second) // some deliveries end meanwhile
			claimed, err := r.store.Claim(ctx, req)
			mu.Lock()
			defer mu.Unlock()
			busy, since = busy+len(claimed), time.Now()
			return claimed, err
		}
		refs := r.enqueue(k, 100)
		stop := r.serve(r.engineOn(h, r.servedBy(k, func(context.Context, *Task, Attempt) error {
			time.Sleep(time.Duration(1+sent.Add(1)%16) * 500 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			if busy == 16 {
				since = time.Now()
			}
			busy--
			return nil
		})))
		r.settled(5*time.Minute, refs...)
		if n := claims.Load(); n < 12 {
			r.Errorf("%d claims", n)
		}
		if err := stop(); err != nil {
			r.Error(err)
		}
	})
}

// Looks from the front that take long are made rarely. What is new is found at once
// all the same, and what lies before the place that claims have come to, as what was
// committed late or given back does, by the next of those looks.
func TestSlowLooksFromTheFrontAreRare(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		var looks atomic.Int64
		e := r.engineOn(r.stepping(300*time.Millisecond, &looks), r.served(k))
		stop := r.serve(e)
		time.Sleep(5 * time.Minute)
		if n := looks.Load(); n < 40 || n > 52 {
			r.Errorf("%d looks of 300 ms in five minutes", n)
		}
		for range 20 {
			time.Sleep(1234 * time.Millisecond)
			ref := r.enqueue(k, 1)[0]
			e.Wake()
			r.settled(350*time.Millisecond, ref)
		}
		r.settled(1500*time.Millisecond, r.enqueue(k, 5)...) // nobody hints
		given := r.enqueueNew(k, 3, func(i int, n *driver.New) { n.NotBefore = time.Now().Add(time.Second) })
		r.settled(3*time.Second, given...)

		_, tx, err := r.store.Begin(context.Background())
		if err != nil {
			r.Fatal(err)
		}
		refs, rows := intents(k, 1, func(int, *driver.New) {})
		err = tx.Insert(context.Background(), rows)
		r.settled(time.Minute, r.enqueue(k, 1)...)
		time.Sleep(20 * time.Second)
		if err = errors.Join(err, tx.Commit(context.Background())); err != nil {
			r.Fatal(err)
		}
		if age := time.Since(r.record(refs[0]).DueAt); age < 20*time.Second {
			r.Errorf("due %s ago", age)
		}
		r.settled(7*time.Second, refs...)
		stop()
	})
}

// Where the database's clock goes back, what is new is found at once again from the next
// look from the front on, and not only when the clock has come to where it was.
func TestSlowLooksFollowAClockThatGoesBack(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		var looks atomic.Int64
		e := r.engineOn(r.stepping(300*time.Millisecond, &looks), r.served(k))
		stop := r.serve(e)
		time.Sleep(5 * time.Minute)
		r.store.Advance(-30 * time.Minute)
		time.Sleep(10 * time.Second)
		for range 20 {
			time.Sleep(1234 * time.Millisecond)
			ref := r.enqueue(k, 1)[0]
			e.Wake()
			r.settled(350*time.Millisecond, ref)
		}
		stop()
	})
}

// Where a sweep has ended something, or a channel is resumed, the next look begins at
// the front at once: what stood behind lies before the place that claims have come to.
func TestSlowLooksAreMadeWhereSomethingWasFreed(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		var looks atomic.Int64
		h := r.stepping(3*time.Second, &looks) // so one in 18 s
		unserved := kinds[3]
		unserved.contract = aged(unserved.contract, 41*time.Second)
		refs := r.task("a", 2, unserved, k)
		e := New(Config{Store: h, Pauses: r.store, Served: []*Served{r.served(k), r.served(loop)}})
		stop := r.serve(e)
		defer stop()
		time.Sleep(41 * time.Second)
		r.settled(12*time.Second, refs...)
		r.is(refs[0], lifecycle.Failed, lifecycle.DeadlineExpired, false)

		held := r.enqueueNew(loop, 1, func(i int, n *driver.New) { n.Task, n.NotBefore = "b", time.Now().Add(time.Minute) })
		held = append(held, r.enqueueNew(k, 1, func(i int, n *driver.New) { n.Task, n.Index = "b", 1 })...)
		time.Sleep(30 * time.Second)
		r.pause(k, true)
		r.settled(time.Minute, held[0])
		time.Sleep(40 * time.Second)
		for last := looks.Load(); looks.Load() == last; {
			time.Sleep(100 * time.Millisecond)
		}
		r.pause(k, false)
		r.settled(8*time.Second, held...)
	})
}

// What is quick is done as often as ever.
func TestQuickLooksBeginAtTheFront(t *testing.T) {
	inBubble(t, func(r *rig) {
		var looks atomic.Int64
		stop := r.serve(r.engineOn(r.stepping(time.Millisecond, &looks), r.served(kinds[2])))
		time.Sleep(time.Minute)
		stop()
		if n := looks.Load(); n < 55 {
			r.Errorf("%d looks in a minute, one a second are wanted", n)
		}
	})
}

// However long a look takes, the next one is not put off for more than some seconds.
func TestRestIsBounded(t *testing.T) {
	inBubble(t, func(r *rig) {
		var looks atomic.Int64
		e := r.engineOn(r.stepping(5*time.Second, &looks), r.served(kinds[2]))
		stop := r.serve(e)
		time.Sleep(10 * time.Minute)
		stop()
		if n := looks.Load(); n < 25 || n > 31 {
			r.Errorf("%d looks in ten minutes, one in 20 s is wanted", n)
		}
	})
}
