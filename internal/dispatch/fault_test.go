package dispatch

import (
	"fmt"
	"testing"
	"time"
)

// injuries are what may befall any one call of the store without changing what
// becomes of an intent.
var injuries = []struct {
	name string
	kind fault
	d    time.Duration
}{
	{"fails", failing, 0},
	{"happens, answer lost", losing, 0},
	{"happens a little later", delaying, 10 * time.Millisecond},
	{"happens after the first look", delaying, 25 * time.Millisecond},
	{"happens much later", delaying, 8 * time.Second},
	{"hangs", hanging, 0},
}

// down is a plan by which the n-th call fails and so does every other one for d,
// after it happened or without.
func down(n int, kind fault, d time.Duration) func(int, string) (fault, time.Duration) {
	var since time.Time
	return func(i int, _ string) (fault, time.Duration) {
		if i == n {
			since = time.Now()
			return kind, 0
		}
		if i > n && time.Since(since) < d {
			return failing, 0
		}
		return healthy, 0
	}
}

// everyCall runs a test with the first call of the store injured, then with the
// second, until there is none that could have been.
func everyCall(t *testing.T, plan func(n int) func(int, string) (fault, time.Duration), test func(r *rig, f *faulty)) {
	t.Helper()
	for n := 1; ; n++ {
		reached := false
		t.Run(fmt.Sprintf("call %d", n), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				w := newWatcher(r.store)
				f := newFaulty(r.store, w, plan(n))
				test(r, f)
				w.look()
				if w.faults != nil {
					r.Error(w.faults)
				}
				reached = f.made() >= n
			})
		})
		if !reached || t.Failed() {
			if n < 3 && !t.Failed() {
				t.Errorf("only %d calls", n-1)
			}
			return
		}
	}
}

// unhurt are the endings that an injury of the store must not change.
var unhurt = []string{"accepted", "refused twice, accepted", "rejected", "answer lost, accepted", "answers lost for good"}

// One call of the store fails, or its answer is lost, or it takes effect late, or
// nobody answers, whichever call it is: every intent ends as it would have ended,
// and is sent as often.
func TestAnyCallOfTheStoreMayFail(t *testing.T) {
	for _, k := range kinds {
		for _, name := range unhurt {
			for _, in := range injuries {
				t.Run(k.name+"/"+name+"/"+in.name, func(t *testing.T) {
					plan := func(n int) func(int, string) (fault, time.Duration) {
						return func(i int, _ string) (fault, time.Duration) {
							if i == n {
								return in.kind, in.d
							}
							return healthy, 0
						}
					}
					everyCall(t, plan, func(r *rig, f *faulty) { r.endsAs(k, endings[name], f) })
				})
			}
		}
	}
}

// The store is down for a while from any call on, which itself happened or did
// not: every intent ends as it would have ended, and is sent as often.
func TestStoreMayBeDownForAWhile(t *testing.T) {
	for _, k := range kinds {
		for _, name := range unhurt {
			for _, first := range []fault{failing, losing} {
				t.Run(fmt.Sprint(k.name, "/", name, "/", first), func(t *testing.T) {
					plan := func(n int) func(int, string) (fault, time.Duration) { return down(n, first, 10*time.Second) }
					everyCall(t, plan, func(r *rig, f *faulty) { r.endsAs(k, endings[name], f) })
				})
			}
		}
	}
}

// endsAs delivers an intent through f and compares what became of it.
func (r *rig) endsAs(k kind, e ending, f *faulty) {
	r.Helper()
	r.far.script(e.replies...)
	refs := r.enqueue(k, 1)
	stop := r.serve(r.engineOn(f, r.served(k)))
	r.settled(10*time.Minute, refs...)
	if err := stop(); err != nil {
		r.Error(err)
	}
	r.check(k, e, refs[0])
	if faults := audit(r.store, refs, r.far.log); faults != nil {
		r.Error(faults)
	}
}

// The store is down for longer than a lease and its margin. Then the sweep may be
// first, so that an outcome may be kept as late evidence only; but nothing is sent
// twice that must not be, and what is not known is called unknown.
func TestStoreMayBeDownLongerThanALease(t *testing.T) {
	for _, k := range kinds {
		for _, first := range []fault{failing, losing} {
			t.Run(fmt.Sprint(k.name, "/", first), func(t *testing.T) {
				plan := func(n int) func(int, string) (fault, time.Duration) { return down(n, first, 3*time.Minute) }
				everyCall(t, plan, func(r *rig, f *faulty) {
					r.far.script(refuse, accept)
					refs := r.enqueue(k, 1)
					stop := r.serve(r.engineOn(f, r.served(k)))
					time.Sleep(4 * time.Minute) // a stranded message may still be settled by its owner
					r.settled(20*time.Minute, refs...)
					if err := stop(); err != nil {
						r.Error(err)
					}
					if faults := audit(r.store, refs, r.far.log); faults != nil {
						r.Error(faults)
					}
				})
			})
		}
	}
}
