package lifecycle_test

import (
	"time"

	"github.com/consign-go/consign/internal/lifecycle"
)

// mistake is a seeded one: what a slip in the core would have made of a decision.
// It is made around the core, before and after the real Apply, so that the judge
// is shown the event as it was.
type mistake struct {
	name  string
	told  string // what the judge must say, in part
	apply func(p lifecycle.Policy, s lifecycle.State, e lifecycle.Event) lifecycle.Transition
}

// in bends what Apply is asked, out bends what it answers.

func in(bend func(p *lifecycle.Policy, s *lifecycle.State, e *lifecycle.Event)) func(
	lifecycle.Policy, lifecycle.State, lifecycle.Event) lifecycle.Transition {
	return func(p lifecycle.Policy, s lifecycle.State, e lifecycle.Event) lifecycle.Transition {
		fence := lifecycle.Fence{Status: s.Status, Generation: s.Generation, Revision: s.Revision, Owner: s.Owner}
		bend(&p, &s, &e)
		t := p.Apply(s, e)
		if t.Answer == lifecycle.Apply {
			t.Fence = fence
		}
		return t
	}
}

func out(bend func(s *lifecycle.State, e *lifecycle.Event, t *lifecycle.Transition)) func(
	lifecycle.Policy, lifecycle.State, lifecycle.Event) lifecycle.Transition {
	return func(p lifecycle.Policy, s lifecycle.State, e lifecycle.Event) lifecycle.Transition {
		t := p.Apply(s, e)
		bend(&s, &e, &t)
		return t
	}
}

var mistakes = []mistake{
	{"a proof beside a no is overlooked", "beside a proof", in(func(_ *lifecycle.Policy, _ *lifecycle.State, e *lifecycle.Event) {
		e.Proof = ""
	})},
	{"the generation compare is dropped", "12.8", in(func(_ *lifecycle.Policy, s *lifecycle.State, e *lifecycle.Event) {
		if byOwner(e.Kind) {
			e.Owner, e.Generation = s.Owner, s.Generation
		}
	})},
	{"a claim keeps the generation", "12.2", out(func(s *lifecycle.State, e *lifecycle.Event, t *lifecycle.Transition) {
		if claims(e.Kind) {
			t.Set.Generation = s.Generation
		}
	})},
	{"cancelling leaves the owner its claim", "its claim", out(func(
		s *lifecycle.State, e *lifecycle.Event, t *lifecycle.Transition) {
		if e.Kind == lifecycle.EvCancel {
			t.Set.Generation = s.Generation
		}
	})},
	{"the margin after a lease is forgotten", "margin", in(func(
		p *lifecycle.Policy, _ *lifecycle.State, e *lifecycle.Event) {
		if e.Kind == lifecycle.EvClaim || e.Kind == lifecycle.EvSweep {
			p.SettleMargin = 0
		}
	})},
	{"the lease compare of the start is dropped", "T3", out(func(
		_ *lifecycle.State, e *lifecycle.Event, t *lifecycle.Transition) {
		t.Require.LeaseLeft = 0
	})},
	{"the deadline compare of the start is dropped", "12.12", out(func(
		_ *lifecycle.State, _ *lifecycle.Event, t *lifecycle.Transition) {
		t.Require.DeadlineLeft = false
	})},
	{"a start asks for its timeout without the margin", "T3", in(func(
		p *lifecycle.Policy, _ *lifecycle.State, e *lifecycle.Event) {
		if e.Kind == lifecycle.EvStart {
			p.SettleMargin = 0
		}
	})},
	{"an unknown outcome that is not idempotent is retried", "12.5", in(func(
		_ *lifecycle.Policy, s *lifecycle.State, e *lifecycle.Event) {
		if e.Kind == lifecycle.EvUnknown {
			s.Contract.Idempotent = true
		}
	})},
	{"a crash that is not idempotent is reclaimed", "12.5", in(func(
		_ *lifecycle.Policy, s *lifecycle.State, e *lifecycle.Event) {
		if e.Kind == lifecycle.EvClaim {
			s.Contract.Idempotent = true
		}
	})},
	{"a process-owned message is driven by the next owner", "12.5", in(func(
		_ *lifecycle.Policy, s *lifecycle.State, e *lifecycle.Event) {
		if e.Kind == lifecycle.EvClaim && s.Contract.Retry == lifecycle.Process && s.Contract.Idempotent {
			s.Contract.Retry, s.DueIn = lifecycle.Schedule, 0
		}
	})},
	{"a crash in flight leaves no doubt", "uncertain", out(func(
		s *lifecycle.State, e *lifecycle.Event, t *lifecycle.Transition) {
		if e.Kind == lifecycle.EvClaim {
			t.Set.Uncertain = s.Uncertain
		}
	})},
	{"a refusal clears the doubt of an earlier attempt", "uncertain", out(func(
		_ *lifecycle.State, e *lifecycle.Event, t *lifecycle.Transition) {
		if e.Kind == lifecycle.EvRefused {
			t.Set.Uncertain = false
		}
	})},
	{"a refusal brings doubt", "uncertain", out(func(
		_ *lifecycle.State, e *lifecycle.Event, t *lifecycle.Transition) {
		if e.Kind == lifecycle.EvRefused {
			t.Set.Uncertain = true
		}
	})},
	{"an unknown outcome is settled as a refusal", "uncertain", in(func(
		_ *lifecycle.Policy, _ *lifecycle.State, e *lifecycle.Event) {
		if e.Kind == lifecycle.EvUnknown {
			e.Kind = lifecycle.EvRefused
		}
	})},
	{"what is uncertain is cancelled", "12.7", out(func(
		_ *lifecycle.State, _ *lifecycle.Event, t *lifecycle.Transition) {
		if t.Code == lifecycle.AuthorityRevoked {
			t.Set.Status = lifecycle.Cancelled
		}
	})},
	{"a second digest is bound", "12.6", in(func(_ *lifecycle.Policy, s *lifecycle.State, e *lifecycle.Event) {
		if e.Kind == lifecycle.EvStart {
			s.Digest = lifecycle.Digest{}
		}
	})},
	{"attempts are not counted", "T3", out(func(s *lifecycle.State, _ *lifecycle.Event, t *lifecycle.Transition) {
		t.Set.Attempts = s.Attempts
	})},
	{"one attempt too many", "12.11", in(func(_ *lifecycle.Policy, s *lifecycle.State, _ *lifecycle.Event) {
		if s.Contract.MaxAttempts > 0 {
			s.Contract.MaxAttempts++
		}
	})},
	{"crashes before the start are not counted", "12.11", out(func(
		s *lifecycle.State, _ *lifecycle.Event, t *lifecycle.Transition) {
		t.Set.Crashes = s.Crashes
	})},
	{"a terminal status is written again", "12.4", in(func(
		_ *lifecycle.Policy, s *lifecycle.State, e *lifecycle.Event) {
		if e.Kind == lifecycle.EvCancel && s.Status == lifecycle.Failed {
			s.Status = lifecycle.Pending
		}
	})},
	{"an erased intent is claimed", "12.12", in(func(_ *lifecycle.Policy, s *lifecycle.State, _ *lifecycle.Event) {
		s.Erased, s.DueIn = false, 0
	})},
	{"the outcome of another attempt is believed", "T4..T6", in(func(
		_ *lifecycle.Policy, s *lifecycle.State, e *lifecycle.Event) {
		if e.Kind == lifecycle.EvSucceeded {
			e.Attempt = s.AttemptNo()
			s.InFlight = s.Status == lifecycle.Delivering
		}
	})},
	{"a stranded loop goes on", "12.5", in(func(_ *lifecycle.Policy, s *lifecycle.State, e *lifecycle.Event) {
		if e.Kind == lifecycle.EvClaim && s.Status == lifecycle.Delivering && s.LeaseLeft <= 0 && !s.InFlight {
			s.Status = lifecycle.Pending
			s.DueIn = 0
		}
	})},
	{"the end of what is uncertain asks nobody", "section 10", out(func(
		_ *lifecycle.State, _ *lifecycle.Event, t *lifecycle.Transition) {
		if t.Code == lifecycle.OutcomeUnknown {
			t.Set.Review = lifecycle.Clear
		}
	})},
	{"a stranded message asks nobody", "section 10", out(func(
		_ *lifecycle.State, e *lifecycle.Event, t *lifecycle.Transition) {
		if starts(e.Kind) {
			t.Set.Review = lifecycle.Keep
		}
	})},
	{"what was started leaves the schedule", "12.9", out(func(
		_ *lifecycle.State, e *lifecycle.Event, t *lifecycle.Transition) {
		if e.Kind == lifecycle.EvStart {
			t.Set.Due = lifecycle.Clear
		}
	})},
	{"nobody ends a crash on the last attempt", "12.9", out(func(
		s *lifecycle.State, e *lifecycle.Event, t *lifecycle.Transition) {
		if e.Kind == lifecycle.EvSweep && s.Status == lifecycle.Delivering {
			t.Answer = lifecycle.Unchanged
		}
	})},
	{"late evidence is dropped", "evidence", out(func(
		_ *lifecycle.State, _ *lifecycle.Event, t *lifecycle.Transition) {
		if t.Answer == lifecycle.Refuse {
			t.Log = nil
		}
	})},
	{"a settle leaves no log row", "section 7", out(func(
		_ *lifecycle.State, e *lifecycle.Event, t *lifecycle.Transition) {
		if e.Kind == lifecycle.EvRefused && t.Answer == lifecycle.Apply {
			t.Log = nil
		}
	})},
	{"a lease that is not over is taken", "T2b", in(func(
		_ *lifecycle.Policy, s *lifecycle.State, e *lifecycle.Event) {
		if e.Kind == lifecycle.EvClaim && s.Status == lifecycle.Leased {
			s.LeaseLeft -= time.Second
		}
	})},
	{"the deadline comes after the attempts", "T5", func(
		p lifecycle.Policy, s lifecycle.State, e lifecycle.Event) lifecycle.Transition {
		if e.Kind == lifecycle.EvRefused {
			s.DeadlineLeft = lifecycle.Never
		}
		t := p.Apply(s, e)
		t.Require.DeadlineLeft = t.Require.DeadlineLeft && e.Kind != lifecycle.EvRefused
		return t
	}},
	{"a success that was observed is forgotten", "12.7", in(func(
		_ *lifecycle.Policy, _ *lifecycle.State, e *lifecycle.Event) {
		if e.Kind == lifecycle.EvRejected {
			e.Kind = lifecycle.EvSucceeded
		}
	})},
}
