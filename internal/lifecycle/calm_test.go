package lifecycle_test

import (
	"fmt"

	"github.com/consign-go/consign/internal/lifecycle"
)

// The ways of going on once faults stop. The owner a finishes what it holds or
// can claim, or is refused every time, or nobody serves the intent any more.
// Every other owner is gone for good.
const (
	finishes = iota
	isRefused
	nobodyServes
	ways
)

// calmStep is the next step without faults.
func (w *world) calmStep(way int, brings lifecycle.Contract) error {
	if a, ok := w.calmOwner(way); ok {
		if _, held, broken := w.do(a); held || broken != nil {
			return broken
		}
	}
	anyone := []action{{kind: lifecycle.EvClaim, contract: brings}, {kind: lifecycle.EvSweep}}
	if way == nobodyServes {
		anyone = []action{{kind: lifecycle.EvSweep}, {kind: lifecycle.EvUnserved, code: lifecycle.ChannelMissing}}
	}
	for _, a := range anyone {
		if _, held, broken := w.do(a); held || broken != nil {
			return broken
		}
	}
	next := w.store.nextMoment()
	if next == none {
		return wrong("12.9: %+v waits for nothing", w.store.row)
	}
	_, _, broken := w.do(action{after: next - w.store.now})
	return broken
}

// calmOwner is what the owner a does with what it holds.
func (w *world) calmOwner(way int) (a action, ok bool) {
	r := &w.store.row
	if r.owner == (lifecycle.Token{}) || r.owner != w.owners[0].token || way == nobodyServes {
		return action{}, false
	}
	byHand := r.contract.Retry == lifecycle.Process && r.contract.MaxAttempts == 0
	room := r.lease-w.store.now >= r.contract.Timeout+w.store.policy.SettleMargin
	a = action{kind: lifecycle.EvStart, digest: r.digest[0]}
	if a.digest == 0 {
		a.digest = 'x'
	}
	switch {
	case r.inFlight && byHand && way == finishes:
		a.kind = lifecycle.EvHandDelivered
	case r.inFlight && byHand:
		a.kind = lifecycle.EvHandFailed
	case r.inFlight && way == finishes:
		a.kind = lifecycle.EvSucceeded
	case r.inFlight:
		a.kind = lifecycle.EvRefused
	case r.status == lifecycle.Delivering && (byHand || !room):
		a.kind = lifecycle.EvInterrupted
	case !room:
		a.kind = lifecycle.EvReleased
	}
	return a, true
}

// nextMoment is the next time at which waiting alone may change an answer.
func (s *store) nextMoment() at {
	r, next := &s.row, none
	moments := []at{r.due, r.deadline}
	if r.lease != none {
		moments = append(moments, r.lease, r.lease+s.policy.SettleMargin)
	}
	for _, m := range moments {
		if m != none && m > s.now && (next == none || m < next) {
			next = m
		}
	}
	return next
}

// calmDown follows one way from a copy of the world to its end.
func (w world) calmDown(way int, brings lifecycle.Contract) error {
	const bound = 100
	for range bound {
		if w.store.over() {
			return nil
		}
		if broken := w.calmStep(way, brings); broken != nil {
			return fmt.Errorf("once calm (way %d): %w", way, broken)
		}
	}
	return wrong("12.9: no end within %d steps (way %d): %+v", bound, way, w.store.row)
}
