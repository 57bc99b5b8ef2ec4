package dispatch

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/consign-go/consign/internal/driver"
)

// patient is an engine that looks at the database once an hour unless it is woken.
func (r *rig) patient(claims *atomic.Int64, served ...*Served) *Engine {
	h := &hooked{Store: r.store}
	h.claim = func(ctx context.Context, req driver.ClaimRequest) ([]driver.Claimed, error) {
		claims.Add(1)
		return r.store.Claim(ctx, req)
	}
	return New(Config{Store: h, Served: served, Poll: time.Hour})
}

// A wake-up makes delivery begin at once; without it the next look finds what is
// due all the same.
func TestWakeShortensTheWaitAndIsNeverNeeded(t *testing.T) {
	inBubble(t, func(r *rig) {
		var claims atomic.Int64
		e := r.patient(&claims, r.served(kinds[2]))
		stop := r.serve(e)
		time.Sleep(3 * time.Hour)
		woken := r.enqueue(kinds[2], 1)
		e.Wake()
		synctest.Wait()
		if n := len(r.far.arrivals(woken[0])); n != 1 {
			r.Errorf("sent %d times after the wake-up", n)
		}
		time.Sleep(10 * time.Hour)
		missed := r.enqueue(kinds[2], 1)
		synctest.Wait()
		if n := len(r.far.arrivals(missed[0])); n != 0 {
			r.Errorf("sent %d times without a look", n)
		}
		r.settled(time.Hour+time.Minute, missed...)
		stop()
	})
}

// Hints that come together are one look, and none is lost that comes during one.
func TestWakeUpsCoalesceAndNoneIsLost(t *testing.T) {
	inBubble(t, func(r *rig) {
		var claims atomic.Int64
		var slow atomic.Bool
		e := r.patient(&claims, r.served(kinds[2]))
		h := e.store.Driver.(*hooked)
		claim := h.claim
		h.claim = func(ctx context.Context, req driver.ClaimRequest) ([]driver.Claimed, error) {
			if slow.Load() {
				time.Sleep(time.Second)
			}
			return claim(ctx, req)
		}
		stop := r.serve(e)
		time.Sleep(3 * time.Hour)
		before := claims.Load()
		slow.Store(true)
		for range 1000 {
			e.Wake()
			synctest.Wait() // the first of them has begun a look, which takes a second
		}
		slow.Store(false)
		time.Sleep(2 * time.Second)
		if n := claims.Load() - before; n < 3 || n > 4 { // a look is two claims; the other hints are one more
			r.Errorf("%d claims for wake-ups that came together", n)
		}
		time.Sleep(10 * time.Hour)
		for range 200 {
			ref := r.enqueue(kinds[2], 1)[0]
			e.Wake()
			synctest.Wait()
			if n := len(r.far.arrivals(ref)); n != 1 {
				r.Fatalf("sent %d times after its wake-up", n)
			}
		}
		stop()
	})
}

// While there is something to do the database is looked at often, while there is
// nothing less and less, down to once in a poll.
func TestLooksBecomeRareWhileThereIsNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		var claims atomic.Int64
		e := r.patient(&claims, r.served(kinds[2]))
		e.Poll = time.Second
		stop := r.serve(e)
		time.Sleep(10 * time.Second)
		before := claims.Load()
		time.Sleep(100 * time.Second)
		if n := claims.Load() - before; n > 2*101 {
			r.Errorf("%d claims in 100 s", n)
		}
		r.enqueue(kinds[2], 1)
		time.Sleep(time.Second)
		before = claims.Load()
		time.Sleep(100 * time.Millisecond)
		if n := claims.Load() - before; n > 10 {
			r.Errorf("%d claims in 0.1 s", n)
		}
		stop()
	})
}

// What was put off is taken up when it is due and not at the next look: a retry,
// and what was undecided.
func TestWhatWasPutOffIsTakenUpWhenDue(t *testing.T) {
	inBubble(t, func(r *rig) {
		var claims atomic.Int64
		r.far.script(refuse, refuse, accept)
		undecided, k := kinds[2], kinds[0]
		undecided.name = "undecided"
		s := r.served(undecided)
		deliver, calls := s.Deliver, 0
		s.Deliver = func(ctx context.Context, t *Task) error {
			if calls++; calls == 1 {
				return errBroken
			}
			return deliver(ctx, t)
		}
		e := r.patient(&claims, r.served(k), s)
		ref, other := r.enqueue(k, 1)[0], r.enqueue(undecided, 1)[0]
		began := time.Now()
		stop := r.serve(e)
		r.settled(20*time.Second, ref, other)
		if took := time.Since(began); took > 12*time.Second {
			r.Errorf("took %s", took)
		}
		stop()
	})
}

// The next message of a task is sent as soon as the one before it has come to its
// end, in order.
func TestNextOfATaskFollowsAtOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		var claims atomic.Int64
		k := kinds[4]
		r.far.takes = time.Second
		refs := r.enqueueNew(k, 20, func(i int, n *driver.New) { n.Task, n.Index = "task", 20-i })
		began := time.Now()
		stop := r.serve(r.patient(&claims, r.served(k)))
		r.settled(time.Hour, refs...)
		if took := time.Since(began); took > 21*time.Second {
			r.Errorf("20 messages of a second took %s", took)
		}
		stop()
		for i, a := range r.far.log {
			if a.key != refs[19-i] {
				r.Errorf("number %d was sent out of order", i)
			}
		}
	})
}

// A hint whose look fails is not lost: the next look follows soon. While the database
// is down looks become as rare as they are while there is nothing.
func TestFailedLookIsRepeatedSoon(t *testing.T) {
	inBubble(t, func(r *rig) {
		var claims, failures atomic.Int64
		e := r.patient(&claims, r.served(kinds[2]))
		h := e.store.Driver.(*hooked)
		claim := h.claim
		h.claim = func(ctx context.Context, req driver.ClaimRequest) ([]driver.Claimed, error) {
			if failures.Add(-1) >= 0 {
				claims.Add(1)
				return nil, errDown
			}
			return claim(ctx, req)
		}
		stop := r.serve(e)
		time.Sleep(3*time.Hour + time.Minute)
		for _, n := range []int64{1, 3} {
			ref := r.enqueue(kinds[2], 1)[0]
			failures.Store(n)
			e.Wake()
			r.settled(time.Second, ref)
			time.Sleep(3*time.Hour + time.Minute)
		}
		failures.Store(1000)
		before := claims.Load()
		e.Wake()
		time.Sleep(10 * time.Hour)
		if n := claims.Load() - before; n > 60 {
			r.Errorf("%d claims in ten hours", n)
		}
		stop()
	})
}
