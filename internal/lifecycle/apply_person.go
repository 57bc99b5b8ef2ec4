package lifecycle

// cancel is an operator's cancellation (T12). A message that waits between two
// attempts of its loop can be cancelled too: nothing is in flight.
func cancel(s *State) Transition {
	waiting := s.Status == Delivering && s.Contract.Retry == Process && !s.InFlight && !s.Stranded()
	if s.Status != Pending && s.Status != Leased && !waiting {
		return Transition{Answer: Refuse, Code: Fenced}
	}
	t := stop(s, takeOver(s), CancelledByOperator)
	if waiting {
		t.Require.LeaseLeft = 1 // any: when it is over the message is stranded, and no longer this to decide
	}
	return t
}

// resolved takes a delivery out of review because a person recorded a finding or
// sent it again. Its status stays; the owner of a stranded one is fenced, so that
// it cannot act against the finding. Cancelled work is never in review, but can be
// sent again: the revision that this adds lets one of two people do that.
func resolved(s *State) Transition {
	switch {
	case s.Stranded():
		t := takeOver(s)
		t.Set.Uncertain = s.Uncertain || s.InFlight
		t.Set.InFlight = false
		t.Set.Review = Clear
		return t
	case s.Status == ReconciliationRequired, s.Status == Failed, s.Status == Cancelled:
		t := change(s)
		t.Set.Review = Clear
		return t
	}
	return Transition{Answer: Refuse, Code: Fenced}
}

// erase leaves a tombstone: whatever the status, nothing starts it any more and
// its late owner is fenced.
func erase(s *State) Transition {
	t := takeOver(s)
	t.Set.Uncertain = s.Uncertain || s.InFlight
	t.Set.InFlight = false
	t.Set.Due, t.Set.Review = Clear, Clear
	t.Set.SetError = true
	t.Set.Erased = true
	return t
}

// handClaim is claim and start in one write, for messages driven by hand: the
// caller owns the attempts, nobody else ever starts it again.
func handClaim(s *State, e *Event) Transition {
	free := s.Status == Pending && s.GateOpen && s.DueIn <= 0 && s.DeadlineLeft > 0
	// What may have been sent already is sent again only where that does no harm.
	free = free && (!s.Uncertain || e.Contract.Idempotent)
	if s.Profile != Message || !free || e.Owner == (Token{}) ||
		s.Digest != (Digest{}) && s.Digest != e.Digest {
		return Transition{Answer: Unchanged}
	}
	t := takeOver(s)
	t.Set.Owner = e.Owner
	t.Set.Status = Delivering
	t.Set.InFlight = true
	t.Set.Digest = e.Digest
	t.Set.Crashes = 0
	t.Set.Started = true
	t.Set.SetContract = true
	t.Set.Contract = e.Contract
	t.Set.Contract.Retry = Process
	t.Set.Contract.MaxAttempts = 0
	t.Set.Contract.MaxAge = 0 // a deadline that it would only bring now could have passed already
	t.Set.Lease, t.Set.Due, t.Set.Review = After(e.Contract.Lease), Clear, After(e.Contract.Lease)
	t.Require.DeadlineLeft = true // this claim is a start too, and nothing starts after its deadline
	return t
}

// handMark is what the caller of a hand-driven claim records. The numbers are
// what its reader expects: an attempt adds one and never ends the message, a
// success adds one, giving up adds none. An attempt whose outcome its caller does
// not know leaves the message uncertain, as in a loop.
func handMark(s *State, e *Event) Transition {
	if s.Status == Succeeded && e.Kind == EvHandDelivered || s.Status == Failed && e.Kind == EvHandFailed {
		return Transition{Answer: Unchanged, Code: s.Code}
	}
	if s.Status != Delivering || !s.InFlight || !s.handDriven() {
		return fenced(s, e) // a loop's attempts are bounded, and count through settle alone
	}
	t := change(s)
	switch e.Kind {
	case EvHandAttempt:
		outcome := e.told()
		t.Set.Attempts++
		t.Set.Uncertain = s.Uncertain || outcome == Unknown
		t.Set.SetError, t.Set.Error = true, e.Error
		t.Log = &Attempt{
			Generation: s.Generation, Number: t.Set.Attempts, Outcome: outcome, Error: e.Error, HTTPStatus: e.HTTPStatus,
		}
		return t
	case EvHandDelivered:
		t.Set.Attempts++
		return succeed(t)
	}
	t.Set.SetError, t.Set.Error = e.Error != "", e.Error
	t.Set.Uncertain = s.Uncertain || e.Told != 0 && e.told() == Unknown
	switch {
	case t.Set.Uncertain:
		return stop(s, t, OutcomeUnknown)
	case e.Told == Rejected:
		return stop(s, t, OutcomeRejected)
	}
	return stop(s, t, AttemptsExhausted)
}
