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

// decide brings an event about: it asks lifecycle for the transition, has it
// applied, and where that did not hold or its answer was lost, looks at the row
// and asks again. It ends when the transition holds, when lifecycle has nothing to
// change, or with the limit. The state of the task is the row's afterwards.
func (t *Task) decide(ev lifecycle.Event, l limit) (lifecycle.Transition, error) {
	ev.Owner, ev.Generation = t.owner, t.generation
	alone := false
	pause := firstPause
	for tries := 0; ; tries++ {
		tr := t.engine.Policy.Apply(t.state, ev)
		t.answer, t.said = tr.Answer, tr.Code
		if tr.Answer != lifecycle.Apply {
			t.refused(&tr)
			return tr, nil
		}
		tr.Ref = t.Intent.Ref
		held, err := t.engine.writes.submit(l.ctx, tr, alone)
		if err == nil && held {
			after(&t.state, &tr)
			return tr, nil
		}
		alone = alone || err != nil // it may be this very row that the store does not accept
		if (err != nil || tries > 3) && !l.sleep(&pause) {
			return tr, errImpatient
		}
		mine, err := t.look(&tr, l)
		if err != nil || mine {
			return tr, err
		}
	}
}

// look reads the row after a write that did not hold or was not answered, and
// reports whether it is that very write that made the row what it is.
func (t *Task) look(tr *lifecycle.Transition, l limit) (bool, error) {
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
			if logged, err = t.logged(tr, l.ctx); err == nil {
				return logged, nil
			}
		}
		if !l.sleep(&pause) {
			return false, errImpatient
		}
	}
}

func (t *Task) logged(tr *lifecycle.Transition, ctx context.Context) (bool, error) {
	rows, err := t.engine.store.History(ctx, t.Intent.Ref)
	for _, r := range rows {
		if !r.Late && r.Generation == tr.Log.Generation && r.Number == tr.Log.Number && r.Outcome == tr.Log.Outcome {
			return true, nil
		}
	}
	return false, err
}

// refused keeps what a fenced owner saw.
func (t *Task) refused(tr *lifecycle.Transition) {
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
