package dispatch

import (
	"context"
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
