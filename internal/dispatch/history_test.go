package dispatch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/driver/memory"
	"github.com/consign-go/consign/internal/effort"
	"github.com/consign-go/consign/internal/lifecycle"
)

// plan is a whole history, drawn before it runs.
type plan struct {
	kinds   []int // of the intents, into kinds
	ages    []time.Duration
	tasks   []int // 0: none
	replies []reply
	lives   [][]blow // what befalls each engine that is started, one after another in each row
	people  []deed
}

// blow is something that befalls an engine at one of its calls of the store.
type blow struct {
	at    int
	kind  fault
	d     time.Duration
	fatal bool // the engine is dead from then on
}

// deed is something that a person does.
type deed struct {
	after time.Duration
	what  lifecycle.EventKind
	which int
}

var durations = []time.Duration{
	5 * time.Millisecond, 22 * time.Millisecond, 300 * time.Millisecond, 4 * time.Second, 30 * time.Second, 80 * time.Second, 3 * time.Minute,
}

func drawPlan(t *rapid.T) plan {
	n := rapid.IntRange(1, 6).Draw(t, "intents")
	drawn := rapid.Custom(func(t *rapid.T) blow {
		b := blow{
			at:    rapid.IntRange(1, 9).Draw(t, "at"),
			kind:  rapid.SampledFrom([]fault{failing, losing, delaying, hanging, freezing, freezing, freezing}).Draw(t, "kind"),
			d:     rapid.SampledFrom(durations).Draw(t, "d"),
			fatal: rapid.IntRange(0, 2).Draw(t, "fatal") == 0,
		}
		if b.kind == freezing {
			b.d = rapid.SampledFrom([]time.Duration{time.Second, 30 * time.Second, 100 * time.Second, 4 * time.Minute}).Draw(t, "freeze")
		}
		return b
	})
	deeds := rapid.Custom(func(t *rapid.T) deed {
		return deed{
			after: rapid.SampledFrom(durations).Draw(t, "after"),
			what:  rapid.SampledFrom([]lifecycle.EventKind{lifecycle.EvCancel, lifecycle.EvErase, lifecycle.EvResolved}).Draw(t, "what"),
			which: rapid.IntRange(0, n-1).Draw(t, "which"),
		}
	})
	return plan{
		kinds:   rapid.SliceOfN(rapid.IntRange(0, len(kinds)-1), n, n).Draw(t, "kinds"),
		ages:    rapid.SliceOfN(rapid.SampledFrom([]time.Duration{0, 0, 0, 8 * time.Second, 90 * time.Second}), n, n).Draw(t, "ages"),
		tasks:   rapid.SliceOfN(rapid.IntRange(0, 2), n, n).Draw(t, "tasks"),
		replies: slicesOfReplies.Draw(t, "replies"),
		lives:   rapid.SliceOfN(rapid.SliceOfN(drawn, 1, 4), 1, 5).Draw(t, "lives"),
		people:  rapid.SliceOfN(deeds, 0, 2).Draw(t, "people"),
	}
}

var slicesOfReplies = rapid.SliceOfN(rapid.SampledFrom([]reply{
	accept, accept, accept, refuse, refuse, reject, unsent, swallow, drop, hang, panicked_,
}), 1, 10)

// mortal is an engine that may die at any call, with what it had in hand.
type mortal struct {
	*faulty
	end context.CancelFunc

	mu   sync.Mutex
	dead bool
}

func (m *mortal) isDead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

func (m *mortal) die() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
	m.end()
}

// befalls is the plan of the engine's store. After a fatal blow nothing gets
// through any more; whether the call of that moment still happened depends on its
// kind.
func (m *mortal) befalls(blows []blow) func(int, string) (fault, time.Duration) {
	return func(n int, _ string) (fault, time.Duration) {
		if m.isDead() {
			return failing, 0
		}
		for _, b := range blows {
			if b.at == n {
				if b.fatal {
					m.die()
				}
				return b.kind, b.d
			}
		}
		return healthy, 0
	}
}

// live starts an engine that serves all kinds and returns when it has ended.
func (r *rig) live(w *watcher, blows []blow, running *sync.WaitGroup) (end context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	m := &mortal{end: cancel}
	m.faulty = newFaulty(r.store, w, m.befalls(blows))
	var served []*Served
	for _, k := range kinds {
		served = append(served, r.servedBy(k, func(ctx context.Context, t *Task, a Attempt) error {
			if m.isDead() {
				<-ctx.Done() // nothing leaves a dead process
				return ctx.Err()
			}
			return r.far.receive(ctx, t, a)
		}))
	}
	e := New(Config{
		Store: m, Served: served, Workers: 3, Grace: time.Second, Poll: 15 * time.Second, Sweep: 15 * time.Second,
	})
	running.Go(func() { e.Serve(ctx) })
	return cancel
}

// play runs a history and returns what was wrong with it, and how much happened.
func (r *rig) play(p plan) (faults []string, fenced bool) {
	var mu sync.Mutex
	came := 0
	r.far.answer = func(arrival, int) reply {
		mu.Lock()
		defer mu.Unlock()
		came++
		return p.replies[(came-1)%len(p.replies)]
	}
	r.far.takes = 50 * time.Millisecond
	w := newWatcher(r.store)
	refs := make([]driver.ID, len(p.kinds))
	for i, n := range p.kinds {
		k := kinds[n]
		k.contract.MaxAge = p.ages[i]
		refs[i] = r.enqueueNew(k, 1, func(_ int, row *driver.New) {
			row.Subject = fmt.Sprint("person ", i)
			if k.profile == lifecycle.Message && p.tasks[i] > 0 {
				row.Task, row.Index = fmt.Sprint("task ", p.tasks[i]), i
			}
		})[0]
	}
	var running sync.WaitGroup
	for _, blows := range p.lives {
		end := r.live(w, blows, &running)
		defer end()
		time.Sleep(20 * time.Second)
	}
	for _, d := range p.people {
		time.Sleep(d.after)
		w.during(func() []driver.ID { r.does(d, refs); return nil })
	}
	time.Sleep(4 * time.Minute) // what stood still has resumed
	end := r.live(w, nil, &running)
	time.Sleep(15 * time.Minute)
	end()
	faults = append(w.faults, audit(r.store, refs, r.far.log)...)
	for _, ref := range refs {
		fenced = fenced || slices.ContainsFunc(r.log(ref), func(s string) bool { return s[:4] == "late" })
	}
	return faults, fenced
}

// does lets a person act on an intent, where that is possible.
func (r *rig) does(d deed, refs []driver.ID) {
	ref := refs[d.which]
	if d.what == lifecycle.EvErase {
		r.store.Erase(context.Background(), []string{fmt.Sprint("person ", d.which)})
		return
	}
	tr := lifecycle.DefaultPolicy.Apply(r.record(ref).State, lifecycle.Event{Kind: d.what})
	tr.Ref = ref
	r.store.Apply(context.Background(), []lifecycle.Transition{tr})
}

// Histories with several engines that crash, stand still and lose answers, and with
// people who interfere, break no invariant: judged from the rows and the far side's
// log alone.
func TestRandomHistoriesKeepTheInvariants(t *testing.T) {
	var arrivals, fences, histories int
	for range effort.Of(1, 10) {
		rapid.Check(t, func(rt *rapid.T) {
			p := drawPlan(rt)
			var faults []string
			synctest.Test(t, func(t *testing.T) {
				s := memory.New()
				s.Follow()
				r := &rig{T: t, store: s, far: newReceiver()}
				var fenced bool
				faults, fenced = r.play(p)
				arrivals += len(r.far.log)
				histories++
				if fenced {
					fences++
				}
			})
			if faults != nil {
				rt.Fatalf("%q", faults)
			}
		})
	}
	if histories >= 1000 && (arrivals < histories || fences == 0) {
		t.Errorf("%d arrivals and %d with late evidence in %d histories: too little happened", arrivals, fences, histories)
	}
	effort.Note(t, "%d histories, %d arrivals, %d with late evidence", histories, arrivals, fences)
}
