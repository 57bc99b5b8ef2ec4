package dispatch

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestSlotsAreReservedBeforeTheyAreUsed(t *testing.T) {
	s, ctx := newSlots(5), context.Background()
	if n := s.reserve(ctx, 3); n != 3 || s.spend(2) != 2 || s.taken(5) != 2 {
		t.Errorf("reserved %d of 5, %d taken", n, s.taken(5))
	}
	if n := s.reserve(ctx, 9); n != 3 || s.spend(9) != 3 || s.taken(5) != 5 {
		t.Errorf("reserved %d of the other 3, %d taken", n, s.taken(5))
	}
	s.release(1)
	if n := s.reserve(ctx, 3); n != 1 || s.taken(5) != 4 || s.spend(0) != 0 || s.free != 1 {
		t.Errorf("reserved %d, %d taken, %d free", n, s.taken(5), s.free)
	}
}

func TestReserveWaitsForASlotAndEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		s.reserve(context.Background(), 1)
		s.spend(1)
		time.AfterFunc(time.Second, func() { s.release(1) })
		began := time.Now()
		if n := s.reserve(context.Background(), 8); n != 1 || time.Since(began) != time.Second {
			t.Errorf("%d after %s", n, time.Since(began))
		}
		s.spend(1)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if n := s.reserve(ctx, 1); n != 0 {
			t.Errorf("%d of none", n)
		}
	})
}

// Who gathers waits for enough slots, but not longer than until a moment, and not
// once its context has ended.
func TestGatherWaitsForManySlotsAndNotForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(4)
		s.reserve(context.Background(), 4)
		s.spend(4)
		gather := func(ctx context.Context, longest time.Duration) time.Duration {
			began := time.Now()
			s.gather(ctx, 2, began.Add(longest))
			return time.Since(began)
		}
		s.release(1)
		if took := gather(context.Background(), time.Second); took != time.Second {
			t.Errorf("one of two free: waited %s", took)
		}
		time.AfterFunc(time.Second, func() { s.release(1) })
		if took := gather(context.Background(), time.Minute); took != time.Second {
			t.Errorf("the second free after a second: waited %s", took)
		}
		if took := gather(context.Background(), time.Minute); took != 0 {
			t.Errorf("both free: waited %s", took)
		}
		s.reserve(context.Background(), 1)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if took := gather(ctx, time.Minute); took != time.Second {
			t.Errorf("with a context of a second: waited %s", took)
		}
	})
}

// What comes back from its pause does not wait for a claim that hangs with the
// slots that it has set aside; what that claim brings has fewer then.
func TestWhatWasParkedTakesFromAClaimThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := newSlots(3), context.Background()
		s.reserve(ctx, 1)
		s.spend(1)
		s.park()
		began := time.Now()
		if n := s.reserve(ctx, 9); n != 3 || !s.unpark(ctx) || time.Since(began) != hurry {
			t.Fatalf("reserved %d of 3, waited %s", n, time.Since(began))
		}
		if n := s.spend(3); n != 2 || s.taken(3) != 3 {
			t.Errorf("the claim spent %d, %d are taken", n, s.taken(3))
		}
		s.release(3)
		if s.free != 3 || s.parked != 0 || len(s.waiting) != 0 {
			t.Errorf("%d free, %d parked, %d waiting", s.free, s.parked, len(s.waiting))
		}
	})
}

// What comes back from a pause goes before anything new, in the order of its
// coming.
func TestWhatWasParkedGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := newSlots(1), context.Background()
		s.reserve(ctx, 1)
		s.spend(1)
		var mu sync.Mutex
		var order []int
		note := func(i int) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, i)
		}
		var wg sync.WaitGroup
		s.parked = 3
		for i := range 3 {
			wg.Go(func() {
				if s.unpark(ctx) {
					note(i)
					time.Sleep(time.Second)
					s.release(1)
				}
			})
			synctest.Wait()
		}
		wg.Go(func() {
			s.reserve(ctx, 1)
			s.spend(1)
			note(99)
			s.release(1)
		})
		synctest.Wait()
		s.release(1)
		wg.Wait()
		if len(order) != 4 || order[0] != 0 || order[1] != 1 || order[2] != 2 || order[3] != 99 {
			t.Errorf("order %v", order)
		}
		if s.free != 1 || s.parked != 0 {
			t.Errorf("%d free, %d parked", s.free, s.parked)
		}
	})
}

// At the limit of what is parked nothing new is taken in.
func TestParkedAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := newSlots(2), context.Background()
		for range 2 * 16 {
			if s.reserve(ctx, 1) != 1 || s.spend(1) != 1 {
				t.Fatal("no slot")
			}
			s.park()
		}
		brief, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if n := s.reserve(brief, 1); n != 0 {
			t.Errorf("reserved %d beyond the limit", n)
		}
		if !s.unpark(ctx) {
			t.Error("a parked one got no slot")
		}
		if n := s.reserve(ctx, 2); n != 1 {
			t.Errorf("reserved %d", n)
		}
	})
}

// Whoever gives up waiting leaves no slot behind, also where it was handed one at
// that very moment.
func TestNoSlotIsLost(t *testing.T) {
	for range 200 {
		s := newSlots(1)
		s.reserve(context.Background(), 1)
		s.spend(1)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		s.parked = 4
		for range s.parked {
			wg.Go(func() {
				if s.unpark(ctx) {
					s.release(1)
				}
			})
		}
		wg.Go(cancel)
		wg.Go(func() { s.release(1) })
		wg.Wait()
		if s.free != 1 || s.parked != 0 || len(s.waiting) != 0 {
			t.Fatalf("%d free, %d parked, %d waiting", s.free, s.parked, len(s.waiting))
		}
	}
}
