package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// A visit drives one intent as far as it goes: a loop to its end, a scheduled one
// through the attempt that is due.
func TestVisitDrivesOneIntentAsFarAsItGoes(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.far.script(refuse, accept)
				refs := r.enqueue(k, 3)
				e := r.engine(r.served(k))
				want := Result{Ref: refs[1], Profile: k.profile, Status: lifecycle.Pending}
				if k.process() {
					want.Status = lifecycle.Succeeded
				}
				if got := r.visit(e, refs[1]); got != want {
					r.Errorf("%+v, want %+v", got, want)
				}
				if got := r.visit(e, refs[1]); got != want { // not due, or over
					r.Errorf("again: %+v, want %+v", got, want)
				}
				time.Sleep(2 * time.Second)
				want.Status = lifecycle.Succeeded
				if got := r.visit(e, refs[1]); got != want {
					r.Errorf("when it is due: %+v, want %+v", got, want)
				}
				for _, ref := range []driver.ID{refs[0], refs[2]} {
					if s := r.record(ref).State; s.Generation != 0 {
						r.Errorf("another one was touched: generation %d", s.Generation)
					}
				}
			})
		})
	}
}

// Losing the claim is a result and no error: it says where the intent stands.
func TestLosingTheClaimIsAResult(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[0]
		k.contract.MaxAge = time.Hour
		r.far.takes = 10 * time.Second
		e := r.engine(r.served(k))
		held := r.enqueue(k, 1)[0]
		stop := r.serve(r.engine(r.served(k)))
		time.Sleep(time.Second)
		if got := r.visit(e, held); got.Status != lifecycle.Delivering {
			r.Errorf("held by another: %+v", got)
		}
		r.settled(time.Minute, held)
		stop()
		overdue := r.enqueue(k, 1)[0]
		later := r.enqueueNew(k, 1, func(_ int, n *driver.New) { n.NotBefore = time.Now().Add(2 * time.Hour) })[0]
		time.Sleep(time.Hour)
		if got := r.visit(e, overdue); got.Status != lifecycle.Cancelled || got.Code != lifecycle.DeadlineExpired {
			r.Errorf("past its deadline: %+v", got)
		}
		if got := r.visit(e, later); got.Status != lifecycle.Pending {
			r.Errorf("not due yet: %+v", got)
		}
		foreign := r.enqueue(kind{"foreign", lifecycle.Message, scheduled}, 1)[0]
		if got := r.visit(e, foreign); got.Status != lifecycle.Pending {
			r.Errorf("not served here: %+v", got)
		}
		crashed := r.enqueue(k, 1)[0]
		r.crash(k, 1, crashed)
		if got := r.visit(e, crashed); got.Status != lifecycle.Succeeded {
			r.Errorf("after a crash: %+v", got)
		}
		if _, found, err := e.Visit(context.Background(), driver.NewID()); found || err != nil {
			r.Errorf("unknown: found %v, %v", found, err)
		}
		if got := r.visit(New(Config{Store: r.store}), foreign); got.Status != lifecycle.Pending {
			r.Errorf("an engine that serves nothing: %+v", got)
		}
	})
}

// Two visits of one intent at once send it once.
func TestConcurrentVisitsSendOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[3]
		r.far.takes = time.Second
		refs := r.enqueue(k, 20)
		done := make(chan struct{})
		for range 3 {
			e := r.engine(r.served(k))
			go func() {
				for _, ref := range refs {
					r.visit(e, ref)
				}
				done <- struct{}{}
			}()
		}
		for range 3 {
			<-done
		}
		r.settled(time.Minute, refs...)
		for _, ref := range refs {
			if n := len(r.far.arrivals(ref)); n != 1 {
				r.Errorf("sent %d times", n)
			}
		}
	})
}

// A visit while the database is down is an error and changes nothing.
func TestVisitWithoutADatabaseIsAnError(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		ref := r.enqueue(k, 1)[0]
		w := newWatcher(r.store)
		e := r.engineOn(newFaulty(r.store, w, func(int, string) (fault, time.Duration) { return failing, 0 }), r.served(k))
		if _, _, err := e.Visit(context.Background(), ref); !errors.Is(err, errDown) {
			r.Errorf("error %v", err)
		}
		r.is(ref, lifecycle.Pending, "", false)
	})
}

// scan collects what a scan pushes.
func (r *rig) scan(e *Engine, limit int) (refs []driver.ID) {
	r.Helper()
	n, err := e.Scan(context.Background(), limit, func(_ context.Context, pushed []driver.ID) error {
		refs = append(refs, pushed...)
		return nil
	})
	if err != nil || n != len(refs) {
		r.Fatalf("%d of %d pushed: %v", len(refs), n, err)
	}
	return refs
}

// A scan finds what was never woken up for, delayed retries when they are due,
// expired leases, and passed deadlines without any claim, up to its limit.
func TestScanFindsWhatIsDue(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[3]
		e := r.engine(r.served(k))
		if got := r.scan(e, 0); got != nil {
			r.Errorf("pushed %d of nothing", len(got))
		}
		retried := r.enqueue(k, 1)[0]
		r.far.script(refuse, accept)
		r.visit(e, retried)
		if got := r.scan(e, 0); got != nil {
			r.Errorf("a retry was pushed before it was due")
		}
		time.Sleep(time.Second)
		crashed := r.enqueue(k, 1)[0]
		r.crash(k, 1, crashed)
		missed := r.enqueue(k, 1)[0]
		if got := r.scan(e, 0); !slices.Equal(got, []driver.ID{retried, missed, crashed}) {
			r.Errorf("pushed %d: %v", len(got), got)
		}
		if got := r.scan(e, 2); len(got) != 2 {
			r.Errorf("pushed %d with limit 2", len(got))
		}
		r.enqueue(k, 150)
		if got := r.scan(e, 0); len(got) != 100 {
			r.Errorf("pushed %d with no limit given", len(got))
		}
		old := k
		old.contract = aged(k.contract, time.Minute)
		overdue := r.enqueue(old, 1)[0]
		time.Sleep(time.Minute)
		r.scan(e, 0)
		r.is(overdue, lifecycle.Failed, lifecycle.DeadlineExpired, false)
		if _, err := e.Scan(context.Background(), 0, func(context.Context, []driver.ID) error { return errBroken }); err != errBroken {
			r.Errorf("the queue's error: %v", err)
		}
	})
}

// A queue that loses, repeats and reorders refs breaks no promise.
func TestQueueMayLoseRepeatAndReorder(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[0]
		e := r.engine(r.served(k))
		r.far.script(refuse, accept)
		refs := r.enqueue(k, 60)
		for round := 0; round < 20; round++ {
			pushed := r.scan(e, 0)
			slices.Reverse(pushed)
			for i, ref := range pushed {
				if i%3 != round%3 || round > 12 { // a third is lost, the rest comes twice
					r.visit(e, ref)
					r.visit(e, pushed[0])
				}
			}
			time.Sleep(2 * time.Second)
		}
		r.settled(time.Second, refs...)
		for _, ref := range refs {
			r.is(ref, lifecycle.Succeeded, "", false)
		}
		if faults := audit(r.store, refs, r.far.log); faults != nil {
			r.Error(faults)
		}
	})
}

// A drain takes what crashed its owner as well, one at a time.
func TestDrainTakesSuspectsAlone(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		r.far.takes = time.Second
		refs := r.enqueue(k, 3)
		r.crash(k, 1, refs...)
		results, err := r.engine(r.served(k)).Drain(context.Background(), 10)
		if err != nil || len(results) != 3 || r.far.most != 1 {
			r.Errorf("%d results, %d at once, %v", len(results), r.far.most, err)
		}
	})
}

// A drain whose context ends gives back what it had not started and says so.
func TestDrainEndsWithItsContext(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		r.far.takes = time.Second
		r.enqueue(k, 100)
		ctx, cancel := context.WithTimeout(context.Background(), 2500*time.Millisecond)
		defer cancel()
		e := New(Config{Store: r.store, Workers: 10, Served: []*Served{r.served(k)}})
		results, err := e.Drain(ctx, 100)
		if !errors.Is(err, context.DeadlineExceeded) || len(results) != 30 {
			r.Errorf("%d results, %v", len(results), err)
		}
		if n := inHand(deliveries(r.store)); n != 0 {
			r.Errorf("%d still in hand", n)
		}
	})
}

// One route does not starve another in scans and drains, whether one program makes
// them all or another one each.
func TestScansAndDrainsTakeRoutesInTurn(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b := kinds[2], kinds[3]
		engine := func() *Engine { return r.engine(r.served(a), r.served(b)) }
		one := engine()
		scanned, drained := map[string]int{}, map[string]int{}
		for n := range 40 {
			e := one
			if n >= 20 {
				e = engine()
			}
			r.enqueue(a, 10)
			r.enqueue(b, 10)
			for _, ref := range r.scan(e, 10) {
				scanned[fmt.Sprint(e == one, r.record(ref).Intent.Kind)]++
			}
			results, err := e.Drain(context.Background(), 10)
			if err != nil {
				r.Fatal(err)
			}
			for _, got := range results {
				drained[fmt.Sprint(e == one, r.record(got.Ref).Intent.Kind)]++
			}
		}
		if len(scanned) != 4 || len(drained) != 4 {
			r.Errorf("scanned %v, drained %v", scanned, drained)
		}
	})
}
