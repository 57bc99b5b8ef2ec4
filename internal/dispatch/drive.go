package dispatch

import (
	"errors"
	"time"

	"github.com/consign-go/consign/internal/lifecycle"
)

// errVanished: user code ended its goroutine, with runtime.Goexit or a test's
// FailNow, instead of returning.
var errVanished = errors.New("the goroutine ended in user code")

// drive runs a task through its attempts and returns what became of it. It begins
// with a slot in hand and gives it back; between two attempts it holds none.
func (t *Task) drive(s *slots) (r Result) {
	held, ended := true, false
	defer func() {
		if !ended {
			t.broken(recover())
			r = t.result()
		}
		t.letGo() // before its slot is free, so that whoever waits for that knows of it
		if held {
			s.release(1)
		}
		if ended {
			t.end()
		}
	}()
	for t.begin() && t.conclude(t.deliver()) {
		held = false
		s.park()
		rested := t.rest()
		if held = s.unpark(t.life.effect); !rested || !held {
			t.tell(lifecycle.EvInterrupted)
			break
		}
	}
	ended = true
	return t.result()
}

// rest waits for the next attempt of a process-owned loop; false: the grace
// period is over first.
func (t *Task) rest() bool {
	timer := time.NewTimer(t.wait)
	defer timer.Stop()
	select {
	case <-t.life.effect.Done():
		return false
	case <-timer.C:
		return true
	}
}

// broken ends a task that did not come to its end by itself. A panic is this
// package's own: what is known cannot be trusted, and the lease ends it. Without
// one, user code has ended the goroutine.
func (t *Task) broken(panicValue any) {
	if panicValue != nil {
		t.engine.observe(Observation{
			Event: "error", Kind: t.Intent.Kind, Ref: t.Intent.Ref, Err: &panicked{panicValue},
		})
		return
	}
	t.over()
	switch {
	case t.succeeded():
		t.tell(lifecycle.EvCallbackFailed)
	case t.unsent():
		ev := t.event(lifecycle.EvPanicked)
		ev.Wait, ev.Error = t.undecidedWait(), errVanished.Error()
		t.write()
	case t.mine() && t.state.InFlight:
		number := t.state.AttemptNo()
		ev := t.event(lifecycle.EvUnknown)
		ev.Attempt, ev.Wait, ev.Error = number, t.pause(number, 0), errVanished.Error()
		t.settle(time.Time{})
	}
	if t.waits() {
		t.tell(lifecycle.EvInterrupted) // this goroutine was its loop
	}
}

// letGo tells whoever waits for this task: the search for suspects, and the next
// message of the same task, whose gate may have opened.
func (t *Task) letGo() {
	t.harmless()
	t.opened()
}

// harmless says that this delivery can take no other one down any more.
func (t *Task) harmless() {
	if t.alone != nil {
		t.alone()
		t.alone = nil
	}
}
