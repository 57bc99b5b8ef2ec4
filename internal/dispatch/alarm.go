package dispatch

import (
	"slices"
	"sync"
	"time"
)

// alarm rings at the times it was given, so that what was put off is taken up
// when it is due and not at the next look at the database. It keeps the earliest
// few; the rest is found by looking.
type alarm struct {
	mu    sync.Mutex
	ring  func() // nil: nobody listens, and nothing is kept
	timer *time.Timer
	times []time.Time // rising
}

// alarms is how many times are kept, and alarmStep how close two of them may lie.
const (
	alarms    = 256
	alarmStep = 5 * time.Millisecond
)

// start makes ring the listener.
func (a *alarm) start(ring func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ring = ring
}

// stop forgets the listener and all times.
func (a *alarm) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ring, a.times = nil, nil
	if a.timer != nil {
		a.timer.Stop()
	}
}

// at asks for a ring at t. One that comes up to a step later does as well.
func (a *alarm) at(t time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, found := slices.BinarySearchFunc(a.times, t, time.Time.Compare)
	covered := found || i < len(a.times) && a.times[i].Sub(t) < alarmStep
	if a.ring == nil || covered || i == alarms {
		return
	}
	a.times = slices.Insert(a.times, i, t)
	a.times = a.times[:min(len(a.times), alarms)]
	if i == 0 {
		a.set()
	}
}

// set sets the timer to the earliest time. The caller holds mu.
func (a *alarm) set() {
	if a.timer != nil {
		a.timer.Stop()
	}
	if len(a.times) > 0 {
		a.timer = time.AfterFunc(time.Until(a.times[0]), a.fire)
	}
}

// fire rings once for all times that have come.
func (a *alarm) fire() {
	a.mu.Lock()
	now, n := time.Now(), 0
	for n < len(a.times) && !a.times[n].After(now) {
		n++
	}
	a.times = slices.Delete(a.times, 0, n)
	ring := a.ring
	a.set()
	a.mu.Unlock()
	if ring != nil && n > 0 {
		ring()
	}
}
