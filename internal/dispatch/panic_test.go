package dispatch

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// errorsOf is an observer that keeps the errors it is told.
type errorsOf struct {
	mu   sync.Mutex
	errs []error
}

func (o *errorsOf) observe(ob Observation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ob.Event == "error" {
		o.errs = append(o.errs, ob.Err)
	}
}

func (o *errorsOf) has(text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, err := range o.errs {
		if err.Error() == text {
			return true
		}
	}
	return false
}

// A panic of the store's own code, wherever it strikes, is a failure of that call:
// it is observed, tried again, and takes nothing else down.
func TestPanicOfTheStoreIsAFailedCall(t *testing.T) {
	for name, strikes := range map[string]func(tr lifecycle.Transition) bool{
		"at the start":        func(tr lifecycle.Transition) bool { return tr.Set.Started },
		"at the settle":       func(tr lifecycle.Transition) bool { return tr.Set.Status == lifecycle.Succeeded },
		"at the giving back":  func(tr lifecycle.Transition) bool { return tr.Set.Status == lifecycle.Pending },
		"whenever it is used": func(lifecycle.Transition) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				k := kinds[2]
				ref := r.enqueue(k, 1)[0]
				h := &hooked{Store: r.store}
				h.apply = func(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
					if ts[0].Ref == ref && strikes(ts[0]) && time.Now().Second() < 30 {
						panic("store")
					}
					return r.store.Apply(ctx, ts)
				}
				s := r.served(k)
				deliver := s.Deliver
				s.Deliver = func(ctx context.Context, t *Task) error {
					if name == "at the giving back" && t.Intent.Ref == ref {
						return errBroken
					}
					return deliver(ctx, t)
				}
				var o errorsOf
				e := New(Config{Store: h, Workers: 2, Served: []*Served{s}, Observe: o.observe})
				stop := r.serve(e)
				time.Sleep(time.Second)
				others := r.enqueue(k, 5)
				r.settled(10*time.Second, others...)
				time.Sleep(5 * time.Minute)
				if err := stop(); err != nil {
					r.Error(err)
				}
				if !o.has("panic: a value of type string") {
					r.Errorf("observed %v", o.errs)
				}
				if faults := audit(r.store, others, r.far.log); faults != nil {
					r.Error(faults)
				}
			})
		})
	}
}

// What nothing here delivers is put off, not dropped and not claimed again at once.
func TestWhatIsNotServedHereIsPutOff(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[0]
		ref := r.enqueue(k, 1)[0]
		h := &hooked{Store: r.store}
		claims := 0
		h.claim = func(ctx context.Context, req driver.ClaimRequest) ([]driver.Claimed, error) {
			for i := range req.Routes {
				req.Routes[i].Route = driver.WorkRoute(k.name, [32]byte{})
			}
			out, err := r.store.Claim(ctx, req)
			claims += len(out)
			return out, err
		}
		stop := r.serve(r.engineOn(h, r.served(kinds[2])))
		time.Sleep(time.Second)
		stop()
		rec := r.record(ref)
		if rec.State.Status != lifecycle.Pending || rec.State.DueIn < time.Second/2 || claims != 1 || rec.LastError != errUnserved.Error() {
			r.Errorf("%s, due in %s, claimed %d times, %q", rec.State.Status, rec.State.DueIn, claims, rec.LastError)
		}
	})
}

// The errors that classes and codes become name both, and lead to their cause.
func TestErrorsNameTheirClassAndLeadToTheirCause(t *testing.T) {
	for want, err := range map[string]error{
		"refused":               &Definite{Event: lifecycle.EvRefused},
		"not sent: cause":       &Definite{Event: lifecycle.EvNotSent, Err: cause},
		"RECORD_CHANGED":        &Stop{Code: lifecycle.RecordChanged},
		"RECORD_CHANGED: cause": &Stop{Code: lifecycle.RecordChanged, Err: cause},
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
		if wraps := len(want) > 16 || want[0] == 'n'; errors.Is(err, cause) != wraps {
			t.Errorf("%q wraps its cause: %v", err, !wraps)
		}
	}
}

// A task tells its delivery function what is known of the delivery, the deadline
// by the local clock included.
func TestTaskTellsWhatIsKnown(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.store.Advance(-5 * time.Hour) // the two clocks need not agree
		for _, c := range []struct {
			age  time.Duration
			want time.Time
		}{{time.Hour, time.Now().Add(time.Hour)}, {0, time.Time{}}} {
			k := kinds[0]
			k.contract.MaxAge = c.age
			ref := r.enqueue(k, 1)[0]
			s := r.served(k)
			s.Deliver = func(_ context.Context, t *Task) error {
				if st := t.State(); st.Status != lifecycle.Leased || st.Generation != 1 || t.Intent.Ref != ref {
					r.Errorf("state %+v", st)
				}
				if !t.Deadline().Equal(c.want) {
					r.Errorf("deadline %s, want %s", t.Deadline(), c.want)
				}
				return nil
			}
			r.visit(r.engine(s), ref)
		}
	})
}

// A broken invariant of one delivery strikes nobody who shares its batch, and is
// handed to the task that it belongs to.
func TestBrokenInvariantStrikesItsOwnTaskOnly(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		r.enqueue(k, 3)
		e := r.engine(r.served(k))
		life := lives{context.Background(), context.Background(), context.Background()}
		tasks, _, err := e.claim(3, 0, life, time.Second, false)
		if err != nil || len(tasks) != 3 {
			r.Fatal(len(tasks), err)
		}
		for _, task := range tasks {
			task.event(lifecycle.EvStart).Digest = lifecycle.Digest{1}
		}
		whole := tasks[1].engine
		tasks[1].engine = nil // what lifecycle cannot be made to do: panic
		held, err := e.decideAll(context.Background(), tasks)
		if err != nil || !held[0] || held[1] || !held[2] || tasks[1].internal == nil || tasks[0].internal != nil {
			r.Errorf("held %v, %v, %v", held, err, tasks[1].internal)
		}
		tasks[1].engine = whole
		if tasks[1].tell(lifecycle.EvReleased) != lifecycle.Apply {
			r.Error("it cannot be given back")
		}
	})
}

// A batch that broke before the turn of a delivery came has written nothing of it,
// and is not taken for the write before.
func TestBatchThatBrokeIsNotTakenForWritten(t *testing.T) {
	for _, k := range kinds {
		inBubble(t, func(r *rig) {
			ref := r.enqueue(k, 1)[0]
			e := r.engine(r.served(k))
			calls := 0
			e.writes = newLane(10, 1, func(ctx context.Context, tasks []*Task) ([]bool, error) {
				if calls++; calls == 1 || calls == 3 {
					return nil, errLane
				}
				return e.decideAll(ctx, tasks)
			})
			if got := r.visit(e, ref); got.Status != lifecycle.Succeeded || calls != 4 {
				r.Errorf("%+v after %d calls", got, calls)
			}
			r.is(ref, lifecycle.Succeeded, "", false)
		})
	}
}
