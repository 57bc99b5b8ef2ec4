package dispatch

import (
	"context"
	"sync"
	"sync/atomic"
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

	suspect  atomic.Bool // one is in hand and not started: there is never a second
	nextLook time.Time   // for suspects, while there is always something else
	hinted   bool        // what came last was hinted at
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
		f.launch(tasks, n)
		found := len(tasks) > 0
		if err == nil && (!more || time.Now().After(f.nextLook)) && f.feedSuspect() {
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
// reserved for each; what a store handed out beyond that is given back at once.
func (f *feeder) launch(tasks []*Task, reserved int) {
	for i, t := range tasks {
		if i >= reserved {
			f.tasks.Go(func() { t.write(lifecycle.Event{Kind: lifecycle.EvReleased}) })
			continue
		}
		select {
		case f.spare <- t:
		default:
			f.tasks.Go(func() { f.work(t) })
		}
	}
	f.slots.release(max(reserved-len(tasks), 0))
}

// work drives t and then one delivery after another. A goroutine that is used
// again has grown its stack already, which is much of what a delivery costs.
func (f *feeder) work(t *Task) {
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

// feedSuspect takes one delivery that crashed an owner before its start, unless
// there is one in hand. Looking for them means going over everything that is due,
// so under constant load it may take a twentieth of the time at most.
func (f *feeder) feedSuspect() (found bool) {
	if !f.suspect.CompareAndSwap(false, true) {
		return false
	}
	n := f.slots.reserve(f.life.stop, 1)
	if n == 0 {
		f.suspect.Store(false)
		return false
	}
	began := time.Now()
	tasks, _ := f.claimSuspect(f.life, f.longestLease())
	f.nextLook = time.Now().Add(20 * time.Since(began))
	if len(tasks) == 0 {
		f.nextLook = f.nextLook.Add(f.Sweep)
		f.suspect.Store(false)
	} else {
		tasks[0].alone = func() {
			f.suspect.Store(false)
			f.Wake()
		}
	}
	f.launch(tasks, n)
	return len(tasks) > 0
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
