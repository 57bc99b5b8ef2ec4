package dispatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// A graceful stop claims nothing more, gives back what was not started, without a
// crash and due at once, and lets running effects end within the grace period.
func TestGracefulStop(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.far.takes = 8 * time.Second
				running := r.enqueue(k, 3)
				stopRunning := r.serve(r.engine(r.served(k)))
				time.Sleep(time.Second)
				preparing := r.enqueue(k, 3)
				slow := r.served(k)
				deliver := slow.Deliver
				slow.Deliver = func(ctx context.Context, t *Task) error {
					time.Sleep(5 * time.Second)
					return deliver(ctx, t)
				}
				stopPreparing := r.serve(r.engine(slow))
				time.Sleep(time.Second)
				began := time.Now()
				if err := stopPreparing(); err != nil {
					r.Error(err)
				}
				if err := stopRunning(); err != nil {
					r.Error(err)
				}
				if took := time.Since(began); took > 8*time.Second {
					r.Errorf("stopped after %s", took)
				}
				late := r.enqueue(k, 1)
				for _, ref := range running {
					r.is(ref, lifecycle.Succeeded, "", false)
				}
				for _, ref := range append(preparing, late...) {
					r.is(ref, lifecycle.Pending, "", false)
					rec := r.record(ref)
					if rec.State.Crashes != 0 || rec.State.Attempts != 0 || rec.State.DueIn > 0 {
						r.Errorf("%d crashes, %d attempts, due in %s", rec.State.Crashes, rec.State.Attempts, rec.State.DueIn)
					}
				}
				if len(r.far.log) != 3 {
					r.Errorf("sent %d times", len(r.far.log))
				}
			})
		})
	}
}

// What is claimed at the moment of the stop is given back.
func TestClaimDuringTheStopIsGivenBack(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		refs := r.enqueue(k, 5)
		h := &hooked{Store: r.store}
		var stopping context.CancelFunc
		h.claim = func(ctx context.Context, req driver.ClaimRequest) ([]driver.Claimed, error) {
			out, err := r.store.Claim(ctx, req)
			stopping()
			time.Sleep(time.Second)
			if ctx.Err() != nil {
				r.Error("the claim was cut off by the stop: what it took would be held until its lease ends")
			}
			return out, err
		}
		ctx, cancel := context.WithCancel(context.Background())
		stopping = cancel
		s := r.served(k)
		s.Deliver = func(context.Context, *Task) error {
			r.Error("its preparation was begun after the stop")
			return nil
		}
		if err := r.engineOn(h, s).Serve(ctx); err != nil {
			r.Error(err)
		}
		for _, ref := range refs {
			r.is(ref, lifecycle.Pending, "", false)
			if s := r.record(ref).State; s.Generation != 1 || s.Crashes != 0 {
				r.Errorf("generation %d, %d crashes", s.Generation, s.Crashes)
			}
		}
	})
}

// Effects that do not end within the grace period are cancelled, and what they
// then say is written down.
func TestEffectsAreCancelledAfterTheGrace(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				k.contract.Timeout = 40 * time.Second
				r.far.script(hang, accept)
				ref := r.enqueue(k, 1)[0]
				s := r.served(k)
				s.Deliver = func(_ context.Context, t *Task) error { // its own context, as careless code has
					return t.Effect(context.Background(), t.Intent.Digest, func(ctx context.Context, a Attempt) error {
						return r.far.receive(ctx, t, a)
					})
				}
				stop := r.serve(r.engine(s))
				time.Sleep(time.Second)
				began := time.Now()
				if err := stop(); err != nil {
					r.Error(err)
				}
				if took := time.Since(began); took != 20*time.Second {
					r.Errorf("stopped after %s", took)
				}
				switch {
				case !k.idempotent():
					r.is(ref, k.stopped(), lifecycle.OutcomeUnknown, true)
				case k.process():
					r.is(ref, lifecycle.Failed, lifecycle.Interrupted, true)
				default:
					r.is(ref, lifecycle.Pending, "", true)
				}
			})
		})
	}
}

// Loops that wait when the engine stops get the grace period to finish; those left
// then fail with INTERRUPTED, certain.
func TestLoopsFinishWithinTheGraceOrAreInterrupted(t *testing.T) {
	inBubble(t, func(r *rig) {
		short, long := r.enqueue(loop, 3), kinds[4]
		long.name = "long"
		left := r.enqueue(long, 3)
		r.far.script(refuse, accept)
		slow := r.served(long)
		slow.Schedule.Waits = []time.Duration{25 * time.Second}
		stop := r.serve(r.engine(r.served(loop), slow))
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		if err := stop(); err != nil {
			r.Error(err)
		}
		if took := time.Since(began); took != 20*time.Second {
			r.Errorf("stopped after %s", took)
		}
		for _, ref := range short {
			r.is(ref, lifecycle.Succeeded, "", false)
		}
		for _, ref := range left {
			r.is(ref, lifecycle.Failed, lifecycle.Interrupted, false)
		}
	})
}

// An effect that ignores the end of its context does not keep Serve from ending;
// Serve says so.
func TestStopReturnsAlthoughAnEffectHangs(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		ref := r.enqueue(k, 1)[0]
		ever := make(chan struct{})
		stop := r.serve(r.engine(r.servedBy(k, func(context.Context, *Task, Attempt) error {
			<-ever
			return nil
		})))
		time.Sleep(time.Second)
		began := time.Now()
		if err := stop(); err == nil || err.Error() != "1 deliveries did not end in time" {
			r.Errorf("error %v", err)
		}
		if took := time.Since(began); took > 32*time.Second {
			r.Errorf("stopped after %s", took)
		}
		r.is(ref, lifecycle.Delivering, "", false)
		close(ever)
		time.Sleep(time.Second)
		r.is(ref, lifecycle.Succeeded, "", false) // it was known, and nobody had taken it since
	})
}

// A database that does not answer keeps Serve no longer than one that fails, whenever
// the write began that hangs.
func TestStopReturnsAlthoughWritesHang(t *testing.T) {
	for _, takes := range []time.Duration{0, 5 * time.Second, 15 * time.Second} {
		inBubble(t, func(r *rig) {
			k := kinds[2]
			ref := r.enqueue(k, 1)[0]
			h := &hooked{Store: r.store}
			h.apply = func(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
				if ts[0].Set.Started {
					return r.store.Apply(ctx, ts)
				}
				<-ctx.Done()
				return nil, ctx.Err()
			}
			sent := make(chan struct{})
			stop := r.serve(r.engineOn(h, r.servedBy(k, func(context.Context, *Task, Attempt) error {
				close(sent)
				time.Sleep(takes)
				return nil
			})))
			<-sent
			began := time.Now()
			stop()
			if took := time.Since(began); took > 31*time.Second {
				r.Errorf("an effect of %s: stopped after %s", takes, took)
			}
			r.is(ref, lifecycle.Delivering, "", false)
			time.Sleep(time.Minute)
		})
	}
}

// An engine that has nothing to do stops at once, also while the database is down.
func TestIdleEngineStopsAtOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		stop := r.serve(r.engine(r.served(kinds[2])))
		time.Sleep(time.Minute)
		began := time.Now()
		if err := stop(); err != nil || time.Since(began) > 0 {
			r.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// A lingering context ends its time after the first, keeps its values, and leaves
// nothing behind.
func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		first, end := context.WithCancel(context.WithValue(context.Background(), key{}, "value"))
		second, cancel := linger(first, 10*time.Second)
		defer cancel()
		third, cancelThird := linger(second, 5*time.Second)
		defer cancelThird()
		if third.Value(key{}) != "value" {
			t.Error("the values are lost")
		}
		time.Sleep(time.Hour)
		if second.Err() != nil {
			t.Error("ended on its own")
		}
		end()
		began := time.Now()
		<-second.Done()
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("ended after %s", took)
		}
		<-third.Done()
		if took := time.Since(began); took != 15*time.Second {
			t.Errorf("the third ended after %s", took)
		}
		fourth, cancelFourth := linger(first, time.Second) // of what has ended already
		cancelFourth()
		<-fourth.Done()
		time.Sleep(time.Minute)
	})
}
