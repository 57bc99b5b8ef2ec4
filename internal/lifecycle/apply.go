package lifecycle

import "time"

// Policy holds the two numbers that every decision shares.
type Policy struct {
	// SettleMargin is what must remain of a lease beyond the effect's timeout at
	// the start, and what must have passed beyond a lease before anyone else
	// touches a started delivery: the time that its owner has to write down
	// what it saw.
	SettleMargin time.Duration

	// CrashBudget is how many owners in a row may vanish before the start until
	// the delivery is stopped as poisoned.
	CrashBudget int
}

// DefaultPolicy is the policy of a store that was given none: a settle margin of
// 10 s and a crash budget of 5.
var DefaultPolicy = Policy{SettleMargin: 10 * time.Second, CrashBudget: 5}

// Apply decides what event e does to a delivery in state s. It is total and
// pure: it never fails, and an event that does not fit is answered with
// [Refuse] or [Unchanged]. It panics only where its own answer would break an
// invariant, which no input may bring about.
func (p Policy) Apply(s State, e Event) Transition {
	t := p.apply(&s, &e)
	if t.Answer == Apply {
		t.mustHold(&s)
	}
	return t
}

func (p Policy) apply(s *State, e *Event) Transition {
	if e.Kind.owned() {
		if e.Owner == (Token{}) || s.Owner != e.Owner || s.Generation != e.Generation || s.Erased {
			return fenced(s, e)
		}
		return p.applyOwned(s, e)
	}
	if s.Erased {
		return Transition{Answer: Unchanged}
	}
	switch e.Kind {
	case EvClaim:
		return p.claim(s, e)
	case EvHandClaim:
		return handClaim(s, e)
	case EvSweep:
		return p.sweep(s)
	case EvUnserved:
		return p.unserved(s, e)
	case EvCancel:
		return cancel(s)
	case EvResolved:
		return resolved(s)
	case EvErase:
		return erase(s)
	}
	return Transition{Answer: Refuse, Code: Fenced}
}

// applyOwned handles what the holder of the claim reports.
func (p Policy) applyOwned(s *State, e *Event) Transition {
	switch e.Kind {
	case EvStart:
		return p.start(s, e)
	case EvSucceeded, EvNotSent, EvRefused, EvRejected, EvUnknown:
		return settle(s, e)
	case EvStopped, EvUndecided, EvPanicked, EvReleased:
		return p.beforeStart(s, e)
	case EvCallbackFailed:
		return callbackFailed(s)
	case EvInterrupted:
		if s.Status == Delivering && s.Contract.Retry == Process && !s.InFlight {
			return stop(s, change(s), Interrupted)
		}
	case EvHandAttempt, EvHandDelivered, EvHandFailed:
		return handMark(s, e)
	}
	return fenced(s, e)
}

// change is the transition that sets everything to what it already is.
func change(s *State) Transition {
	return Transition{
		Answer: Apply,
		Fence:  Fence{Status: s.Status, Generation: s.Generation, Revision: s.Revision, Owner: s.Owner},
		Set: Columns{
			Status: s.Status, Generation: s.Generation, Owner: s.Owner, InFlight: s.InFlight,
			Attempts: s.Attempts, Crashes: s.Crashes, Uncertain: s.Uncertain, Digest: s.Digest, Code: s.Code,
			Due: Keep, Lease: Keep, Review: Keep,
		},
	}
}

// takeOver is a change made without the owner: whoever held the delivery is
// fenced from now on.
func takeOver(s *State) Transition {
	t := change(s)
	t.Set.Owner = Token{}
	t.Set.Lease = Clear
	t.Set.Generation++
	return t
}

// stop ends the delivery with code. What is uncertain is never called cancelled,
// and a message only ever fails. The owner stays on record, so that a look-up
// after a lost answer knows its own write.
func stop(s *State, t Transition, code Code) Transition {
	t.Set.Code, t.Code = code, code
	t.Set.InFlight = false
	t.Set.Due, t.Set.Lease, t.Set.Review = Clear, Clear, Clear
	switch {
	case s.Profile == Message:
		t.Set.Status = Failed
	case code.cancels() && !t.Set.Uncertain:
		t.Set.Status = Cancelled
	default:
		t.Set.Status = ReconciliationRequired
	}
	if t.Set.Status == ReconciliationRequired || t.Set.Uncertain {
		t.Set.Review = After(0)
	}
	return t
}

// backToPending gives a delivery back to the schedule.
func backToPending(t Transition, wait time.Duration) Transition {
	t.Set.Status = Pending
	t.Set.Owner = Token{}
	t.Set.InFlight = false
	t.Set.Lease = Clear
	t.Set.Due = After(wait)
	t.Require.DeadlineLeft = true
	return t
}

// fenced refuses a write. It changes no column; what the writer saw is kept
// beside the delivery, without its texts where the content was erased.
func fenced(s *State, e *Event) Transition {
	t := Transition{Answer: Refuse, Code: Fenced}
	if o, ok := e.observes(); ok && e.Generation > 0 {
		t.Log = &Attempt{
			Generation: e.Generation, Number: e.Attempt, Outcome: o, Code: Fenced,
			HTTPStatus: e.HTTPStatus, Late: true,
		}
		if !s.Erased {
			t.Log.Error, t.Log.Proof = e.Error, e.Proof
		}
	}
	return t
}

// mustHold panics where t breaks what no transition may break.
func (t *Transition) mustHold(s *State) {
	switch {
	case s.Status.Terminal() && t.Set.Status != s.Status:
		panic("lifecycle: a terminal status would change from " + s.Status.String())
	case t.Set.Status == Cancelled && t.Set.Uncertain:
		panic("lifecycle: an uncertain delivery would be cancelled")
	case t.Set.Generation < s.Generation:
		panic("lifecycle: the generation would fall")
	case s.Digest != (Digest{}) && t.Set.Digest != s.Digest:
		panic("lifecycle: a bound digest would change")
	case s.Uncertain && !t.Set.Uncertain && t.Set.Status != Succeeded:
		panic("lifecycle: the uncertain mark would vanish without a success")
	}
}
