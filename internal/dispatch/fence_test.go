package dispatch

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// frozen is a store whose owner stands still before its first settle until it is
// let go, as a stopped process does. It then also repeats every write that it ever
// made.
type frozen struct {
	hooked
	mu      sync.Mutex
	writes  [][]lifecycle.Transition
	reached chan struct{}
	goOn    chan struct{}
}

func (r *rig) frozen() *frozen {
	f := &frozen{hooked: hooked{Store: r.store}, reached: make(chan struct{}), goOn: make(chan struct{})}
	f.apply = func(_ context.Context, ts []lifecycle.Transition) ([]bool, error) {
		f.mu.Lock()
		f.writes = append(f.writes, slices.Clone(ts))
		first := ts[0].Fence.Status == lifecycle.Delivering && len(f.writes) == 2
		f.mu.Unlock()
		if first {
			close(f.reached)
			<-f.goOn
		}
		return r.store.Apply(context.Background(), ts)
	}
	return f
}

// A worker that is stopped between its start and its settle past its lease, and
// resumes when another has settled, is fenced: the row stays the same byte for
// byte, and what it saw is appended once, however often it says it again.
func TestStaleOwnerChangesNothing(t *testing.T) {
	for _, k := range kinds[:4] {
		for _, first := range []reply{accept, refuse, reject, drop} {
			t.Run(k.name, func(t *testing.T) {
				inBubble(t, func(r *rig) {
					ref := r.enqueue(k, 1)[0]
					r.far.script(first, accept)
					f := r.frozen()
					stopFirst := r.serve(r.engineOn(f, r.served(k)))
					<-f.reached
					stopOther := r.serve(r.engine(r.served(k)))
					r.settled(5*time.Minute, ref)
					before, log := deliveries(r.store)[ref], r.log(ref)
					close(f.goOn)
					time.Sleep(time.Minute)
					stopFirst()
					for _, ts := range f.writes { // every write comes again, cut off long ago
						held, err := r.store.Apply(context.Background(), ts)
						if err != nil || slices.Contains(held, true) {
							r.Errorf("a replayed write: %v, %v", held, err)
						}
					}
					stopOther()
					if after := deliveries(r.store)[ref]; !reflect.DeepEqual(before, after) {
						r.Errorf("the row changed\nfrom %v\nto   %v", before, after)
					}
					r.once(ref, log, first)
					if k.idempotent() {
						r.is(ref, lifecycle.Succeeded, "", false)
					} else {
						r.is(ref, k.stopped(), lifecycle.OutcomeUnknown, true)
					}
				})
			})
		}
	}
}

// once checks that the log has gained exactly the late outcome of one reply.
func (r *rig) once(ref driver.ID, before []string, seen reply) {
	r.Helper()
	want := "late " + map[reply]string{accept: "accepted", refuse: "refused", reject: "rejected", drop: "unknown"}[seen]
	if got := r.log(ref); !slices.Equal(got, append(slices.Clone(before), want)) {
		r.Errorf("log %v, was %v, want %q once more", got, before, want)
	}
	if faults := audit(r.store, []driver.ID{ref}, r.far.log); faults != nil {
		r.Error(faults)
	}
}

// A message whose process-owned loop stood still past its lease is stranded: no
// other engine drives it, and its still current owner may settle it late, a success
// as delivered and anything else as failed, without another attempt (T8b).
func TestStrandedMessageMayBeSettledLateByItsOwner(t *testing.T) {
	for first, want := range map[reply]struct {
		status    lifecycle.Status
		code      lifecycle.Code
		uncertain bool
	}{
		accept: {lifecycle.Succeeded, "", false},
		refuse: {lifecycle.Failed, lifecycle.Interrupted, false},
		reject: {lifecycle.Failed, lifecycle.OutcomeRejected, false},
		drop:   {lifecycle.Failed, lifecycle.OutcomeUnknown, true},
	} {
		for _, k := range kinds[4:] {
			t.Run(k.name, func(t *testing.T) {
				inBubble(t, func(r *rig) {
					ref := r.enqueue(k, 1)[0]
					r.far.script(first, accept)
					f := r.frozen()
					stopFirst := r.serve(r.engineOn(f, r.served(k)))
					<-f.reached
					stopOther := r.serve(r.engine(r.served(k)))
					time.Sleep(10 * time.Minute)
					if s := r.record(ref).State; !s.Stranded() || !s.InFlight {
						r.Errorf("%s, stranded %v", s.Status, s.Stranded())
					}
					close(f.goOn)
					r.until(time.Minute, "the owner settles", func() bool { return r.record(ref).State.Status.Terminal() })
					stopFirst()
					stopOther()
					r.is(ref, want.status, want.code, want.uncertain)
					if len(r.far.log) != 1 {
						r.Errorf("sent %d times", len(r.far.log))
					}
				})
			})
		}
	}
}

// A late settle of an erased intent is fenced, and its bare outcome kept.
func TestOutcomeOfWhatWasErasedIsKeptBare(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				ref := r.enqueueNew(k, 1, func(_ int, n *driver.New) { n.Subject = "person 1" })[0]
				r.far.takes = time.Second
				r.far.script(refuse)
				fences := 0
				e := New(Config{Store: r.store, Served: []*Served{r.served(k)}, Observe: func(o Observation) {
					if o.Event == "fence" && o.Ref == ref {
						fences++
					}
				}})
				stop := r.serve(e)
				time.Sleep(500 * time.Millisecond)
				if n, err := r.store.Erase(context.Background(), []string{"person 1"}); n != 1 || err != nil {
					r.Fatal(n, err)
				}
				before := deliveries(r.store)[ref]
				time.Sleep(5 * time.Minute)
				stop()
				if after := deliveries(r.store)[ref]; !reflect.DeepEqual(before, after) {
					r.Errorf("the tombstone changed\nfrom %v\nto   %v", before, after)
				}
				rows, err := r.store.History(context.Background(), ref)
				if err != nil || len(rows) != 1 || !rows[0].Late || rows[0].Outcome != lifecycle.Refused || rows[0].Error != "" {
					r.Errorf("log %+v, %v", rows, err)
				}
				if fences != 1 || len(r.far.log) != 1 {
					r.Errorf("%d fences, sent %d times", fences, len(r.far.log))
				}
			})
		})
	}
}

// What retention has removed meanwhile is no error and no loop without end.
func TestOutcomeOfWhatWasPrunedIsDropped(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[3]
		ref := r.enqueue(k, 1)[0]
		f := r.frozen()
		stopFirst := r.serve(r.engineOn(f, r.served(k)))
		<-f.reached
		stopOther := r.serve(r.engine(r.served(k)))
		r.settled(5*time.Minute, ref)
		if n, err := r.store.Prune(context.Background(), lifecycle.Message, time.Now().Add(time.Hour), 10); n != 1 || err != nil {
			r.Fatal(n, err)
		}
		close(f.goOn)
		time.Sleep(time.Second)
		began := time.Now()
		stopFirst()
		stopOther()
		if waited := time.Since(began); waited > time.Second {
			r.Errorf("the stop took %s", waited)
		}
	})
}

// The start of an owner that was stopped past its lease is refused, so that what it
// prepared is never sent.
func TestStaleStartIsRefused(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				ref := r.enqueue(k, 1)[0]
				stale := r.served(k)
				deliver := stale.Deliver
				goOn := make(chan struct{})
				stale.Deliver = func(_ context.Context, t *Task) error {
					<-goOn
					return deliver(context.Background(), t)
				}
				stopFirst := r.serve(r.engine(stale))
				time.Sleep(time.Second)
				stopOther := r.serve(r.engine(r.served(k)))
				r.settled(5*time.Minute, ref)
				before := deliveries(r.store)[ref]
				close(goOn)
				time.Sleep(time.Minute)
				stopFirst()
				stopOther()
				if after := deliveries(r.store)[ref]; !reflect.DeepEqual(before, after) {
					r.Errorf("the row changed\nfrom %v\nto   %v", before, after)
				}
				if len(r.far.log) != 1 || len(r.log(ref)) != 0 {
					r.Errorf("sent %d times, log %v", len(r.far.log), r.log(ref))
				}
			})
		})
	}
}
