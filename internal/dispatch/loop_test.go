package dispatch

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// The built-in loop: kinds[4], which is not idempotent.
var loop = kinds[4]

// gaps are the times between the arrivals under a key.
func (f *receiver) gaps(key driver.ID) (out []time.Duration) {
	came := f.arrivals(key)
	for i := 1; i < len(came); i++ {
		out = append(out, came[i].at.Sub(came[i-1].at))
	}
	return out
}

// The loop tries three times, pausing 1 s and then 5 s, under one lease and one
// owner, each attempt with a start of its own.
func TestLoopTriesThreeTimesUnderOneLease(t *testing.T) {
	for _, answer := range []reply{refuse, reject, unsent} {
		inBubble(t, func(r *rig) {
			r.far.script(answer)
			ref := r.enqueue(loop, 1)[0]
			starts := 0
			h := &hooked{Store: r.store}
			h.apply = func(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
				held, err := r.store.Apply(ctx, ts)
				if held[0] && ts[0].Set.Started {
					starts++
				}
				return held, err
			}
			stop := r.serve(r.engineOn(h, r.served(loop)))
			r.settled(time.Minute, ref)
			stop()
			if got := r.far.gaps(ref); !slices.Equal(got, []time.Duration{time.Second, 5 * time.Second}) {
				r.Errorf("pauses %v", got)
			}
			if s := r.record(ref).State; s.Generation != 1 || s.Attempts != 3 || starts != 3 {
				r.Errorf("generation %d, %d attempts, %d starts", s.Generation, s.Attempts, starts)
			}
		})
	}
}

// change brings an event about that no owner reports.
func (r *rig) change(ref driver.ID, kind lifecycle.EventKind) {
	r.Helper()
	tr := lifecycle.DefaultPolicy.Apply(r.record(ref).State, lifecycle.Event{Kind: kind})
	tr.Ref = ref
	if held, err := r.store.Apply(context.Background(), []lifecycle.Transition{tr}); err != nil || !held[0] {
		r.Fatalf("%s: %v, %v", kind, held, err)
	}
}

// A message that is erased or cancelled while its loop waits is not tried again.
func TestLoopEndsWhereItsMessageWasTakenAway(t *testing.T) {
	for name, take := range map[string]func(r *rig, ref driver.ID){
		"cancelled": func(r *rig, ref driver.ID) { r.change(ref, lifecycle.EvCancel) },
		"erased": func(r *rig, _ driver.ID) {
			if n, err := r.store.Erase(context.Background(), []string{"person 1"}); n != 1 || err != nil {
				r.Fatal(n, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.far.script(refuse)
				ref := r.enqueueNew(loop, 1, func(_ int, n *driver.New) { n.Subject = "person 1" })[0]
				stop := r.serve(r.engine(r.served(loop)))
				time.Sleep(500 * time.Millisecond)
				take(r, ref)
				before := r.record(ref).State.Revision
				time.Sleep(5 * time.Minute)
				stop()
				if len(r.far.log) != 1 || r.record(ref).State.Revision != before {
					r.Errorf("sent %d times, revision %d after %d", len(r.far.log), r.record(ref).State.Revision, before)
				}
			})
		})
	}
}

// A stranded message that a person has resolved fences its owner's loop.
func TestLoopEndsWhereItsMessageWasResolved(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.far.script(hang, accept)
		ref := r.enqueue(loop, 1)[0]
		goOn := make(chan struct{}) // it ignores its context, as hung code does
		s := r.servedBy(loop, func(ctx context.Context, t *Task, a Attempt) error {
			err := r.far.receive(ctx, t, a)
			<-goOn
			return err
		})
		stop := r.serve(r.engine(s))
		time.Sleep(2 * time.Minute)
		r.change(ref, lifecycle.EvResolved)
		before := r.record(ref).State.Revision
		close(goOn)
		time.Sleep(time.Minute)
		stop()
		if r.record(ref).State.Revision != before || len(r.far.log) != 1 || !slices.Equal(r.log(ref), []string{"late unknown"}) {
			r.Errorf("revision %d after %d, sent %d times, log %v", r.record(ref).State.Revision, before, len(r.far.log), r.log(ref))
		}
	})
}

// A message that waits for its next attempt occupies no worker.
func TestWaitingLoopHoldsNoSlot(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.far.script(refuse, refuse, accept)
		refs := r.enqueue(loop, 10)
		began := time.Now()
		stop := r.serve(New(Config{Store: r.store, Workers: 1, Served: []*Served{r.served(loop)}}))
		r.settled(time.Minute, refs...)
		if took := time.Since(began); took > 7*time.Second {
			r.Errorf("ten loops of 6 s took %s in one slot", took)
		}
		stop()
		for _, ref := range refs {
			r.is(ref, lifecycle.Succeeded, "", false)
		}
	})
}

// A loop whose pause is over goes before anything new: its lease is running.
func TestLoopGoesBeforeNewWork(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		r.far.takes = 900 * time.Millisecond
		ref := r.enqueue(loop, 1)[0]
		r.far.answer = func(a arrival, n int) reply {
			if a.key == ref && n < 3 {
				return refuse
			}
			return accept
		}
		e := New(Config{Store: r.store, Workers: 1, Served: []*Served{r.served(loop), r.served(k)}})
		stop := r.serve(e)
		time.Sleep(100 * time.Millisecond)
		backlog := r.enqueue(k, 100)
		r.settled(time.Minute, ref)
		r.is(ref, lifecycle.Succeeded, "", false)
		for _, gap := range r.far.gaps(ref) {
			if gap > 8*time.Second {
				r.Errorf("waited %s for its turn", gap)
			}
		}
		r.settled(5*time.Minute, backlog...)
		stop()
	})
}

// Nor does it wait for a claim that hangs with all slots set aside for it. What that
// claim brings in the end has one slot less, and the rest is given back.
func TestLoopDoesNotWaitForAClaimThatHangs(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		r.far.takes = 4 * time.Second
		ref := r.enqueue(loop, 1)[0]
		r.far.answer = func(a arrival, n int) reply {
			if a.key == ref && n < 3 {
				return refuse
			}
			return accept
		}
		h := &hooked{Store: r.store}
		claims := 0
		h.claim = func(ctx context.Context, req driver.ClaimRequest) ([]driver.Claimed, error) {
			out, err := r.store.Claim(ctx, req)
			if claims++; claims > 1 && len(out) > 0 {
				time.Sleep(20 * time.Second)
			}
			return out, err
		}
		stop := r.serve(New(Config{Store: h, Workers: 1, Served: []*Served{r.served(loop), r.served(k)}}))
		time.Sleep(100 * time.Millisecond)
		backlog := r.enqueue(k, 5)
		r.settled(22*time.Second, ref)
		r.is(ref, lifecycle.Succeeded, "", false)
		r.settled(10*time.Minute, backlog...)
		stop()
		if r.far.most != 1 || r.record(backlog[0]).State.Generation != 2 {
			r.Errorf("%d effects at once in a slot, generation %d", r.far.most, r.record(backlog[0]).State.Generation)
		}
	})
}

// A receiver that asks a loop for more time than its lease has gets as much as
// leaves room for the attempts that remain; the loop is not interrupted by it.
func TestLoopWaitsNoLongerThanItsLeaseHasRoomFor(t *testing.T) {
	inBubble(t, func(r *rig) {
		ref := r.enqueue(loop, 1)[0]
		n := 0
		s := r.servedBy(loop, func(ctx context.Context, t *Task, a Attempt) error {
			r.far.receive(ctx, t, a)
			if n++; n < 3 {
				return &Definite{Event: lifecycle.EvRefused, Wait: time.Hour}
			}
			return nil
		})
		stop := r.serve(r.engine(s))
		r.settled(time.Minute, ref)
		stop()
		r.is(ref, lifecycle.Succeeded, "", false)
		// Of 60 s: 5 s are the safety margin, 10 s the settle margin, 20 s two more
		// attempts, and 5 s their pause. Then 10 s for the last attempt alone.
		if got := r.far.gaps(ref); !slices.Equal(got, []time.Duration{20 * time.Second, 15 * time.Second}) {
			r.Errorf("pauses %v", got)
		}
	})
}

// A loop whose lease has no room left for another attempt ends as interrupted, and
// not as a message that nobody drives.
func TestLoopWithoutRoomForAnotherAttemptIsInterrupted(t *testing.T) {
	inBubble(t, func(r *rig) {
		ref := r.enqueue(loop, 1)[0]
		stop := r.serve(r.engine(r.servedBy(loop, func(ctx context.Context, t *Task, a Attempt) error {
			time.Sleep(45 * time.Second) // it ignores its context
			r.far.script(refuse)
			return r.far.receive(ctx, t, a)
		})))
		r.settled(50*time.Second, ref)
		stop()
		r.is(ref, lifecycle.Failed, lifecycle.Interrupted, false)
		if len(r.far.log) != 1 || !slices.Equal(r.log(ref), []string{"refused"}) {
			r.Errorf("sent %d times, log %v", len(r.far.log), r.log(ref))
		}
	})
}

// Loops that wait are bounded too: what cannot be held is not claimed.
func TestParkedLoopsAreBounded(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.far.script(refuse, refuse, accept)
		refs := r.enqueue(loop, 200)
		s := r.served(loop)
		s.Schedule.Waits = []time.Duration{5 * time.Second}
		h := &hooked{Store: r.store}
		most := 0
		h.claim = func(ctx context.Context, req driver.ClaimRequest) ([]driver.Claimed, error) {
			out, err := r.store.Claim(ctx, req)
			held := 0
			for _, d := range deliveries(r.store) {
				if st := d["status"].(int); st == isLeased || st == isDelivering {
					held++
				}
			}
			most = max(most, held)
			return out, err
		}
		stop := r.serve(New(Config{Store: h, Workers: 2, Served: []*Served{s}}))
		r.settled(30*time.Minute, refs...)
		stop()
		if most > 2+32 || most < 32 {
			r.Errorf("%d held at once", most)
		}
	})
}

// A loop whose process dies while it waits leaves a message that keeps showing as
// delivering, is sent by nobody else, and is stranded and certain when the lease
// has ended. One that dies in flight is uncertain.
func TestMessageOfADeadLoopIsStranded(t *testing.T) {
	for answer, inFlight := range map[reply]bool{refuse: false, accept: true} {
		inBubble(t, func(r *rig) {
			ref := r.enqueue(loop, 1)[0]
			r.far.script(answer)
			h := &hooked{Store: r.store}
			died := time.Time{}
			h.apply = func(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
				if len(r.far.arrivals(ref)) > 0 && (inFlight || !died.IsZero()) {
					return nil, errDown // dead
				}
				if len(r.far.arrivals(ref)) > 0 {
					died = time.Now()
				}
				return r.store.Apply(ctx, ts)
			}
			stopDead := r.serve(r.engineOn(h, r.served(loop)))
			time.Sleep(500 * time.Millisecond)
			go stopDead()
			stop := r.serve(r.engine(r.served(loop)))
			time.Sleep(10 * time.Minute)
			stop()
			s := r.record(ref).State
			if s.Status != lifecycle.Delivering || !s.Stranded() || s.InFlight != inFlight || s.Uncertain || len(r.far.log) != 1 {
				r.Errorf("%s, stranded %v, in flight %v, uncertain %v, sent %d times", s.Status, s.Stranded(), s.InFlight, s.Uncertain, len(r.far.log))
			}
			if at := r.record(ref).ReviewAt; at.IsZero() || at.After(time.Now()) {
				r.Errorf("in review from %s on", at)
			}
		})
	}
}
