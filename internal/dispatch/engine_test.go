package dispatch

import (
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Drain works inline on what is due, up to its limit, and delivers each once.
func TestDrainDeliversEachOnceUpToItsLimit(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		refs := r.enqueue(k, 250)
		e := r.engine(r.served(k))
		for _, want := range []int{100, 120, 30, 0} {
			limit := want
			if want == 30 || want == 0 {
				limit = 1000
			}
			results, err := e.Drain(r.Context(), limit)
			if err != nil || len(results) != want {
				r.Fatalf("%d results of %d: %v", len(results), want, err)
			}
			for _, got := range results {
				if got.Status != lifecycle.Succeeded || got.Code != "" {
					r.Errorf("%+v", got)
				}
			}
		}
		for _, ref := range refs {
			if n := len(r.far.arrivals(ref)); n != 1 {
				r.Errorf("sent %d times", n)
			}
		}
		if faults := audit(r.store, refs, r.far.log); faults != nil {
			r.Error(faults)
		}
	})
}

// The limit of a drain that was given none is 100.
func TestDrainLimitIsHundred(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.enqueue(kinds[2], 150)
		results, err := r.engine(r.served(kinds[2])).Drain(r.Context(), 0)
		if err != nil || len(results) != 100 {
			r.Errorf("%d results, %v", len(results), err)
		}
	})
}

// ending is where a delivery must stand after a script of answers.
type ending struct {
	replies   []reply
	sent      func(k kind) int
	code      func(k kind) lifecycle.Code // empty: succeeded
	uncertain func(k kind) bool
}

func always[T any](v T) func(kind) T { return func(kind) T { return v } }

// either is one value for kinds that may be tried again after an unknown outcome,
// another for those that may not.
func either[T any](again, once T) func(kind) T {
	return func(k kind) T {
		if k.idempotent() {
			return again
		}
		return once
	}
}

// mine is one value for process-owned loops, another for the schedule.
func mine[T any](process, schedule T) func(kind) T {
	return func(k kind) T {
		if k.process() {
			return process
		}
		return schedule
	}
}

var endings = map[string]ending{
	"accepted":                    {[]reply{accept}, always(1), always[lifecycle.Code](""), always(false)},
	"refused twice, accepted":     {[]reply{refuse, refuse, accept}, always(3), always[lifecycle.Code](""), always(false)},
	"not sent, accepted":          {[]reply{unsent, accept}, always(2), always[lifecycle.Code](""), always(false)},
	"refused for good":            {[]reply{refuse}, always(3), always(lifecycle.AttemptsExhausted), always(false)},
	"rejected":                    {[]reply{reject}, mine(3, 1), always(lifecycle.OutcomeRejected), always(false)},
	"answer lost, accepted":       {[]reply{swallow, accept}, either(2, 1), either[lifecycle.Code]("", lifecycle.OutcomeUnknown), either(false, true)},
	"connection broken, accepted": {[]reply{drop, accept}, either(2, 1), either[lifecycle.Code]("", lifecycle.OutcomeUnknown), either(false, true)},
	"no answer, accepted":         {[]reply{hang, accept}, either(2, 1), either[lifecycle.Code]("", lifecycle.OutcomeUnknown), either(false, true)},
	"panic, accepted":             {[]reply{panicked_, accept}, either(2, 1), either[lifecycle.Code]("", lifecycle.OutcomeUnknown), either(false, true)},
	"answers lost for good":       {[]reply{swallow}, either(3, 1), always(lifecycle.OutcomeUnknown), always(true)},
	"answer lost, then refused":   {[]reply{swallow, refuse}, either(3, 1), either(lifecycle.AttemptsExhausted, lifecycle.OutcomeUnknown), always(true)},
}

// check compares where ref stands with e.
func (r *rig) check(k kind, e ending, ref driver.ID) {
	r.Helper()
	status, code := lifecycle.Succeeded, e.code(k)
	if code != "" {
		status = k.stopped()
	}
	r.is(ref, status, code, e.uncertain(k))
	if n := len(r.far.arrivals(ref)); n != e.sent(k) {
		r.Errorf("sent %d times, want %d", n, e.sent(k))
	}
}

// Every class of outcome ends where the rules say, for both profiles, both retry
// owners, idempotent or not.
func TestOutcomesEndAsTheyMust(t *testing.T) {
	for _, k := range kinds {
		for name, e := range endings {
			t.Run(k.name+"/"+name, func(t *testing.T) {
				inBubble(t, func(r *rig) {
					r.far.script(e.replies...)
					refs := r.enqueue(k, 3)
					stop := r.serve(r.engine(r.served(k)))
					r.settled(5*time.Minute, refs...)
					if err := stop(); err != nil {
						r.Error(err)
					}
					for _, ref := range refs {
						r.check(k, e, ref)
					}
					if faults := audit(r.store, refs, r.far.log); faults != nil {
						r.Error(faults)
					}
				})
			})
		}
	}
}

// Serve scans, sweeps and delivers until its context ends.
func TestServeDeliversEverythingAndStops(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.far.answer = func(_ arrival, n int) reply { return []reply{refuse, accept}[min(n, 2)-1] }
		var served []*Served
		for _, k := range kinds {
			served = append(served, r.served(k))
		}
		stop := r.serve(r.engine(served...))
		var refs []driver.ID
		for _, k := range kinds {
			refs = append(refs, r.enqueue(k, 50)...)
		}
		r.settled(time.Minute, refs...)
		if err := stop(); err != nil {
			r.Error(err)
		}
		for _, ref := range refs {
			r.is(ref, lifecycle.Succeeded, "", false)
		}
		if faults := audit(r.store, refs, r.far.log); faults != nil {
			r.Error(faults)
		}
	})
}

// Deliveries of one program are driven by as many goroutines as there are slots,
// and a hung one holds up nobody else.
func TestHungEffectDelaysNobodyElse(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		hung := r.enqueue(k, 1)[0]
		refs := r.enqueue(k, 200)
		r.far.answer = func(a arrival, _ int) reply {
			if a.key == hung {
				return hang
			}
			return accept
		}
		began := time.Now()
		stop := r.serve(r.engine(r.served(k)))
		r.settled(time.Second, refs...)
		if waited := time.Since(began); waited > time.Second {
			r.Errorf("waited %s", waited)
		}
		r.settled(time.Minute, hung)
		r.is(hung, lifecycle.Failed, lifecycle.OutcomeUnknown, true)
		if err := stop(); err != nil {
			r.Error(err)
		}
	})
}
