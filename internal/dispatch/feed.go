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

// feed claims whatever there are slots for until life.stop ends.
func (f *feeder) feed() {
	polled := false // this look comes after a whole poll that no hint has cut short
	for pause := shortPause; ; {
		n := f.slots.reserve(f.life.stop, f.Batch)
		if n == 0 {
			return
		}
		tasks, more, err := f.claim(n, f.life, f.longestLease())
		f.launch(tasks)
		found := len(tasks) > 0
		if err == nil && time.Now().After(f.nextLook) && f.feedSuspect() {
			found = true
		}
		if found {
			f.learn(polled)
			pause = shortPause
		}
		if err == nil && more {
			continue
		}
		if pause >= f.Poll {
			f.dismiss()
		}
		passed, goesOn := f.idle(f.life.stop, pause)
		if !goesOn {
			return
		}
		polled = passed && pause >= f.Poll
		pause = min(pause*2, f.longestPause())
	}
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
			f.tasks.Go(func() { f.work(t) })
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
	d := newDecision()
	defer func() { room[0]++ }()
	for t != nil {
		t.decision = d
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
	select {
	case f.suspect <- struct{}{}:
	default:
		return false
	}
	if f.slots.reserve(f.life.stop, 1) == 0 {
		<-f.suspect
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

// idle waits for a hint or for pause to have passed; goesOn is false where ctx has
// ended.
func (e *Engine) idle(ctx context.Context, pause time.Duration) (passed, goesOn bool) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false, false
	case <-e.wake:
		return false, true
	case <-timer.C:
		return true, true
	}
}
