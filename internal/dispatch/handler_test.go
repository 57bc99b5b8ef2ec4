package dispatch

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/lifecycle"
)

// An effect works once: a second call is refused before its function runs,
// whenever it comes, and the first one's outcome stands.
func TestEffectWorksOnce(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				ref := r.enqueue(k, 1)[0]
				var left *Task
				sent := 0
				s := &Served{Profile: k.profile, Kind: k.name, Contract: k.contract}
				call := func(ctx context.Context, t *Task) error {
					return t.Effect(ctx, t.Intent.Digest, func(context.Context, Attempt) error {
						sent++
						time.Sleep(time.Second)
						return nil
					})
				}
				s.Deliver = func(ctx context.Context, t *Task) error {
					left = t
					var wg sync.WaitGroup
					wg.Go(func() {
						time.Sleep(time.Millisecond)
						if err := call(ctx, t); err != errTwice {
							r.Errorf("a second call during the first: %v", err)
						}
					})
					if err := call(ctx, t); err != nil {
						r.Errorf("the first call: %v", err)
					}
					wg.Wait()
					if err := call(ctx, t); err != errTwice {
						r.Errorf("a second call after the first: %v", err)
					}
					return nil
				}
				r.visit(r.engine(s), ref)
				if err := call(context.Background(), left); err != errTwice {
					r.Errorf("a call after the delivery: %v", err)
				}
				r.is(ref, lifecycle.Succeeded, "", false)
				if sent != 1 {
					r.Errorf("sent %d times", sent)
				}
			})
		})
	}
}

// A success is settled as soon as the effect returns, before the handler goes on;
// what the handler does then changes the code alone, once (T9).
func TestSuccessIsSettledBeforeTheHandlerGoesOn(t *testing.T) {
	for name, after := range map[string]func() error{
		"error":  func() error { return errBroken },
		"panic":  func() error { panic("callback") },
		"stop":   func() error { return &Stop{Code: lifecycle.CancelledByHandler} },
		"exit":   func() error { runtime.Goexit(); return nil },
		"twice":  func() error { return errTwice },
		"return": func() error { return nil },
	} {
		for _, k := range kinds {
			t.Run(name+"/"+k.name, func(t *testing.T) {
				inBubble(t, func(r *rig) {
					ref := r.enqueue(k, 1)[0]
					s := r.served(k)
					deliver := s.Deliver
					s.Deliver = func(ctx context.Context, t *Task) error {
						if err := deliver(ctx, t); err != nil {
							r.Error(err)
						}
						r.is(ref, lifecycle.Succeeded, "", false)
						return after()
					}
					stop := r.serve(r.engine(s))
					r.settled(time.Minute, ref)
					stop()
					want := lifecycle.PostEffectCallbackFailed
					if name == "return" {
						want = ""
					}
					r.is(ref, lifecycle.Succeeded, want, false)
					if len(r.far.log) != 1 || len(r.log(ref)) != 0 {
						r.Errorf("sent %d times, log %v", len(r.far.log), r.log(ref))
					}
				})
			})
		}
	}
}

// A delivery function that ends without its effect ends or puts off the delivery
// as it says; nothing is sent and no attempt counts.
func TestEndingsBeforeTheEffect(t *testing.T) {
	stop := func(c lifecycle.Code) func() error { return func() error { return &Stop{Code: c} } }
	for name, c := range map[string]struct {
		deliver func() error
		status  func(k kind) lifecycle.Status
		code    lifecycle.Code
	}{
		"nothing":               {func() error { return nil }, kind.stopped, lifecycle.EffectNotCalled},
		"no longer wanted":      {stop(lifecycle.CancelledByHandler), kind.cancelled, lifecycle.CancelledByHandler},
		"wrapped":               {func() error { return errors.Join(&Stop{Code: lifecycle.RecordChanged}) }, kind.pending, ""},
		"record changed":        {stop(lifecycle.RecordChanged), kind.stopped, lifecycle.RecordChanged},
		"undecided":             {func() error { return errBroken }, kind.pending, ""},
		"no authority":          {stop(lifecycle.AuthorityMissing), kind.pending, ""},
		"a code that is fenced": {stop(lifecycle.Fenced), kind.pending, ""},
		"panic":                 {func() error { panic("early") }, kind.pending, ""},
		"exit":                  {func() error { runtime.Goexit(); return nil }, kind.pending, ""},
		"unlucky error":         {func() error { return unlucky{text: true, unwrap: true} }, kind.pending, ""},
		"typed nil":             {func() error { return (*Stop)(nil) }, kind.pending, ""},
	} {
		for _, k := range kinds[:3] {
			t.Run(name+"/"+k.name, func(t *testing.T) {
				inBubble(t, func(r *rig) {
					ref := r.enqueue(k, 1)[0]
					served := r.served(k)
					served.Deliver = func(context.Context, *Task) error { return c.deliver() }
					stop := r.serve(r.engine(served))
					r.until(time.Minute, "it is given back", func() bool {
						return r.record(ref).State.Generation > 0 && r.record(ref).State.Status != lifecycle.Leased
					})
					stop()
					r.is(ref, c.status(k), c.code, false)
					rec := r.record(ref)
					if rec.State.Attempts != 0 || len(r.far.log) != 0 {
						r.Errorf("%d attempts, sent %d times", rec.State.Attempts, len(r.far.log))
					}
					if wait := rec.DueAt.Sub(rec.UpdatedAt); rec.State.Status == lifecycle.Pending && wait < 2*time.Second {
						r.Errorf("due again after %s", wait)
					}
				})
			})
		}
	}
}

func (k kind) pending() lifecycle.Status { return lifecycle.Pending }

func (k kind) cancelled() lifecycle.Status {
	if k.profile == lifecycle.Work {
		return lifecycle.Cancelled
	}
	return lifecycle.Failed
}

// The context of a delivery function ends ahead of the lease, so that what could not
// be prepared in time is put off and no crash.
func TestPreparationEndsBeforeTheLease(t *testing.T) {
	for _, k := range kinds {
		inBubble(t, func(r *rig) {
			ref := r.enqueue(k, 1)[0]
			s := r.served(k)
			s.Deliver = func(ctx context.Context, _ *Task) error {
				<-ctx.Done()
				return ctx.Err()
			}
			began := time.Now()
			r.visit(r.engine(s), ref)
			if took := time.Since(began); took != k.contract.Lease-lifecycle.DefaultPolicy.SettleMargin/2 {
				r.Errorf("ended after %s", took)
			}
			r.is(ref, lifecycle.Pending, "", false)
			if rec := r.record(ref); rec.State.Crashes != 0 || rec.LastError != context.DeadlineExceeded.Error() {
				r.Errorf("%d crashes, %q", rec.State.Crashes, rec.LastError)
			}
		})
	}
}

// An effect that was left behind in another goroutine is waited for, and its
// outcome written down, before the slot is free.
func TestEffectLeftBehindIsWaitedFor(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[0]
		ref := r.enqueue(k, 1)[0]
		s := r.served(k)
		s.Deliver = func(ctx context.Context, t *Task) error {
			began := make(chan struct{})
			go t.Effect(ctx, t.Intent.Digest, func(ctx context.Context, a Attempt) error {
				close(began)
				<-ctx.Done()
				return ctx.Err()
			})
			<-began
			return nil
		}
		began := time.Now()
		got := r.visit(r.engine(s), ref)
		if got.Status != lifecycle.ReconciliationRequired || got.Code != lifecycle.OutcomeUnknown {
			r.Errorf("%+v", got)
		}
		if took := time.Since(began); took > time.Second {
			r.Errorf("its context ended after %s only", took)
		}
	})
}

// An effect that was left behind by a goroutine that ended is waited for as well: what
// it says counts, and not that nobody waited for it.
func TestEffectLeftBehindByAnExitIsWaitedFor(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				ref := r.enqueue(k, 1)[0]
				s := r.served(k)
				s.Deliver = func(ctx context.Context, t *Task) error {
					began := make(chan struct{})
					go t.Effect(ctx, t.Intent.Digest, func(ctx context.Context, a Attempt) error {
						close(began)
						<-ctx.Done()
						for range 1000 { // the other goroutine has the time to do something wrong
							runtime.Gosched()
						}
						return nil
					})
					<-began
					runtime.Goexit()
					return nil
				}
				stop := r.serve(r.engine(s))
				r.settled(time.Minute, ref)
				stop()
				r.is(ref, lifecycle.Succeeded, lifecycle.PostEffectCallbackFailed, false)
				if log := r.log(ref); len(log) != 0 {
					r.Errorf("log %v", log)
				}
			})
		})
	}
}

// A goroutine that ends during the effect leaves an unknown outcome behind.
func TestExitDuringTheEffectIsUnknown(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				ref := r.enqueue(k, 1)[0]
				calls := 0
				s := r.servedBy(k, func(ctx context.Context, t *Task, a Attempt) error {
					if calls++; calls == 1 {
						runtime.Goexit()
					}
					return r.far.receive(ctx, t, a)
				})
				stop := r.serve(r.engine(s))
				r.settled(time.Minute, ref)
				stop()
				switch {
				case k.process() && k.idempotent(): // the goroutine was its loop
					r.is(ref, lifecycle.Failed, lifecycle.Interrupted, true)
				case k.idempotent():
					r.is(ref, lifecycle.Succeeded, "", false)
				default:
					r.is(ref, k.stopped(), lifecycle.OutcomeUnknown, true)
				}
			})
		})
	}
}
