package dispatch

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// visit delivers one intent and returns the result.
func (r *rig) visit(e *Engine, ref driver.ID) Result {
	r.Helper()
	got, found, err := e.Visit(context.Background(), ref)
	if err != nil || !found {
		r.Fatalf("visit: found %v, %v", found, err)
	}
	return got
}

// When the effect runs, its start is in the store: in flight, under this owner and
// generation, with the digest of the request.
func TestEffectIsCalledOnlyAfterItsStartIsDurable(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				ref := r.enqueue(k, 1)[0]
				send := func(ctx context.Context, t *Task, a Attempt) error {
					s := r.record(ref).State
					if s.Status != lifecycle.Delivering || !s.InFlight || s.Digest != t.Intent.Digest ||
						s.Owner != t.owner || s.Generation != a.Generation || a.Key != ref || a.Number != 1 {
						r.Errorf("the effect runs while the row says %+v", s)
					}
					return r.far.receive(ctx, t, a)
				}
				r.visit(r.engine(r.servedBy(k, send)), ref)
				r.is(ref, lifecycle.Succeeded, "", false)
			})
		})
	}
}

// The context of an effect ends after its timeout, and always a safety margin
// ahead of the lease as counted from before the claim was sent.
func TestEffectContextEndsBeforeTheLease(t *testing.T) {
	for name, c := range map[string]struct {
		timeout, claim, start, want time.Duration // want: from before the claim was sent
	}{
		"its own timeout":         {20 * time.Second, 0, 0, 20 * time.Second},
		"after a slow claim":      {20 * time.Second, 9 * time.Second, 0, 29 * time.Second},
		"after a slow start":      {20 * time.Second, 0, 9 * time.Second, 29 * time.Second},
		"cut by the lease":        {48 * time.Second, 0, 9 * time.Second, 55 * time.Second},
		"cut by a slow claim too": {40 * time.Second, 9 * time.Second, 9 * time.Second, 55 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				k := kinds[2]
				k.contract.Timeout = c.timeout
				h := &hooked{Store: r.store}
				slow := func(d time.Duration) { time.Sleep(d) }
				h.claim = func(ctx context.Context, req driver.ClaimRequest) ([]driver.Claimed, error) {
					out, err := r.store.Claim(ctx, req)
					slow(c.claim)
					return out, err
				}
				h.apply = func(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
					held, err := r.store.Apply(ctx, ts)
					if ts[0].Set.Started {
						slow(c.start)
					}
					return held, err
				}
				ref := r.enqueue(k, 1)[0]
				began := time.Now()
				called := false
				send := func(ctx context.Context, _ *Task, _ Attempt) error {
					called = true
					end, ok := ctx.Deadline()
					if got := end.Sub(began); !ok || got != c.want {
						r.Errorf("the context ends %s after the claim was sent, want %s", got, c.want)
					}
					if lease := r.record(ref).LeaseUntil; !end.Before(lease.Add(-4 * time.Second)) {
						r.Errorf("the context ends at %s, the lease at %s", end, lease)
					}
					return nil
				}
				r.visit(r.engineOn(h, r.servedBy(k, send)), ref)
				if !called {
					r.Error("not called")
				}
			})
		})
	}
}

// A start whose confirmation comes so late that the lease is nearly over is not
// acted upon. The attempt counts as certainly not sent.
func TestLateStartIsNotActedUpon(t *testing.T) {
	for _, k := range kinds {
		for _, late := range []time.Duration{51 * time.Second, 59 * time.Second, 10 * time.Minute} {
			t.Run(k.name+"/"+late.String(), func(t *testing.T) {
				inBubble(t, func(r *rig) {
					frozen := false
					h := &hooked{Store: r.store}
					h.apply = func(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
						held, err := r.store.Apply(ctx, ts)
						if ts[0].Set.Started && !frozen {
							frozen = true
							time.Sleep(late) // the whole program stands still
						}
						return held, err
					}
					ref := r.enqueue(k, 1)[0]
					e := r.engineOn(h, r.served(k))
					r.visit(e, ref)
					if n := len(r.far.log); n != 0 {
						r.Fatalf("sent %d times", n)
					}
					if s := r.record(ref).State; s.Uncertain || r.log(ref)[0] != "not_sent" {
						r.Errorf("uncertain %v, log %v", s.Uncertain, r.log(ref))
					}
				})
			})
		}
	}
}

// An effect whose context has ended before the start is not started, and one whose
// context ends during the start is not called.
func TestEndedContextStartsNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		refs := r.enqueue(k, 2)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s := r.served(k)
		s.Deliver = func(_ context.Context, t *Task) error {
			return t.Effect(ctx, t.Intent.Digest, func(ctx context.Context, a Attempt) error { return r.far.receive(ctx, t, a) })
		}
		r.visit(r.engine(s), refs[0])
		if st := r.record(refs[0]).State; st.Status != lifecycle.Pending || st.Attempts != 0 {
			r.Errorf("%s after %d attempts", st.Status, st.Attempts)
		}
		ctx, cancel = context.WithCancel(context.Background())
		h := &hooked{Store: r.store}
		h.apply = func(c context.Context, ts []lifecycle.Transition) ([]bool, error) {
			cancel()
			return r.store.Apply(c, ts)
		}
		r.visit(r.engineOn(h, s), refs[1])
		if st := r.record(refs[1]).State; st.Status != lifecycle.Pending || st.Attempts != 1 || st.Uncertain {
			r.Errorf("%s after %d attempts", st.Status, st.Attempts)
		}
		if len(r.far.log) != 0 {
			r.Errorf("sent %d times", len(r.far.log))
		}
	})
}

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

// An effect that was left behind in another goroutine is waited for, and its
// outcome written down, before the slot is free.
func TestEffectLeftBehindIsWaitedFor(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
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
		if got.Status != lifecycle.Failed || got.Code != lifecycle.OutcomeUnknown {
			r.Errorf("%+v", got)
		}
		if took := time.Since(began); took > time.Second {
			r.Errorf("its context ended after %s only", took)
		}
	})
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

// A changed request is never sent under a bound key.
func TestChangedRequestIsNotSent(t *testing.T) {
	for _, k := range []kind{kinds[0], kinds[1], kinds[3]} {
		t.Run(k.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				ref := r.enqueue(k, 1)[0]
				r.far.script(refuse, accept)
				s := r.served(k)
				n := byte(0)
				s.Deliver = func(ctx context.Context, t *Task) error {
					n++
					return t.Effect(ctx, lifecycle.Digest{n}, func(ctx context.Context, a Attempt) error { return r.far.receive(ctx, t, a) })
				}
				stop := r.serve(r.engine(s))
				r.settled(time.Minute, ref)
				stop()
				r.is(ref, k.stopped(), lifecycle.RequestChanged, false)
				if len(r.far.log) != 1 {
					r.Errorf("sent %d times", len(r.far.log))
				}
			})
		})
	}
}

// A passed deadline lets nothing start, and a retry does not wait beyond it (12.12).
func TestNothingStartsAfterItsDeadline(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				k.contract = aged(k.contract, 4*time.Second)
				r.far.script(refuse)
				retried := r.enqueue(k, 1)[0]
				stop := r.serve(r.engine(r.served(k)))
				r.settled(20*time.Second, retried)
				stop()
				never := r.enqueue(k, 1)[0]
				time.Sleep(4 * time.Second)
				stop = r.serve(r.engine(r.served(k)))
				r.settled(20*time.Second, never)
				stop()
				for _, ref := range []driver.ID{retried, never} {
					r.is(ref, k.cancelled(), lifecycle.DeadlineExpired, false)
				}
				if n := len(r.far.arrivals(retried)); n != 2 || len(r.far.arrivals(never)) != 0 {
					r.Errorf("sent %d and %d times", n, len(r.far.arrivals(never)))
				}
				if faults := audit(r.store, []driver.ID{retried, never}, r.far.log); faults != nil {
					r.Error(faults)
				}
			})
		})
	}
}
