package lifecycle

// start marks that the effect of this attempt may now happen (T3, T3b), or stops
// the delivery where it may not.
func (p Policy) start(s *State, e *Event) Transition {
	again := s.Status == Delivering && s.Contract.Retry == Process && !s.InFlight
	if s.Status != Leased && !again {
		return fenced(s, e)
	}
	t := change(s)
	switch {
	case s.DeadlineLeft <= 0:
		return stop(s, t, DeadlineExpired)
	case s.Digest != (Digest{}) && s.Digest != e.Digest:
		return stop(s, t, RequestChanged)
	case !s.attemptsLeft(0):
		return stop(s, t, AttemptsExhausted)
	case s.LeaseLeft < s.Contract.Timeout+p.SettleMargin:
		return Transition{Answer: TooLate}
	}
	t.Require.LeaseLeft = s.Contract.Timeout + p.SettleMargin
	t.Require.DeadlineLeft = true
	t.Set.Status = Delivering
	t.Set.InFlight = true
	t.Set.Digest = e.Digest
	t.Set.Crashes = 0
	t.Set.Started = true
	if s.Profile == Work {
		t.Set.Attempts++
	}
	if s.Contract.Retry == Process {
		// Nobody else may ever start it again: it leaves the due index now, and
		// asks for a person when the lease ends before it does.
		t.Set.Due, t.Set.Review = Clear, AtLeaseEnd
	}
	return t
}

// settle records the outcome of the attempt in flight (T4, T5, T5b, T6).
func settle(s *State, e *Event) Transition {
	if s.Status == Succeeded && e.Kind == EvSucceeded && e.Attempt == s.Attempts {
		return Transition{Answer: Unchanged, Code: s.Code}
	}
	if s.Status != Delivering || !s.InFlight || e.Attempt != s.AttemptNo() || s.handDriven() {
		return fenced(s, e) // what is driven by hand is marked by hand alone: its attempts have no start of their own
	}
	t := change(s)
	t.Set.InFlight = false
	t.Set.SetError, t.Set.Error = true, e.Error
	spent := 0
	if s.Profile == Message {
		spent = 1
		t.Set.Attempts++
	}
	outcome, _ := e.observes()
	if outcome == Accepted {
		return succeed(t)
	}
	t.Log = &Attempt{
		Generation: s.Generation, Number: e.Attempt, Outcome: outcome, Error: e.Error,
		HTTPStatus: e.HTTPStatus, Wait: max(e.Wait, 0), Proof: e.Proof,
	}
	t = afterFailure(s, e, t, outcome, s.attemptsLeft(spent))
	t.Log.Code = t.Code
	return t
}

// succeed ends t with an observed success, which also settles every doubt of
// earlier attempts: the far side has the request under this key.
func succeed(t Transition) Transition {
	t.Set.Status = Succeeded
	t.Set.InFlight = false
	t.Set.Uncertain = false
	t.Set.Due, t.Set.Lease, t.Set.Review = Clear, Clear, Clear
	t.Set.SetError, t.Set.Error = true, ""
	t.Set.Code = ""
	return t
}

// afterFailure decides between another attempt and the end.
func afterFailure(s *State, e *Event, t Transition, o Outcome, left bool) Transition {
	process := s.Contract.Retry == Process
	signed := e.Proof != "" // the far side has said two things: nobody knows which is true
	unknown := o == Unknown || signed && o != Rejected
	t.Set.Uncertain = s.Uncertain || unknown || signed
	mayRetry := s.Contract.Idempotent || !unknown && !signed
	if o == Rejected && !process && !e.Retryable {
		mayRetry = false
	}
	overdue := s.DeadlineLeft <= 0
	stranded := process && s.LeaseLeft <= 0
	if mayRetry && left && !overdue && !stranded {
		if !process {
			return backToPending(t, e.Wait)
		}
		t.Require.DeadlineLeft = true
		t.Require.LeaseLeft = 1 // any: the loop ends with its lease
		return t
	}
	switch {
	case unknown:
		return stop(s, t, OutcomeUnknown)
	case o == Rejected:
		return stop(s, t, OutcomeRejected)
	case overdue:
		return stop(s, t, DeadlineExpired)
	case !left:
		// Whether the deadline passed meanwhile decides between two codes, so
		// it is asked again as the write happens.
		t.Require.DeadlineLeft = true
		return stop(s, t, AttemptsExhausted)
	}
	return stop(s, t, Interrupted)
}

// beforeStart handles what an owner reports of a delivery that it has not
// started: nothing was sent (T7, T11, T11b, T14).
func (p Policy) beforeStart(s *State, e *Event) Transition {
	if s.Status != Leased {
		return fenced(s, e)
	}
	t := change(s)
	t.Set.SetError, t.Set.Error = true, e.Error
	if e.Kind == EvStopped {
		if !e.Code.stopsBeforeStart() {
			return Transition{Answer: Refuse, Code: Fenced}
		}
		return stop(s, t, e.Code)
	}
	if e.Kind == EvReleased {
		t.Set.SetError = false
		t = backToPending(t, 0)
		t.Set.Due = Keep // it was due when it was claimed, and keeps its place
		t.Require.DeadlineLeft = false
		return t
	}
	if e.Kind == EvPanicked {
		t.Set.Crashes++
		t.Log = &Attempt{Generation: s.Generation, Number: s.AttemptNo(), Outcome: Crashed, Error: e.Error}
	}
	switch {
	case s.DeadlineLeft <= 0:
		t = stop(s, t, DeadlineExpired)
	case e.Kind == EvPanicked && t.Set.Crashes >= p.CrashBudget:
		t = stop(s, t, Poisoned)
	default:
		t = backToPending(t, e.Wait)
	}
	if t.Log != nil {
		t.Log.Code = t.Code
	}
	return t
}

// callbackFailed notes once, on a success, that the handler failed after it (T9).
func callbackFailed(s *State) Transition {
	if s.Status != Succeeded {
		return Transition{Answer: Refuse, Code: Fenced}
	}
	if s.Code != "" {
		return Transition{Answer: Unchanged, Code: s.Code}
	}
	t := change(s)
	t.Set.Code, t.Code = PostEffectCallbackFailed, PostEffectCallbackFailed
	return t
}
