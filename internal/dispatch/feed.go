package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/consign-go/consign/internal/lifecycle"
)

// shortPause is the time between two looks at the database right after there was
// something to do; it doubles up to Config.Poll while there is nothing.
const shortPause = 10 * time.Millisecond

// feeder claims for one Serve.
type feeder struct {
	*Engine
	slots *slots
	life  lives
	tasks sync.WaitGroup
	spare chan *Task // goroutines that have driven a delivery and wait for the next; nil dismisses one

	nextLook time.Time // for suspects
	hinted   bool      // what came last was hinted at
}

// pace is when the feeder looks for whatever is due, and when it takes up tasks whose
// next message may go.
type pace struct {
	look   bool          // to look is its turn, beside tasks
	polled bool          // that look comes after a whole poll that no hint has cut short
	failed bool          // the last look brought an error
	task   bool          // the last turn was that of tasks
	plenty bool          // the last look brought all that there were slots for
	gather time.Time     // until then a look waits for many slots, where there is plenty
	pause  time.Duration // before the look after the next one
	next   time.Time     // look
}

// feed claims whatever there are slots for until life.stop ends. Looks and tasks
// take turns where both have something to do: tasks, however long, hold up nothing
// else, and nothing else holds up them. Looks go on alone while they are quick and
// bring as much as there are slots for: they take what stands next in tasks along.
func (f *feeder) feed() {
	p := pace{look: true, pause: shortPause}
	for f.await(&p) {
		if p.plenty && p.look {
			f.slots.gather(f.life.stop, min(f.Batch, f.Workers)/2, p.gather)
		}
		n := f.slots.reserve(f.life.stop, f.Batch)
		if n == 0 {
			return
		}
		if p.task = !p.look || !p.task && !p.plenty; p.task {
			if ended := f.steps.take(n); len(ended) > 0 {
				f.launch(f.follow(ended, n, f.life))
				continue
			}
		}
		f.look(&p, n)
	}
}

// look claims up to n of whatever is due, and decides when to look again.
func (f *feeder) look(p *pace, n int) {
	began := time.Now()
	tasks, more, err := f.claim(n, f.slots.taken(f.Workers), f.life, f.longestLease(), false)
	p.gather = time.Now().Add(min(time.Since(began), longestGather))
	f.launch(tasks)
	found := len(tasks) > 0
	if err == nil && time.Now().After(f.nextLook) && f.feedSuspect() {
		found = true
	}
	if found {
		f.learn(p.polled)
	}
	if found || err != nil && !p.failed { // what it did not see may have been hinted at
		p.pause = shortPause
	}
	p.failed = err != nil
	p.look, p.polled = err == nil && more, false
	p.plenty = len(tasks) >= n && !f.resting()
	p.next = time.Now().Add(p.pause)
}

// await returns when there is something to do; false: life.stop has ended.
func (f *feeder) await(p *pace) bool {
	for some := false; !p.look && !some; {
		wait := time.Until(p.next)
		if some = f.steps.any(); some {
			wait = 0
		}
		hinted, goesOn := f.idle(f.life.stop, wait)
		if !goesOn {
			return false
		}
		passed := !hinted && !time.Now().Before(p.next)
		if p.look = hinted || passed; p.look {
			p.polled = passed && p.pause >= f.Poll
			p.pause = min(p.pause*2, f.longestPause())
		}
		if p.polled {
			f.dismiss()
		}
	}
	return true
}

// launch drives every claimed delivery in a goroutine of its own. A slot was
// reserved for each; where that was taken meanwhile, it is given back at once.
func (f *feeder) launch(tasks []*Task) {
	fit := f.slots.spend(len(tasks))
	for i, t := range tasks {
		if i >= fit {
			f.tasks.Go(func() {
				t.tell(lifecycle.EvReleased)
				t.letGo()
			})
			continue
		}
		select {
		case f.spare <- t:
		default:
			f.tasks.Add(1)
			go f.work(t)
		}
	}
}

// stackRoom is how much of its stack a goroutine that drives deliveries keeps in use
// where it waits. The collector halves a stack of which less than a quarter is used,
// and every delivery would grow it again: that was an eighth of what a delivery costs
// without its database. With so much, what a handler commonly needs (its input
// decoded, its request encoded) stays grown, at 8 kB for each delivery in hand.
const stackRoom = 2 << 10

// work drives t and then one delivery after another. A goroutine that is used
// again has grown its stack already, which is much of what a delivery costs.
func (f *feeder) work(t *Task) {
	var room [stackRoom]byte
	f.workAbove(&room, t)
}

// workAbove is work; room keeps its caller's stack in use.
//
//go:noinline
func (f *feeder) workAbove(room *[stackRoom]byte, t *Task) {
	defer func() {
		room[0]++
		f.tasks.Done()
	}()
	for t != nil {
		t.drive(f.slots)
		t = <-f.spare
	}
}

// dismiss ends the goroutines that have nothing to do.
func (f *feeder) dismiss() {
	for {
		select {
		case f.spare <- nil:
		default:
			return
		}
	}
}

// suspectPause is how long no suspect is looked for when there was none.
const suspectPause = time.Second

// feedSuspect takes one delivery that crashed an owner before its start, unless
// there is one in hand. Looking for them means going over everything that is due,
// so it may take a twentieth of the time at most while there are none; while there
// are, as after a crash with many claimed, half of it.
func (f *feeder) feedSuspect() (found bool) {
	// The slot goes first: visits of suspects shall not wait until there is one.
	if len(f.suspect) > 0 || f.slots.reserve(f.life.stop, 1) == 0 {
		return false
	}
	select {
	case f.suspect <- struct{}{}:
	default:
		f.slots.spend(0)
		return false
	}
	began := time.Now()
	task, _ := f.claimSuspect(nil, f.life, f.longestLease())
	took := time.Since(began)
	f.nextLook = time.Now().Add(took)
	if task == nil {
		f.nextLook = time.Now().Add(20*took + suspectPause)
		f.slots.spend(0)
		return false
	}
	f.launch([]*Task{task})
	return true
}

// idle waits for a hint, for a task whose next message may go, or for wait to have
// passed; goesOn is false where ctx has ended.
func (e *Engine) idle(ctx context.Context, wait time.Duration) (hinted, goesOn bool) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false, false
	case <-e.wake:
		return true, true
	case <-e.steps.some:
	case <-timer.C:
	}
	return false, true
}
