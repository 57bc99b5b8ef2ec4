package dispatch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Task is one claimed intent in hand. It is driven by one goroutine.
//
// A delivery function can keep its Task and its contexts for as long as it likes, so
// they are made anew for each delivery. What is large is used again; see hand.
type Task struct {
	*hand // gone once the delivery has ended

	effect sync.Mutex             // held while Effect runs
	called bool                   // Effect was called in this attempt, or may not be any more
	proof  atomic.Pointer[string] // what the receiver signed in this attempt; an effect may have left a goroutine that sets it
	first  contexts               // of the first attempt
}

// contexts are those of one attempt.
type contexts struct{ delivery, effect lazyContext }

// hand is what is known of a delivery while it is in hand. Thousands are at once, and
// so many a second, so it is used again for other ones. Nobody but its Task points to it.
type hand struct {
	Intent driver.Intent

	engine     *Engine
	served     *Served
	life       *lives
	owner      lifecycle.Token
	generation int64
	state      lifecycle.State
	dueAt      time.Time
	claimed    time.Time // by the monotonic clock, from before the claim was sent
	alone      func()    // called once, when it can take down no other delivery any more

	contexts *contexts        // of this attempt
	settled  bool             // its outcome was written down, or refused as fenced
	wait     time.Duration    // before the next attempt of a process-owned loop
	ev       lifecycle.Event  // what is to be brought about
	answer   lifecycle.Answer // the newest answer, with its code
	said     lifecycle.Code
	lost     *lifecycle.Transition // what was decided, where that is not known to have held
	internal error                 // what lifecycle panicked with instead
}

// lives are the three ends that come one after another when the engine stops.
type lives struct {
	stop   context.Context // no new claims, and nothing is started that was not before
	effect context.Context // effects are cancelled, and loops end
	hard   context.Context // what could not be written down by now stays unwritten
}

// Result is what became of a visit.
type Result struct {
	Ref     driver.ID
	Profile lifecycle.Profile
	Status  lifecycle.Status
	Code    lifecycle.Code
}

// newTask takes what a claim handed out.
func newTask(e *Engine, c *driver.Claimed, owner lifecycle.Token, claimed time.Time, life *lives) *Task {
	h, _ := e.hands.Get().(*hand)
	if h == nil {
		h = new(hand)
	}
	h.Intent, h.state, h.dueAt, h.generation = c.Intent, c.State, c.DueAt, c.State.Generation
	h.engine, h.owner, h.claimed, h.life = e, owner, claimed, life
	return &Task{hand: h}
}

// gone is what a Task knows of its delivery after the end.
var gone hand

// end lets go of what is used again. The delivery function has returned, and no
// effect runs or may begin.
func (t *Task) end() {
	h, e := t.hand, t.engine
	t.hand = &gone
	*h = hand{}
	e.hands.Put(h)
}

// State is what is known of the delivery.
func (t *Task) State() lifecycle.State { return t.state }

// Deadline is when the delivery's deadline passes, as far as this process's clock
// can tell; zero: never.
func (t *Task) Deadline() time.Time {
	if t.state.DeadlineLeft == lifecycle.Never {
		return time.Time{}
	}
	return t.claimed.Add(t.state.DeadlineLeft)
}

// mine reports whether the delivery is still held under this task's claim, as far
// as the task has seen.
func (t *Task) mine() bool { return t.state.Owner == t.owner && t.state.Generation == t.generation }

// waits reports whether this task holds the delivery between two attempts of a
// process-owned loop.
func (t *Task) waits() bool {
	return t.mine() && t.state.Status == lifecycle.Delivering && !t.state.InFlight
}

// unsent reports whether this task holds the delivery and has not started it.
func (t *Task) unsent() bool { return t.mine() && t.state.Status == lifecycle.Leased }

// succeeded reports whether this task has just written down a success.
func (t *Task) succeeded() bool {
	return t.settled && t.mine() && t.answer == lifecycle.Apply && t.state.Status == lifecycle.Succeeded
}

// effectEnd is the moment at which an effect must be over: before the lease
// ends, by the monotonic clock.
func (t *Task) effectEnd() time.Time {
	return t.claimed.Add(t.state.Contract.Lease - t.engine.Safety)
}

// begin reports whether there is to be an attempt.
func (t *Task) begin() bool {
	if t.unsent() && t.life.stop.Err() != nil {
		t.tell(lifecycle.EvReleased)
		return false
	}
	if t.served == nil { // the store handed out what was not asked for
		t.undecided(errUnserved)
		return false
	}
	t.effect.Lock()
	defer t.effect.Unlock()
	c := &t.first
	if t.contexts != nil {
		c = new(contexts)
	}
	c.delivery.parent, c.delivery.end = t.life.effect, t.effectEnd()
	t.called, t.settled, t.wait, t.contexts = false, false, 0, c
	return true
}

// deliver calls the delivery function for one attempt.
func (t *Task) deliver() (err error) {
	ctx := &t.contexts.delivery
	defer ctx.stop()
	defer caught(&err)
	return t.served.Deliver(ctx, t)
}

// conclude ends an attempt whose delivery function has returned err. again reports
// that the task keeps the delivery and wants its next attempt after t.wait.
func (t *Task) conclude(err error) (again bool) {
	called := t.over()
	switch {
	case t.settled:
		if err != nil && t.succeeded() {
			t.tell(lifecycle.EvCallbackFailed)
		}
	case !called:
		t.unstarted(err)
	case t.unsent() || t.mine() && t.state.InFlight:
		// Nothing could be written down. If that was this package's own panic, it
		// was contained like the user's and shall not pass unseen.
		if internal, ok := err.(*panicked); ok {
			t.engine.observe(Observation{Event: "error", Kind: t.Intent.Kind, Ref: t.Intent.Ref, Err: internal})
		}
	}
	return t.settled && t.waits()
}

// over waits for an effect that the delivery function has left behind in another
// goroutine, and reports whether there was one.
func (t *Task) over() (called bool) {
	t.effect.Lock()
	defer t.effect.Unlock()
	called, t.called = t.called, true
	return called
}

// errUnserved: nothing here delivers what was claimed.
var errUnserved = errors.New("the kind or channel is not served here")

// unstarted writes down what a delivery function has brought about by ending
// without its effect. An error that panics when it is looked into says nothing.
func (t *Task) unstarted(err error) {
	var stop *Stop
	var panicking bool
	contain(func() error {
		stop, _ = single[*Stop](err)
		_, panicking = single[*panicked](err)
		return nil
	})
	switch {
	case err == nil:
		stop = &Stop{Code: lifecycle.EffectNotCalled}
	case panicking && stop == nil:
		ev := t.event(lifecycle.EvPanicked)
		ev.Wait, ev.Error = t.undecidedWait(), errorText(err)
		t.write()
		return
	case stop == nil:
		t.undecided(err)
		return
	}
	ev := t.event(lifecycle.EvStopped)
	ev.Code, ev.Error = stop.Code, errorText(stop.Err)
	if t.write() == lifecycle.Refuse && t.unsent() {
		t.undecided(err) // it was stopped with a code that stops nothing
	}
}

// undecided gives the delivery back before its start: to be tried again later, or
// at once where it is only this program that stops.
func (t *Task) undecided(err error) {
	if t.life.stop.Err() != nil {
		t.tell(lifecycle.EvReleased)
		return
	}
	ev := t.event(lifecycle.EvUndecided)
	ev.Wait, ev.Error = t.undecidedWait(), errorText(err)
	t.write()
}

// undecidedWait grows with the age of the intent, since no attempt is counted
// that it could grow with: a quarter of the age, from 2 s to 2 min. A wrong local
// clock only changes the pace.
func (t *Task) undecidedWait() time.Duration {
	age := time.Since(t.Intent.CreatedAt)
	s := Schedule{Waits: []time.Duration{min(max(age/4, 2*time.Second), 2*time.Minute)}, Jitter: 0.2}
	return s.next(1, 0)
}

// event begins an event that this task reports, in place of the one before. It is
// not inlined, because an event is large and thousands of stacks wait where it is
// called.
//
//go:noinline
func (t *Task) event(kind lifecycle.EventKind) *lifecycle.Event {
	t.ev = lifecycle.Event{Kind: kind, Owner: t.owner, Generation: t.generation}
	return &t.ev
}

// tell writes down an event of which there is nothing more to say.
func (t *Task) tell(kind lifecycle.EventKind) lifecycle.Answer {
	t.event(kind)
	return t.write()
}

// write brings about an event that is not bound to the lease: it is tried until
// it holds, is fenced, or the engine gives up for good.
func (t *Task) write() lifecycle.Answer {
	if err := t.decide(limit{ctx: t.life.hard}); err != nil || t.answer != lifecycle.Apply {
		return t.answer
	}
	if t.ev.Kind != lifecycle.EvCallbackFailed {
		t.observed("settle", 0, 0)
	}
	t.putOff()
	return lifecycle.Apply
}

// putOff has the engine look again when the delivery is due again.
func (t *Task) putOff() {
	if t.state.Status == lifecycle.Pending && t.ev.Wait > 0 {
		t.engine.alarm.at(time.Now().Add(t.ev.Wait))
	}
}

func (t *Task) observed(event string, d, write time.Duration) {
	if !t.engine.observes() {
		return
	}
	t.engine.Observe(Observation{
		Event: event, Profile: t.Intent.Profile, Kind: t.Intent.Kind, Ref: t.Intent.Ref, Status: t.state.Status, Code: t.code(),
		Outcome: t.ev.Kind, Attempt: t.ev.Attempt, Duration: d, Write: write,
	})
}

func (t *Task) code() lifecycle.Code {
	switch {
	case t.answer == lifecycle.Refuse:
		return lifecycle.Fenced
	case t.said != "":
		return t.said
	}
	return t.state.Code
}

func (t *Task) result() Result {
	return Result{Ref: t.Intent.Ref, Profile: t.Intent.Profile, Status: t.state.Status, Code: t.code()}
}
