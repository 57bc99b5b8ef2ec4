package dispatch

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// task commits n messages of one task, of the kinds in turn.
func (r *rig) task(name string, n int, ks ...kind) []driver.ID {
	r.Helper()
	var refs []driver.ID
	for i := range n {
		refs = append(refs, r.enqueueNew(ks[i%len(ks)], 1, func(_ int, row *driver.New) { row.Task, row.Index = name, i })...)
	}
	return refs
}

// inOrder reports a request of a task that came before one with a lower index had
// come for the last time.
func (r *rig) inOrder(refs []driver.ID) {
	r.Helper()
	place := map[driver.ID]int{}
	for i, ref := range refs {
		place[ref] = i
	}
	highest := 0
	for _, a := range r.far.all() {
		if i, ok := place[a.key]; ok {
			if i < highest {
				r.Errorf("index %d came after %d", i, highest)
			}
			highest = max(highest, i)
		}
	}
}

// counted counts claims: those of what stands next in tasks, and looks for whatever
// is due.
type counted struct {
	next, looks atomic.Int64
	takes       time.Duration // each of them
}

func (c *counted) store(r *rig) *hooked {
	h := &hooked{Store: r.store}
	h.claim = func(ctx context.Context, req driver.ClaimRequest) ([]driver.Claimed, error) {
		switch {
		case len(req.Next) > 0:
			c.next.Add(1)
		case !req.Suspects:
			c.looks.Add(1)
		}
		time.Sleep(c.takes)
		return r.store.Claim(ctx, req)
	}
	return h
}

// A task costs one claim for each of its messages, and as many looks for whatever is
// due however long it is: each of those steps over all that wait.
func TestTaskGoesOnWithoutLooks(t *testing.T) {
	looks := map[int]int64{}
	for _, length := range []int{30, 300} {
		inBubble(t, func(r *rig) {
			var c counted
			refs := r.task("a", length, kinds[2])
			stop := r.serve(r.engineOn(c.store(r), r.served(kinds[2])))
			r.settled(time.Minute, refs...)
			stop()
			r.inOrder(refs)
			if n := c.next.Load(); n > int64(length) || n < int64(length)*9/10 {
				r.Errorf("%d claims of the next for %d messages", n, length)
			}
			looks[length] = c.looks.Load()
		})
	}
	if looks[300] > looks[30]+2 {
		t.Errorf("looks by length: %v", looks)
	}
}

// Tasks that advance together are claimed together.
func TestTasksAdvanceTogether(t *testing.T) {
	inBubble(t, func(r *rig) {
		const tasks, length = 10, 20
		c := counted{takes: time.Millisecond}
		var refs []driver.ID
		for i := range tasks {
			refs = append(refs, r.task(string(rune('a'+i)), length, kinds[2])...)
		}
		stop := r.serve(r.engineOn(c.store(r), r.served(kinds[2])))
		r.settled(time.Minute, refs...)
		stop()
		if n := c.next.Load(); n > 3*length {
			r.Errorf("%d claims of the next for %d messages of %d tasks", n, len(refs), tasks)
		}
	})
}

// Order is kept by several engines, over several channels, and where messages are
// refused, rejected or lost: what has ended, however, opens the gate, and what is to
// be tried again does not.
func TestTasksKeepTheirOrder(t *testing.T) {
	inBubble(t, func(r *rig) {
		ks := []kind{kinds[2], kinds[3], kinds[4], kinds[5]}
		tasks := map[string][]driver.ID{}
		var all []driver.ID
		answers := map[driver.ID][]reply{}
		for i := range 12 {
			name := string(rune('a' + i))
			tasks[name] = r.task(name, 12, ks...)
			all = append(all, tasks[name]...)
			for j, ref := range tasks[name] {
				answers[ref] = [][]reply{{accept}, {refuse, accept}, {reject}, {swallow}, {unsent, accept}}[(i+j)%5]
			}
		}
		r.far.answer = func(a arrival, n int) reply { return answers[a.key][min(n, len(answers[a.key]))-1] }
		r.far.takes = 10 * time.Millisecond
		var served []*Served
		for _, k := range ks {
			served = append(served, r.served(k))
		}
		var stops []func() error
		for range 3 {
			stops = append(stops, r.serve(r.engine(served...)))
		}
		r.settled(time.Hour, all...)
		for _, stop := range stops {
			stop()
		}
		for _, refs := range tasks {
			r.inOrder(refs)
		}
		for _, ref := range all {
			if len(r.far.arrivals(ref)) == 0 {
				r.Errorf("%s was never sent", ref)
			}
		}
	})
}

// What an engine held of a task when it died is taken over once its lease is over,
// and the task goes on from there.
func TestTaskOfADeadEngineGoesOn(t *testing.T) {
	inBubble(t, func(r *rig) {
		k := kinds[3]
		refs := r.task("a", 20, k)
		r.far.takes = time.Millisecond
		var dead atomic.Bool
		h := &hooked{Store: r.store}
		h.apply = func(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
			if len(r.far.arrivals(refs[7])) > 0 {
				dead.Store(true)
			}
			if dead.Load() {
				return nil, errDown
			}
			return r.store.Apply(ctx, ts)
		}
		h.claim = func(ctx context.Context, req driver.ClaimRequest) ([]driver.Claimed, error) {
			if dead.Load() {
				return nil, errDown
			}
			return r.store.Claim(ctx, req)
		}
		stopDead := r.serve(r.engineOn(h, r.served(k)))
		time.Sleep(time.Second)
		go stopDead()
		stop := r.serve(r.engine(r.served(k)))
		r.settled(2*time.Minute, refs...)
		stop()
		r.inOrder(refs)
		if !dead.Load() || len(r.far.arrivals(refs[7])) != 2 {
			r.Errorf("dead: %v; its last message was sent %d times", dead.Load(), len(r.far.arrivals(refs[7])))
		}
		time.Sleep(time.Minute)
	})
}

// An engine that is stopped in the middle of a task claims nothing more of it, and
// holds nothing when it has ended; another one goes on.
func TestTaskIsLeftWhereTheEngineStops(t *testing.T) {
	inBubble(t, func(r *rig) {
		refs := r.task("a", 50, kinds[2])
		r.far.takes = 100 * time.Millisecond
		stop := r.serve(r.engine(r.served(kinds[2])))
		time.Sleep(time.Second)
		stop()
		ended := 0
		for _, ref := range refs {
			switch s := r.record(ref).State; {
			case s.Status == lifecycle.Succeeded:
				ended++
			case s.Status != lifecycle.Pending || s.Owner != (lifecycle.Token{}):
				r.Errorf("left %s", s.Status)
			}
		}
		if ended != len(r.far.all()) || ended < 5 || ended > 11 {
			r.Errorf("%d ended, %d sent in a second of 100 ms each", ended, len(r.far.all()))
		}
		stop = r.serve(r.engine(r.served(kinds[2])))
		r.settled(time.Minute, refs...)
		stop()
		r.inOrder(refs)
	})
}

// A task waits where its next message is on a channel that is paused, or that is not
// served here, and holds up nobody else meanwhile.
func TestTaskWaitsForItsNextChannel(t *testing.T) {
	inBubble(t, func(r *rig) {
		mail, fax := kind{"mail", lifecycle.Message, scheduled}, kind{"fax", lifecycle.Message, scheduled}
		refs := r.task("a", 4, mail, fax)
		r.pause(fax, true)
		stop := r.serve(r.heeding(r.served(mail), r.served(fax)))
		r.settled(time.Second, append(r.enqueue(mail, 3), refs[0])...)
		time.Sleep(time.Minute)
		if s := r.record(refs[1]).State; s.Generation != 0 || len(r.far.all()) != 4 {
			r.Errorf("claimed %d times while it is paused, %d sent", s.Generation, len(r.far.all()))
		}
		r.pause(fax, false)
		r.settled(5*time.Second, refs...)
		stop()
		r.inOrder(refs)

		refs = r.task("b", 4, mail, fax)
		stop = r.serve(r.engine(r.served(mail)))
		r.settled(time.Second, append(r.enqueue(mail, 3), refs[0])...)
		stopFax := r.serve(r.engine(r.served(fax)))
		r.settled(10*time.Second, refs...)
		stop()
		stopFax()
		r.inOrder(refs)
	})
}

// Neither a long task nor a backlog of anything else holds up the other, even where
// there is one slot.
func TestTasksAndTheRestTakeTurns(t *testing.T) {
	inBubble(t, func(r *rig) {
		const n = 100
		k := kinds[2]
		r.far.takes = 10 * time.Millisecond
		refs := r.task("a", 1, k)
		rest := r.enqueue(k, n)
		refs = append(refs, r.enqueueNew(k, n-1, func(i int, n *driver.New) { n.Task, n.Index = "a", i+1 })...)
		h := &hooked{Store: r.store}
		h.claim = func(ctx context.Context, req driver.ClaimRequest) ([]driver.Claimed, error) {
			if len(req.Next) == 0 && req.Routes[0].After == (driver.Position{}) {
				time.Sleep(100 * time.Millisecond) // the task's messages are stepped over
			}
			return r.store.Claim(ctx, req)
		}
		stop := r.serve(New(Config{Store: h, Workers: 1, Served: []*Served{r.served(k)}}))
		r.until(time.Minute, "half of all is sent", func() bool { return len(r.far.all()) >= n })
		inTask := 0
		for _, a := range r.far.all()[:n] {
			if slices.Contains(refs, a.key) {
				inTask++
			}
		}
		if inTask < n/4 || inTask > n*3/4 {
			r.Errorf("of %d sent %d are the task's", n, inTask)
		}
		r.settled(time.Minute, append(refs, rest...)...)
		stop()
		r.inOrder(refs)
	})
}

// All messages of one index go together once the lower ones have ended, and the next
// index waits for all of them.
func TestMessagesOfOneIndexGoTogether(t *testing.T) {
	inBubble(t, func(r *rig) {
		index := []int{0, 1, 1, 1, 1, 1, 2}
		r.far.takes = time.Second
		refs := r.enqueueNew(kinds[2], len(index), func(i int, n *driver.New) { n.Task, n.Index = "a", index[i] })
		began := time.Now()
		stop := r.serve(r.engine(r.served(kinds[2])))
		r.settled(time.Minute, refs...)
		if took := time.Since(began); took > 3500*time.Millisecond {
			r.Errorf("three indexes took %s", took)
		}
		stop()
		if last := r.far.all()[len(index)-1]; last.key != refs[len(index)-1] {
			r.Errorf("the highest index was not the last")
		}
	})
}

// A claim of the next that fails costs a look, and is no reason to forget the task.
func TestTaskGoesOnAfterAFailedClaim(t *testing.T) {
	inBubble(t, func(r *rig) {
		refs := r.task("a", 20, kinds[2])
		h, n := &hooked{Store: r.store}, 0
		h.claim = func(ctx context.Context, req driver.ClaimRequest) ([]driver.Claimed, error) {
			if len(req.Next) > 0 {
				if n++; n%3 == 0 {
					return nil, errDown
				}
			}
			return r.store.Claim(ctx, req)
		}
		stop := r.serve(r.engineOn(h, r.served(kinds[2])))
		r.settled(time.Minute, refs...)
		stop()
		r.inOrder(refs)
	})
}
