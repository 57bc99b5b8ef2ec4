package dispatch

import (
	"context"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// grace is the grace period of these tests, the default.
const grace = 15 * time.Minute

// program is an engine that tells others what it serves.
func (r *rig) program(served ...*Served) *Engine {
	return New(Config{Store: r.store, Registry: r.store, Served: served, Grace: time.Second})
}

// A kind or channel that no live program serves is stopped for review when it has
// been due, and seen to be unserved, for the grace period, and not before (T15).
func TestUnservedIntentsAreStoppedAfterTheGrace(t *testing.T) {
	inBubble(t, func(r *rig) {
		work, message := kinds[0], kinds[2]
		bare := kind{"nobody knows it", lifecycle.Message, lifecycle.Contract{}}
		refs := []driver.ID{r.enqueue(work, 1)[0], r.enqueue(message, 1)[0], r.enqueue(bare, 1)[0]}
		later := r.enqueueNew(work, 1, func(_ int, n *driver.New) { n.NotBefore = time.Now().Add(time.Hour) })[0]
		stop := r.serve(r.program(r.served(kinds[3])))
		time.Sleep(grace - time.Second)
		for _, ref := range refs {
			r.is(ref, lifecycle.Pending, "", false)
		}
		r.settled(time.Minute, refs...)
		r.is(refs[0], lifecycle.ReconciliationRequired, lifecycle.HandlerMissing, false)
		r.is(refs[1], lifecycle.Failed, lifecycle.ChannelMissing, false)
		r.is(refs[2], lifecycle.Failed, lifecycle.ChannelMissing, false)
		time.Sleep(50 * time.Minute)
		r.is(later, lifecycle.Pending, "", false)
		r.settled(20*time.Minute, later)
		stop()
	})
}

// What crashed its owner, or was being delivered, ends as well when nobody is left
// to claim it.
func TestUnservedSuspectsAreStoppedToo(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[1]
		crashed := r.enqueue(k, 1)[0]
		r.crash(k, 1, crashed)
		inFlight := r.enqueue(k, 1)[0]
		h := &hooked{Store: r.store}
		h.apply = func(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
			if ts[0].Set.Started {
				return r.store.Apply(ctx, ts)
			}
			return nil, errDown
		}
		e := r.engineOn(h, r.served(k))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		e.Visit(ctx, inFlight)
		stop := r.serve(r.program(r.served(kinds[3])))
		r.settled(grace+5*time.Minute, crashed, inFlight)
		stop()
		r.is(crashed, lifecycle.ReconciliationRequired, lifecycle.HandlerMissing, false)
		r.is(inFlight, lifecycle.ReconciliationRequired, lifecycle.HandlerMissing, true)
	})
}

// Programs with different kinds never stop each other's intents: what a live one
// serves is left alone by all others, however long it is due.
func TestProgramsNeverStopEachOthersIntents(t *testing.T) {
	inBubble(t, func(r *rig) {
		mine, theirs := kinds[2], kinds[0]
		r.far.takes = 19 * time.Second
		one := r.serve(New(Config{Store: r.store, Registry: r.store, Workers: 1, Served: []*Served{r.served(theirs)}}))
		other := r.serve(New(Config{Store: r.store, Registry: r.store, Unserved: 2 * time.Minute, Served: []*Served{r.served(mine)}}))
		refs := r.enqueue(theirs, 20) // over six minutes of work
		r.settled(time.Hour, refs...)
		for _, ref := range refs {
			r.is(ref, lifecycle.Succeeded, "", false)
		}
		one()
		other()
	})
}

// During a rolling deploy the programs of a kind may all be away for a while.
func TestRollingDeployStopsNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		watching := r.serve(r.program(r.served(kinds[2])))
		k := kinds[0]
		for range 4 {
			gone := r.serve(r.program(r.served(k)))
			time.Sleep(30 * time.Second)
			gone()
			ref := r.enqueue(k, 1)[0]
			time.Sleep(10 * time.Minute)
			r.is(ref, lifecycle.Pending, "", false)
			back := r.serve(r.program(r.served(k)))
			r.settled(time.Minute, ref)
			r.is(ref, lifecycle.Succeeded, "", false)
			back()
		}
		watching()
	})
}

// After an outage of everything the first program that is back stops nothing that
// belongs to those who are not back yet.
func TestOutageOfEverythingStopsNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[0]
		ref := r.enqueue(k, 1)[0]
		time.Sleep(24 * time.Hour)
		first := r.serve(r.program(r.served(kinds[2])))
		time.Sleep(10 * time.Minute)
		r.is(ref, lifecycle.Pending, "", false)
		second := r.serve(r.program(r.served(k)))
		r.settled(time.Minute, ref)
		r.is(ref, lifecycle.Succeeded, "", false)
		first()
		second()
	})
}

// A program that stood still for longer than the grace period does not take what
// it remembers for what it has seen.
func TestLongPauseStopsNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[0]
		ref := r.enqueue(k, 1)[0]
		e := r.program(r.served(kinds[2]))
		for range 3 {
			if n, err := e.StopUnserved(context.Background()); n != 0 || err != nil {
				r.Fatal(n, err)
			}
			time.Sleep(50 * time.Minute)
		}
		for range 16 {
			time.Sleep(time.Minute)
			e.StopUnserved(context.Background())
		}
		r.is(ref, lifecycle.ReconciliationRequired, lifecycle.HandlerMissing, false)
	})
}

// An older version of a kind is delivered through an upgrade, by Serve, by a drain
// and by a visit; one that no upgrade leads from is stopped as changed.
func TestOlderVersionsAreUpgradedOrStopped(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[0]
		version := func(v string, print byte) func(int, *driver.New) {
			return func(_ int, n *driver.New) { n.Version, n.Fingerprint = v, [32]byte{print} }
		}
		s := r.served(k)
		s.Version, s.Fingerprint, s.Upgrades = "3", [32]byte{3}, []string{"2", "1.5"}
		outdated := r.enqueueNew(k, 1, version("1", 1))[0]
		for name, deliver := range map[string]func(e *Engine, ref driver.ID){
			"visit": func(e *Engine, ref driver.ID) { r.visit(e, ref) },
			"drain": func(e *Engine, _ driver.ID) { e.Drain(context.Background(), 0) },
			"serve": func(e *Engine, ref driver.ID) {
				stop := r.serve(e)
				r.settled(time.Minute, ref)
				stop()
			},
		} {
			for _, e := range []*Engine{r.engine(s), r.program(s)} {
				older := r.enqueueNew(k, 1, version("2", 2))[0]
				newer := r.enqueueNew(k, 1, version("3", 3))[0]
				deliver(e, older)
				deliver(e, newer)
				for _, ref := range []driver.ID{older, newer} {
					if got := r.record(ref).State.Status; got != lifecycle.Succeeded {
						r.Errorf("%s: %s", name, got)
					}
				}
			}
		}
		r.is(outdated, lifecycle.Pending, "", false)
		stop := r.serve(r.program(s))
		r.settled(grace+time.Minute, outdated)
		stop()
		r.is(outdated, lifecycle.ReconciliationRequired, lifecycle.HandlerChanged, false)
	})
}

// forgetful is a register that shows nothing of what it was told.
type forgetful struct{ driver.Registry }

func (forgetful) Serving(context.Context, time.Duration) ([]driver.Serves, error) { return nil, nil }

// A program never stops what it serves itself, whatever the register says.
func TestProgramNeverStopsItsOwnIntents(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[2]
		r.far.takes = 19 * time.Second
		refs := r.enqueue(k, 20)
		stop := r.serve(New(Config{
			Store: r.store, Registry: forgetful{r.store}, Workers: 1, Unserved: 2 * time.Minute, Served: []*Served{r.served(k)},
		}))
		r.settled(time.Hour, refs...)
		stop()
		for _, ref := range refs {
			r.is(ref, lifecycle.Succeeded, "", false)
		}
	})
}

// Programs that only drain or scan are seen as well, and find what is unserved.
func TestProgramsThatOnlyDrainTakePart(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[0]
		drains := r.program(r.served(k))
		scans := r.program(r.served(kinds[2]))
		foreign := r.enqueue(kinds[3], 1)[0]
		mine := r.enqueueNew(k, 1, func(_ int, n *driver.New) { n.NotBefore = time.Now().Add(time.Hour) })[0]
		for range 120 {
			if _, err := drains.Drain(context.Background(), 1); err != nil {
				r.Fatal(err)
			}
			r.scan(scans, 0)
			time.Sleep(30 * time.Second)
		}
		r.is(foreign, lifecycle.Failed, lifecycle.ChannelMissing, false)
		r.scan(scans, 0)
		r.is(mine, lifecycle.Pending, "", false)
		drains.Drain(context.Background(), 1)
		r.is(mine, lifecycle.Succeeded, "", false)
	})
}

// A program is registered while it serves, and no longer.
func TestProgramIsRegisteredWhileItServes(t *testing.T) {
	inBubble(t, func(r *rig) {
		serving := func() int {
			s, err := r.store.Serving(context.Background(), registration)
			if err != nil {
				r.Fatal(err)
			}
			return len(s)
		}
		s := r.served(kinds[0])
		s.Upgrades = []string{"0"}
		stop := r.serve(r.program(s))
		for range 10 {
			time.Sleep(time.Minute)
			if n := serving(); n != 2 {
				r.Errorf("serves %d", n)
			}
		}
		stop()
		if n := serving(); n != 0 {
			r.Errorf("serves %d after its stop", n)
		}
	})
}
