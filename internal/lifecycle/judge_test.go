package lifecycle_test

import (
	"errors"
	"fmt"
	"slices"

	"github.com/consign-go/consign/internal/lifecycle"
)

// judge keeps the history of one intent in its own words: what was started, by
// whom, and which outcomes were written down. It holds every change of the row
// against that history and against SPEC section 12. It asks nothing of the
// package under test beyond its words, so that one mistake cannot be made twice.
type judge struct {
	contract lifecycle.Contract // of the latest start

	sent     int  // starts so far
	ended    int  // of them, with an end that was written down (a crash noticed counts)
	open     bool // the last start has no end yet
	openBy   lifecycle.Token
	openGen  int64
	openNo   int
	doubt    bool // of some start nobody wrote down a definite end
	accepted bool // a success was observed by the owner of the attempt, and written

	bound  lifecycle.Digest // the digest of the first start, or carried over
	loop   lifecycle.Token  // who first started it while its process owned the retries
	looped bool

	vanished int // owners in a row that were gone before they started
	resolved bool
	final    lifecycle.Status // once terminal
	isFinal  bool

	owner    lifecycle.Token // the latest owner, and its generation
	ownerGen int64
}

// birth is the judge of an intent as it was created.
func birth(r *row) judge { return judge{bound: r.digest, doubt: r.uncertain} }

func wrong(format string, args ...any) error { return fmt.Errorf(format, args...) }

// watch judges one event: what was decided, whether the write held, and what
// changed.
func (j *judge) watch(before *row, d *decided, held bool, s *store) error {
	if !held {
		if *before != s.row {
			return wrong("12.8: a write that did not hold changed the row")
		}
		return errors.Join(j.refusal(before, d), j.look(s))
	}
	err := errors.Join(j.fence(before, d, s), j.allowed(before, d, s), j.start(before, d, s), j.outcome(before, d, s), j.abandon(before, d, s),
		j.vanish(before, d, s), j.evidence(d))
	j.resolved = j.resolved || d.event.Kind == lifecycle.EvResolved
	return errors.Join(err, j.end(d, s), j.look(s))
}

// current reports whether the event's claim is the row's, by its columns alone.
func current(r *row, e *lifecycle.Event) bool {
	return !r.erased && e.Owner != lifecycle.Token{} && r.owner == e.Owner && r.generation == e.Generation
}

// refusal judges an event that changed nothing.
func (j *judge) refusal(before *row, d *decided) error {
	e, t := &d.event, &d.t
	if !byOwner(e.Kind) || current(before, e) || t.Answer == lifecycle.Apply {
		return nil // a decision that was overtaken is refused by the compare
	}
	if t.Answer != lifecycle.Refuse || t.Code != lifecycle.Fenced {
		return wrong("T10: a stale owner's %v was answered %v %q", e.Kind, t.Answer, t.Code)
	}
	if tellsOutcome(e.Kind) && e.Kind != lifecycle.EvHandFailed && e.Generation > 0 {
		switch {
		case t.Log == nil || !t.Log.Late || t.Log.Generation != e.Generation || t.Log.Number != e.Attempt:
			return wrong("T10: a fenced %v left no late evidence of its attempt", e.Kind)
		case t.Log.Outcome == lifecycle.Accepted != (e.Kind == lifecycle.EvSucceeded || e.Kind == lifecycle.EvHandDelivered):
			return wrong("T10: the evidence of %v reads %v", e.Kind, t.Log.Outcome)
		case byHand(e.Kind) && t.Log.Outcome != lifecycle.Accepted && t.Log.Outcome != lifecycle.Unknown && t.Log.Outcome != e.Told:
			return wrong("section 10: the evidence of %v reads as a definite no", e.Kind)
		case before.erased && t.Log.Error != "":
			return wrong("section 11: the evidence of an erased intent kept its text")
		}
	}
	return nil
}

// fence judges who may write at all, and that the fences only rise.
func (j *judge) fence(before *row, d *decided, s *store) error {
	e, r := &d.event, &s.row
	switch {
	case byOwner(e.Kind) && !current(before, e):
		return wrong("12.8: %v of a stale owner changed the row", e.Kind)
	case r.generation < before.generation || r.revision <= before.revision:
		return wrong("12.2: generation or revision fell")
	case before.isTerminal() && *r != afterEnd(*before, r, e.Kind):
		return wrong("12.4: %v changed a terminal row", e.Kind)
	case claims(e.Kind) && j.looped:
		return wrong("12.5: a process-owned message that was started was given to another owner")
	case before.erased:
		return wrong("12.12: an erased row was written")
	case !byOwner(e.Kind) && !claims(e.Kind) && (!before.isTerminal() || e.Kind == lifecycle.EvErase) &&
		(r.owner != lifecycle.Token{} || r.generation == before.generation):
		return wrong("section 3: %v without the owner left it its claim", e.Kind)
	}
	if r.owner != (lifecycle.Token{}) && r.owner != j.owner {
		if r.generation <= j.ownerGen || r.generation == before.generation {
			return wrong("12.2: two owners of generation %d", r.generation)
		}
		j.owner, j.ownerGen = r.owner, r.generation
	}
	return nil
}

// allowed judges the moment: what was decided must have been possible then, and
// what time can take away must still have held as it was written.
func (j *judge) allowed(before *row, d *decided, s *store) error {
	k := d.event.Kind
	overdue := before.deadline != none && before.deadline <= d.at
	switch {
	case claims(k) && !before.gateOpen:
		return wrong("section 9: claimed before its gate opened")
	case claims(k) && before.due > d.at:
		return wrong("T2: claimed %v before it was due", before.due-d.at)
	case claims(k) && overdue:
		return wrong("T2: claimed after its deadline")
	case k == lifecycle.EvCancel && before.status == lifecycle.Delivering && before.lease <= s.now:
		return wrong("T8b: a stranded message was cancelled")
	case k == lifecycle.EvResolved && !before.isTerminal() && before.lease != none && before.lease > d.at:
		return wrong("T8b: resolved while its owner may still be at it")
	}
	return nil
}

// afterEnd is a terminal row with what may still change about it.
func afterEnd(want row, r *row, k lifecycle.EventKind) row {
	want.revision = r.revision
	switch k {
	case lifecycle.EvCallbackFailed:
		if want.status == lifecycle.Succeeded && want.code == "" {
			want.code = lifecycle.PostEffectCallbackFailed
		}
	case lifecycle.EvResolved:
		want.review = none
	case lifecycle.EvErase:
		want.owner, want.generation, want.review = lifecycle.Token{}, want.generation+1, none
		want.lastError, want.erased = "", true
	}
	return want
}

// start judges a start mark: the moment after which bytes may leave.
func (j *judge) start(before *row, d *decided, s *store) error {
	e, r := &d.event, &s.row
	if !starts(e.Kind) || !r.inFlight {
		return nil
	}
	left := s.left(r.lease, 0)
	c := r.contract
	switch {
	case before.isTerminal() || before.erased:
		return wrong("12.12: started after its end, cancellation or erasure")
	case s.left(r.deadline, 1) <= 0:
		return wrong("12.12: started %v after its deadline", -s.left(r.deadline, 1))
	case e.Kind == lifecycle.EvStart && left < c.Timeout+s.policy.SettleMargin:
		return wrong("T3: started with %v of its lease left", left)
	case j.bound != (lifecycle.Digest{}) && r.digest != j.bound:
		return wrong("12.6: a second digest under one key")
	case c.MaxAttempts > 0 && j.sent >= c.MaxAttempts:
		return wrong("12.11: start number %d of %d", j.sent+1, c.MaxAttempts)
	case j.open:
		return wrong("12.5: started while the previous attempt has no end")
	case j.doubt && !c.Idempotent:
		return wrong("12.5: not idempotent, and sent again after an unknown outcome")
	case j.looped && r.owner != j.loop:
		return wrong("12.5: a process-owned message was started by a second owner")
	case claims(e.Kind) && (!before.gateOpen || before.status != lifecycle.Pending):
		return wrong("section 9: claimed by hand while not free")
	}
	j.sent++
	j.contract = c
	j.bound = r.digest
	j.open, j.openBy, j.openGen, j.openNo = true, r.owner, r.generation, r.attempts
	if r.profile == lifecycle.Message {
		j.openNo++
	}
	if c.Retry == lifecycle.Process && !j.looped {
		j.looped, j.loop = true, r.owner
	}
	return nil
}

// outcome judges what an owner wrote down about its attempt.
func (j *judge) outcome(before *row, d *decided, s *store) error {
	e, r := &d.event, &s.row
	if !tellsOutcome(e.Kind) {
		return nil
	}
	mine := j.open && j.openBy == e.Owner && j.openGen == e.Generation && (j.openNo == e.Attempt || byHand(e.Kind))
	if !mine {
		return wrong("T4..T6: %v was accepted for an attempt that its owner did not start", e.Kind)
	}
	switch e.Kind {
	case lifecycle.EvHandAttempt:
		j.openNo++
		if r.attempts != before.attempts+1 || r.status != lifecycle.Delivering || r.lastError != e.Error {
			return wrong("S2-039, S2-040: recording an attempt gave %d %v %q", r.attempts, r.status, r.lastError)
		}
		j.doubt = j.doubt || doubtful(e.Told)
		if d.t.Log.Outcome != lifecycle.Unknown && d.t.Log.Outcome != e.Told || r.uncertain != j.doubt {
			return wrong("section 5: an attempt told as %v is logged as %v, uncertain %v", e.Told, d.t.Log.Outcome, r.uncertain)
		}
		return nil
	case lifecycle.EvHandFailed:
		if r.attempts != before.attempts || r.status != lifecycle.Failed {
			return wrong("S2-044, S2-047: giving up gave %d %v", r.attempts, r.status)
		}
		j.doubt = j.doubt || e.Told != 0 && doubtful(e.Told)
		if r.uncertain != j.doubt {
			return wrong("section 5: given up as %v, uncertain %v", e.Told, r.uncertain)
		}
	case lifecycle.EvSucceeded, lifecycle.EvHandDelivered:
		j.accepted = true
		if r.status != lifecycle.Succeeded || r.uncertain || r.lastError != "" {
			return wrong("T4: an observed success gave %v, uncertain %v, error %q", r.status, r.uncertain, r.lastError)
		}
	case lifecycle.EvUnknown:
		j.doubt = true
	case lifecycle.EvRejected:
		if r.contract.Retry == lifecycle.Schedule && !e.Retryable && !r.isTerminal() {
			return wrong("T5b: a final no on the schedule gave %v", r.status)
		}
	}
	if e.Proof != "" && !j.accepted { // it says no, and has signed that it did it
		if j.doubt = true; !r.uncertain || r.status == lifecycle.Cancelled {
			return wrong("section 8: %v beside a proof is called certain", e.Kind)
		}
	}
	if e.Kind != lifecycle.EvHandFailed {
		j.ended++
	}
	j.open = false
	return nil
}

// doubtful is what a caller tells of a failure by hand without vouching for it.
func doubtful(told lifecycle.Outcome) bool {
	return told != lifecycle.NotSent && told != lifecycle.Refused && told != lifecycle.Rejected
}

// abandon notes that somebody other than its owner ended an attempt in flight.
func (j *judge) abandon(before *row, d *decided, s *store) error {
	if !j.open || s.row.inFlight {
		return nil
	}
	j.open, j.doubt = false, true
	if d.event.Kind != lifecycle.EvErase && d.event.Kind != lifecycle.EvResolved {
		j.ended++
		// Another owner gets it only a settle margin after the lease.
		if before.lease-s.now > -s.policy.SettleMargin {
			return wrong("T2c, T8: %v took over %v before the lease was over by the margin", d.event.Kind, before.lease-s.now)
		}
	}
	return nil
}

// vanish counts the owners in a row that never came to the start.
func (j *judge) vanish(before *row, d *decided, s *store) error {
	switch k := d.event.Kind; {
	case starts(k) && s.row.inFlight:
		j.vanished = 0
	case before.status != lifecycle.Leased:
	case k == lifecycle.EvClaim, k == lifecycle.EvSweep, k == lifecycle.EvUnserved:
		j.vanished++
		if before.lease > s.now {
			return wrong("T2b: %v took a lease that is not over", k)
		}
	case k == lifecycle.EvPanicked:
		j.vanished++
	}
	return nil
}

// evidence judges that the look-up after a lost answer can tell: every settle
// that is not a success names its attempt in the log.
func (j *judge) evidence(d *decided) error {
	e, t := &d.event, &d.t
	if t.Log != nil && t.Log.Late {
		return wrong("section 7: late evidence was written together with a change")
	}
	switch e.Kind {
	case lifecycle.EvNotSent, lifecycle.EvRefused, lifecycle.EvRejected, lifecycle.EvUnknown:
		if t.Log == nil || t.Log.Generation != e.Generation || t.Log.Number != e.Attempt {
			return wrong("section 7: %v was settled without its row in the log", e.Kind)
		}
	}
	return nil
}

// end judges the write that ended the intent.
func (j *judge) end(d *decided, s *store) error {
	r := &s.row
	if !r.isTerminal() || j.isFinal {
		return nil
	}
	j.isFinal, j.final = true, r.status
	overdue := r.deadline != none && r.deadline <= s.now
	switch {
	case r.status == lifecycle.Succeeded != (j.accepted && r.code == ""):
		return wrong("12.7: %v with code %q, success observed: %v", r.status, r.code, j.accepted)
	case r.status == lifecycle.Cancelled && j.doubt:
		return wrong("12.7: cancelled, though something may have been accepted")
	case r.profile == lifecycle.Work && r.status == lifecycle.Failed,
		r.profile == lifecycle.Message && r.status != lifecycle.Succeeded && r.status != lifecycle.Failed:
		return wrong("section 3: a %v ended as %v", r.profile, r.status)
	case r.code == lifecycle.DeadlineExpired && !overdue:
		return wrong("T13: expired before its deadline")
	case r.code == lifecycle.AttemptsExhausted && overdue && !byHand(d.event.Kind):
		return wrong("T5: ATTEMPTS_EXHAUSTED, though the deadline had passed too")
	case r.code == lifecycle.AttemptsExhausted && !byHand(d.event.Kind) && r.attempts < r.contract.MaxAttempts:
		return wrong("T5: exhausted after %d attempts of %d", r.attempts, r.contract.MaxAttempts)
	case r.code == lifecycle.OutcomeUnknown && !j.doubt:
		return wrong("T6: OUTCOME_UNKNOWN, though everything is known")
	case r.code == lifecycle.Poisoned && j.vanished < s.policy.CrashBudget:
		return wrong("T11b: poisoned after %d crashes", j.vanished)
	case d.event.Kind == lifecycle.EvSweep && r.code == lifecycle.OutcomeUnknown && r.contract.Idempotent && !overdue &&
		(r.contract.MaxAttempts == 0 || r.attempts < r.contract.MaxAttempts):
		return wrong("T8: the sweep ended what another owner may send again")
	case d.event.Kind == lifecycle.EvUnknown && r.code != lifecycle.OutcomeUnknown:
		return wrong("codes: %s before OUTCOME_UNKNOWN", r.code)
	case d.event.Kind == lifecycle.EvRejected && r.code != lifecycle.OutcomeRejected:
		return wrong("codes: %s before REJECTED", r.code)
	}
	return nil
}

// look judges the row alone, at this moment of the clock.
func (j *judge) look(s *store) error {
	r := &s.row
	done := r.isTerminal()
	switch {
	case j.isFinal && r.status != j.final:
		return wrong("12.4: %v became %v", j.final, r.status)
	case r.uncertain != (j.doubt && r.status != lifecycle.Succeeded):
		return wrong("T5, T6, 12.7: uncertain is %v, yet in doubt: %v, status %v", r.uncertain, j.doubt, r.status)
	case r.inFlight != j.open || r.inFlight && r.status != lifecycle.Delivering:
		return wrong("in flight is %v in status %v, yet an open start: %v", r.inFlight, r.status, j.open)
	case j.sent > 0 && r.digest != j.bound:
		return wrong("12.3: the first digest changed")
	case r.contract.MaxAttempts > 0 && r.attempts > r.contract.MaxAttempts:
		return wrong("12.11: %d attempts of %d", r.attempts, r.contract.MaxAttempts)
	case r.profile == lifecycle.Work && r.attempts != j.sent:
		return wrong("T3: work counts %d attempts after %d starts", r.attempts, j.sent)
	case r.profile == lifecycle.Message && r.contract.MaxAttempts > 0 && r.attempts != j.ended:
		return wrong("T3: the message counts %d attempts after %d ends", r.attempts, j.ended)
	case r.crashes != j.vanished || r.crashes > s.policy.CrashBudget:
		return wrong("12.11: %d crashes counted, %d happened", r.crashes, j.vanished)
	case !done && r.code != "":
		return wrong("section 3: a %v row has the code %s", r.status, r.code)
	case (r.lease != none) != (r.owner != lifecycle.Token{} && !done):
		return wrong("the lease of a %v row is %s", r.status, show(r.lease))
	}
	return errors.Join(j.found(s), j.reviewed(s))
}

// found judges that whatever is open can be found by a scan, and nothing else.
func (j *judge) found(s *store) error {
	r := &s.row
	loop := r.contract.Retry == lifecycle.Process && r.status == lifecycle.Delivering
	open := !r.isTerminal() && !r.erased && !loop
	if open != (r.due != none) {
		return wrong("12.9: a %v row has due %s", r.status, show(r.due))
	}
	if r.due != none && r.deadline != none && r.due > r.deadline {
		return wrong("12.9: due after the deadline, which nobody would notice")
	}
	return nil
}

// reviewed judges whether a person is asked, exactly when section 1 says so.
func (j *judge) reviewed(s *store) error {
	r := &s.row
	loop := r.contract.Retry == lifecycle.Process && r.status == lifecycle.Delivering
	var want at
	switch {
	case j.resolved || r.erased:
		want = none
	case loop:
		want = r.lease
	case r.status == lifecycle.ReconciliationRequired, r.status == lifecycle.Failed && r.uncertain:
		if r.review == none || r.review > s.now {
			return wrong("section 10: %v, uncertain %v, and nobody is asked", r.status, r.uncertain)
		}
		return nil
	default:
		want = none
	}
	if r.review != want {
		return wrong("section 10: review of a %v row is %s, not %s", r.status, show(r.review), show(want))
	}
	return nil
}

func show(m at) string {
	if m == none {
		return "none"
	}
	return m.String()
}

func (r *row) isTerminal() bool {
	return slices.Contains([]lifecycle.Status{
		lifecycle.Succeeded, lifecycle.Failed, lifecycle.Cancelled, lifecycle.ReconciliationRequired,
	}, r.status)
}

// over reports whether nothing more will happen by itself: an end, a tombstone,
// or a process-owned message whose owner is gone.
func (s *store) over() bool {
	r := &s.row
	return r.isTerminal() || r.erased ||
		r.status == lifecycle.Delivering && r.contract.Retry == lifecycle.Process &&
			(r.owner == lifecycle.Token{} || r.lease <= s.now)
}
