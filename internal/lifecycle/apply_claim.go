package lifecycle

// claim gives the delivery to a new owner, where it may be started (T2, T2b,
// T2c). What crashed owners left behind is counted here.
func (p Policy) claim(s *State, e *Event) Transition {
	no := Transition{Answer: Unchanged}
	if s.Status.Terminal() || !s.GateOpen || s.DueIn > 0 || s.DeadlineLeft <= 0 || e.Owner == (Token{}) {
		return no
	}
	t := takeOver(s)
	contract := s.Contract
	switch s.Status {
	case Pending:
		if contract.Retry == Unclaimed {
			if e.Contract.Retry == Unclaimed {
				return no
			}
			contract = e.Contract
			t.Set.SetContract, t.Set.Contract = true, contract
		}
	case Leased:
		if s.LeaseLeft > 0 || s.Crashes+1 >= p.CrashBudget {
			return no
		}
		t.Set.Crashes++
	case Delivering:
		if !p.reclaimable(s) {
			return no
		}
		t.Log = crashLog(s)
		t.Set.Attempts += s.crashed()
		t.Set.Uncertain = true
		t.Set.InFlight = false
	}
	t.Set.Status = Leased
	t.Set.Owner = e.Owner
	t.Set.Lease = After(contract.Lease)
	return t
}

// reclaimable reports whether another owner may start a delivery whose owner
// vanished while it was in flight (T2c).
func (p Policy) reclaimable(s *State) bool {
	return s.Contract.Retry == Schedule && s.Contract.Idempotent && s.LeaseLeft <= -p.SettleMargin &&
		s.DeadlineLeft > 0 && s.attemptsLeft(s.crashed())
}

// crashLog is the row that tells of an attempt whose owner vanished in flight.
func crashLog(s *State) *Attempt {
	return &Attempt{Generation: s.Generation, Number: s.AttemptNo(), Outcome: Crashed, Code: OutcomeUnknown}
}

// sweep ends what nobody may or can claim any more (T8, T11b, T13).
func (p Policy) sweep(s *State) Transition {
	no := Transition{Answer: Unchanged}
	overdue := s.DeadlineLeft <= 0
	t := takeOver(s)
	switch s.Status {
	case Pending:
		if overdue {
			return stop(s, t, DeadlineExpired)
		}
	case Leased:
		if s.LeaseLeft > 0 {
			return no
		}
		t.Set.Crashes++
		switch {
		case overdue:
			return stop(s, t, DeadlineExpired)
		case t.Set.Crashes >= p.CrashBudget:
			return stop(s, t, Poisoned)
		}
	case Delivering:
		if s.Contract.Retry != Schedule || s.LeaseLeft > -p.SettleMargin || p.reclaimable(s) {
			return no
		}
		t.Log = crashLog(s)
		t.Set.Attempts += s.crashed()
		t.Set.Uncertain = true
		return stop(s, t, OutcomeUnknown)
	}
	return no
}

// unserved stops what no live program serves (T15). The caller has waited for
// the grace period; what somebody still holds is left alone.
func (p Policy) unserved(s *State, e *Event) Transition {
	switch e.Code {
	case HandlerMissing, HandlerChanged, ChannelMissing:
	default:
		return Transition{Answer: Refuse, Code: Fenced}
	}
	if t := p.sweep(s); t.Answer == Apply {
		return t
	}
	t := takeOver(s)
	switch {
	case s.Status == Pending && s.DueIn <= 0:
	case s.Status == Leased && s.LeaseLeft <= 0:
		t.Set.Crashes++
	case s.Status == Delivering && p.reclaimable(s):
		// Nobody will come to claim it, so what is known of it is final.
		t.Log = crashLog(s)
		t.Set.Attempts += s.crashed()
		t.Set.Uncertain = true
	default:
		return Transition{Answer: Unchanged}
	}
	return stop(s, t, e.Code)
}
