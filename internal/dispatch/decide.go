package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Times between attempts to reach the database.
const (
	firstPause = 20 * time.Millisecond
	maxPause   = 2 * time.Second
)

// errImpatient: the database did not answer in the time there was.
var errImpatient = errors.New("the database did not answer in time")

// limit is how long something is tried: until ctx ends, and until at if that is
// set.
type limit struct {
	ctx context.Context
	at  time.Time
}

// sleep waits a little longer each time; false: the time is over, or would be.
func (l limit) sleep(pause *time.Duration) bool {
	if !l.at.IsZero() && time.Until(l.at) < *pause {
		return false
	}
	timer := time.NewTimer(*pause)
	defer timer.Stop()
	select {
	case <-l.ctx.Done():
		return false
	case <-timer.C:
	}
	*pause = min(*pause*2, maxPause)
	return true
}

// decide brings the event t.ev about: it asks lifecycle for the transition, has it
// applied, and where that did not hold or its answer was lost, looks at the row
// and asks again. It ends when the transition holds, when lifecycle has nothing to
// change, or with the limit. The answer is t.answer; the state of the task is the
// row's afterwards.
func (t *Task) decide(l limit) error {
	alone := false
	pause := firstPause
	for tries := 0; ; tries++ {
		t.answer, t.said, t.lost, t.internal = 0, "", nil, nil
		// This is submit, whose frame would be one more on each of thousands of stacks
		// that the collector walks.
		g, place := t.engine.writes.enter(t, alone)
		if g.wait() {
			t.engine.writes.lead(l.ctx, g)
		}
		held, err := g.answer(place)
		switch {
		case t.internal != nil:
			panic(t.internal)
		case t.answer != 0 && t.answer != lifecycle.Apply: // 0: the batch broke before its turn
			t.refused()
			return nil
		case err == nil && held:
			return nil
		}
		alone = alone || err != nil // it may be this very row that the store does not accept
		if (err != nil || tries > 3) && !l.sleep(&pause) {
			return errImpatient
		}
		mine, err := t.look(l)
		if err != nil || mine {
			return err
		}
	}
}

// decideAll decides what becomes of many tasks and has it applied in one write. It
// runs in the goroutine of one of them or in an assistant's: what lifecycle and the
// store need of a stack is needed there, and not by each of thousands that wait, and
// so is what they need of memory. Only what did not hold is kept for its task.
func (e *Engine) decideAll(ctx context.Context, tasks []*Task) ([]bool, error) {
	b := e.batches.take()
	if b == nil {
		b = &batch{seen: map[driver.ID]struct{}{}}
	}
	b.askAll(tasks)
	held := make([]bool, len(tasks))
	if len(b.ts) > 0 {
		applied, err := e.apply(ctx, b)
		n := 0
		for i, t := range tasks {
			if t.answer != lifecycle.Apply {
				continue
			}
			if held[i] = err == nil && applied[n]; held[i] {
				after(&t.state, &b.ts[n])
			} else {
				t.lose(b.ts[n])
			}
			n++
		}
		if err != nil {
			return nil, err // and the batch is left to whoever may still read it
		}
	}
	b.clear()
	e.batches.give(b)
	return held, nil
}

// askAll has lifecycle decide about what each task reports. A panic there is a broken
// invariant of one delivery, and is handed to its own task.
func (b *batch) askAll(tasks []*Task) {
	for n := 0; n < len(tasks); n++ {
		broken := contain(func() error {
			for ; n < len(tasks); n++ {
				b.ask(tasks[n])
			}
			return nil
		})
		if broken != nil {
			tasks[n].internal = broken
		}
	}
}

func (b *batch) ask(t *Task) {
	tr := t.engine.Policy.Apply(t.state, t.ev)
	tr.Ref = t.Intent.Ref
	t.answer, t.said = tr.Answer, tr.Code
	if tr.Answer == lifecycle.Apply {
		b.ts = append(b.ts, tr)
	} else {
		t.lose(tr)
	}
}

// lose keeps what was decided and did not happen.
func (t *Task) lose(tr lifecycle.Transition) { t.lost = &tr }

// look reads the row after a write that did not hold or was not answered, and
// reports whether it is that very write that made the row what it is.
func (t *Task) look(l limit) (bool, error) {
	tr := t.lost
	if tr == nil { // the batch broke before its turn
		tr = &lifecycle.Transition{}
	}
	for pause := firstPause; ; {
		r, err := t.engine.reads.submit(l.ctx, t.Intent.Ref, false)
		if err == nil {
			if r == nil { // removed by retention: nothing of it can be written any more
				t.state = lifecycle.State{Profile: t.state.Profile, Erased: true, Generation: t.generation + 1}
				return false, nil
			}
			t.state = r.State
			if r.State.Revision == tr.Fence.Revision+1 && r.State.Generation == tr.Set.Generation &&
				r.State.Owner == tr.Set.Owner && r.State.Status == tr.Set.Status {
				return true, nil
			}
			if tr.Log == nil || r.State.Revision <= tr.Fence.Revision {
				return false, nil
			}
			// Somebody has gone on from here. The log row that is written with an
			// outcome tells whether it was this outcome that they went on from.
			var logged bool
			if logged, err = t.logged(l.ctx, tr.Log); err == nil {
				return logged, nil
			}
		}
		if !l.sleep(&pause) {
			return false, errImpatient
		}
	}
}

// logged reports whether the attempt log has this row.
func (t *Task) logged(ctx context.Context, want *lifecycle.Attempt) (bool, error) {
	rows, err := t.engine.store.History(ctx, t.Intent.Ref)
	for _, r := range rows {
		if !r.Late && r.Generation == want.Generation && r.Number == want.Number && r.Outcome == want.Outcome {
			return true, nil
		}
	}
	return false, err
}

// refused keeps what a fenced owner saw.
func (t *Task) refused() {
	tr := t.lost
	if tr.Answer != lifecycle.Refuse {
		return
	}
	t.engine.observe(Observation{
		Event: "fence", Profile: t.Intent.Profile, Kind: t.Intent.Kind, Ref: t.Intent.Ref, Code: tr.Code,
	})
	if tr.Log == nil {
		return
	}
	row := driver.Logged{Ref: t.Intent.Ref, Attempt: *tr.Log}
	alone := false
	for pause := firstPause; ; alone = true {
		_, err := t.engine.evidence.submit(t.life.hard, row, alone)
		if err == nil || !(limit{ctx: t.life.hard}).sleep(&pause) {
			return
		}
	}
}

// after is what a transition that held makes of s.
func after(s *lifecycle.State, tr *lifecycle.Transition) {
	c := &tr.Set
	s.Status, s.Generation, s.Owner, s.InFlight = c.Status, c.Generation, c.Owner, c.InFlight
	s.Attempts, s.Crashes, s.Uncertain, s.Digest, s.Code = c.Attempts, c.Crashes, c.Uncertain, c.Digest, c.Code
	s.Revision++
}
