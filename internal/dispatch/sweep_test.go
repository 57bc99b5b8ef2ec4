package dispatch

import (
	"context"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// The sweep ends what nobody may claim any more: a passed deadline, a spent crash
// budget, an attempt in flight whose owner vanished and that nobody may repeat; and
// nothing else.
func TestSweepEndsWhatNobodyMayClaim(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				w := newWatcher(r.store)
				dead := newFaulty(r.store, w, func(_ int, op string) (fault, time.Duration) {
					if len(r.far.log) > 0 {
						return failing, 0 // it dies with its first sending
					}
					return healthy, 0
				})
				inFlight := r.enqueue(k, 1)[0]
				stop := r.serve(r.engineOn(dead, r.served(k)))
				time.Sleep(time.Second)
				stop()
				poisoned := r.enqueue(k, 1)[0]
				r.crash(k, 5, poisoned)
				old := k
				old.contract = aged(k.contract, 5*time.Second)
				overdue, fine := r.enqueue(old, 1)[0], r.enqueue(k, 1)[0]
				time.Sleep(2 * time.Minute)
				sweeper := New(Config{Store: r.store})
				n, err := sweeper.SweepOnce(r.Context())
				if err != nil {
					r.Fatal(err)
				}
				r.is(overdue, k.cancelled(), lifecycle.DeadlineExpired, false)
				r.is(poisoned, k.stopped(), lifecycle.Poisoned, false)
				r.is(fine, lifecycle.Pending, "", false)
				want := 2
				switch {
				case k.process() || k.idempotent():
					r.is(inFlight, lifecycle.Delivering, "", false)
				default:
					want = 3
					r.is(inFlight, k.stopped(), lifecycle.OutcomeUnknown, true)
				}
				if n != want {
					r.Errorf("ended %d, want %d", n, want)
				}
				if again, err := sweeper.SweepOnce(r.Context()); again != 0 || err != nil {
					r.Errorf("again %d, %v", again, err)
				}
			})
		})
	}
}

// A sweep goes over more rows than one page holds.
func TestSweepGoesOverAllPages(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[0]
		r.enqueue(k, sweepPage+500)
		k.contract = aged(k.contract, time.Second)
		r.enqueue(k, sweepPage+500)
		time.Sleep(time.Second)
		n, err := New(Config{Store: r.store, Batch: 300}).SweepOnce(r.Context())
		if n != sweepPage+500 || err != nil {
			r.Errorf("ended %d, %v", n, err)
		}
	})
}

// slowWalk is a store whose walks take a while.
type slowWalk struct {
	driver.Driver
	takes time.Duration
	walks []time.Time
}

func (s *slowWalk) Overdue(ctx context.Context, r driver.OverdueRequest) ([]driver.Overdue, driver.Cursor, error) {
	s.walks = append(s.walks, time.Now())
	time.Sleep(s.takes)
	return s.Driver.Overdue(ctx, r)
}

// A sweep that goes on by itself leaves the database alone most of the time,
// however many rows there are; one that is asked for does not wait.
func TestSweepRestsBetweenPages(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.enqueue(kinds[0], 3*sweepPage)
		const takes = 10 * time.Millisecond
		for rest, apart := range map[int]time.Duration{sweepRest: takes * (1 + sweepRest), 0: takes} {
			s := &slowWalk{Driver: r.store, takes: takes}
			if _, err := New(Config{Store: s}).sweep(r.Context(), rest); err != nil {
				r.Fatal(err)
			}
			for i := 1; i < len(s.walks); i++ {
				if d := s.walks[i].Sub(s.walks[i-1]); d != apart {
					r.Errorf("%v between two steps, want %v", d, apart)
				}
			}
			if len(s.walks) < 3 {
				r.Errorf("%d steps", len(s.walks))
			}
		}
	})
}

// Skewed and jumping clocks delay and break nothing: the database's, three hours
// off and leaping back meanwhile, is the only one that counts.
func TestClocksMayDisagree(t *testing.T) {
	for _, skew := range []time.Duration{3 * time.Hour, -3 * time.Hour} {
		for _, k := range kinds {
			inBubble(t, func(r *rig) {
				r.store.Advance(skew)
				r.far.script(refuse, accept)
				r.far.takes = time.Second
				refs := r.enqueue(k, 5)
				stop := r.serve(r.engine(r.served(k)))
				time.Sleep(500 * time.Millisecond)
				r.store.Advance(-time.Minute)
				r.settled(10*time.Minute, refs...)
				stop()
				for _, ref := range refs {
					r.is(ref, lifecycle.Succeeded, "", false)
					if n := len(r.far.arrivals(ref)); n != 2 {
						r.Errorf("%s: sent %d times", k.name, n)
					}
				}
			})
		}
	}
}
