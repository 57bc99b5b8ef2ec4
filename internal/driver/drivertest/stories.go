package drivertest

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// story is one delivery's way through a list of steps: an event kind, an event,
// or a time to pass. Each step is checked column by column.
type story[TX any] struct {
	name   string
	row    func(b *bench[TX]) driver.New
	steps  []any
	status lifecycle.Status
	code   lifecycle.Code
	log    int // rows in the attempt log
}

func (s *story[TX]) tell(b *bench[TX]) {
	ref := b.add(s.row(b))
	for i, step := range s.steps {
		switch step := step.(type) {
		case time.Duration:
			b.shift(step)
		case lifecycle.Event:
			b.apply(ref, step)
		case lifecycle.EventKind:
			if step == lifecycle.EvClaim {
				b.take(ref)
				continue
			}
			b.apply(ref, lifecycle.Event{Kind: step, Wait: time.Minute, Error: fmt.Sprint("step ", i), HTTPStatus: 503, Contract: looped})
		}
	}
	r := b.record(ref)
	b.that(r.State.Status == s.status && r.State.Code == s.code, "ended %s %q, want %s %q", r.State.Status, r.State.Code, s.status, s.code)
	b.that(r.DueAt.IsZero() || !s.status.Terminal(), "an ended delivery is due at %s", r.DueAt)
	log := b.history(ref)
	b.that(len(log) == s.log, "%d log rows, want %d: %+v", len(log), s.log, log)
	for i := 1; i < len(log); i++ {
		b.that(!log[i].At.Before(log[i-1].At), "the log is not oldest first")
	}
}

// storiesMissNothing holds the list of stories against the list of events.
func storiesMissNothing[TX any](b *bench[TX]) {
	told := map[lifecycle.EventKind]bool{lifecycle.EvErase: true} // by Driver.Erase
	for _, s := range stories[TX]() {
		for _, step := range s.steps {
			switch step := step.(type) {
			case lifecycle.Event:
				told[step.Kind] = true
			case lifecycle.EventKind:
				told[step] = true
			}
		}
	}
	for _, k := range lifecycle.EventKinds() {
		b.that(told[k], "no story has the event %s", k)
	}
}

func stories[TX any]() []story[TX] {
	const (
		claim, start, succeeded = lifecycle.EvClaim, lifecycle.EvStart, lifecycle.EvSucceeded
		hour                    = time.Hour
	)
	message := func(b *bench[TX]) driver.New { return b.message("mail") }
	loop := func(b *bench[TX]) driver.New { return b.message("loop", under(looped)) }
	byHand := func(b *bench[TX]) driver.New { return b.message("hand", under(lifecycle.Contract{})) }
	work := func(b *bench[TX]) driver.New { return b.work("triaged", about("customer:1")) }
	single := func(b *bench[TX]) driver.New { return b.work("triaged", under(with(scheduled, once))) }
	stop := func(code lifecycle.Code) lifecycle.Event {
		return lifecycle.Event{Kind: lifecycle.EvStopped, Code: code}
	}
	other := lifecycle.Digest(sha256.Sum256([]byte("another request")))
	owner := lifecycle.Token{7}
	byOwner := lifecycle.Event{Kind: lifecycle.EvHandClaim, Owner: owner, Contract: looped}
	review, failed, cancelled := lifecycle.ReconciliationRequired, lifecycle.Failed, lifecycle.Cancelled
	return []story[TX]{
		{"message: success", message, []any{claim, start, succeeded}, lifecycle.Succeeded, "", 0},
		{"work: success, then its callback fails", work, []any{claim, start, succeeded, lifecycle.EvCallbackFailed}, lifecycle.Succeeded, lifecycle.PostEffectCallbackFailed, 0},
		{"work: three refusals", work, []any{claim, start, lifecycle.EvRefused, hour, claim, start, lifecycle.EvNotSent, hour, claim, start, lifecycle.EvRefused}, review, lifecycle.AttemptsExhausted, 3},
		{"message: three refusals", message, []any{claim, start, lifecycle.EvRefused, hour, claim, start, lifecycle.EvNotSent, hour, claim, start, lifecycle.EvRefused}, failed, lifecycle.AttemptsExhausted, 3},
		{"loop: two waits, then success", loop, []any{claim, start, lifecycle.EvRefused, start, lifecycle.EvRejected, start, succeeded}, lifecycle.Succeeded, "", 2},
		{"loop: interrupted while waiting", loop, []any{claim, start, lifecycle.EvNotSent, lifecycle.EvInterrupted}, failed, lifecycle.Interrupted, 1},
		{"loop: late success of a stranded one", loop, []any{claim, start, hour, succeeded}, lifecycle.Succeeded, "", 0},
		{"loop: stranded and resolved", loop, []any{claim, start, hour, lifecycle.EvResolved}, lifecycle.Delivering, "", 0},
		{"loop: cancelled while waiting", loop, []any{claim, start, lifecycle.EvRefused, lifecycle.EvCancel}, failed, lifecycle.CancelledByOperator, 1},
		{"work: rejected", work, []any{claim, start, lifecycle.EvRejected}, review, lifecycle.OutcomeRejected, 1},
		{"message: unknown, then success", message, []any{claim, start, lifecycle.EvUnknown, hour, claim, start, succeeded}, lifecycle.Succeeded, "", 1},
		{"work: unknown, not idempotent, resolved", single, []any{claim, start, lifecycle.EvUnknown, lifecycle.EvResolved}, review, lifecycle.OutcomeUnknown, 1},
		{"work: revoked", work, []any{claim, stop(lifecycle.AuthorityRevoked)}, cancelled, lifecycle.AuthorityRevoked, 0},
		{"work: record changed", work, []any{claim, stop(lifecycle.RecordChanged)}, review, lifecycle.RecordChanged, 0},
		{"work: revoked while uncertain", work, []any{claim, start, lifecycle.EvUnknown, hour, claim, stop(lifecycle.AuthorityRevoked)}, review, lifecycle.AuthorityRevoked, 1},
		{"work: request changed", work, []any{claim, start, lifecycle.EvRefused, hour, claim, lifecycle.Event{Kind: start, Digest: other}}, review, lifecycle.RequestChanged, 1},
		{"message: request changed while uncertain", message, []any{claim, start, lifecycle.EvUnknown, hour, claim, lifecycle.Event{Kind: start, Digest: other}}, failed, lifecycle.RequestChanged, 1},
		{"work: undecided, released, panicked, cancelled", work, []any{claim, lifecycle.EvUndecided, hour, claim, lifecycle.EvReleased, claim, lifecycle.EvPanicked, hour, lifecycle.EvCancel}, cancelled, lifecycle.CancelledByOperator, 1},
		{"message: cancelled while leased", message, []any{claim, lifecycle.EvCancel}, failed, lifecycle.CancelledByOperator, 0},
		{"work: crashed in flight, past its deadline", work, []any{claim, start, 25 * hour, lifecycle.EvSweep}, review, lifecycle.OutcomeUnknown, 1},
		{"work: past its deadline", work, []any{25 * hour, lifecycle.EvSweep}, cancelled, lifecycle.DeadlineExpired, 0},
		{"work: started too late", work, []any{claim, 25 * hour, start}, cancelled, lifecycle.DeadlineExpired, 0},
		{"work: nobody serves it", work, []any{hour, lifecycle.Event{Kind: lifecycle.EvUnserved, Code: lifecycle.HandlerMissing}}, review, lifecycle.HandlerMissing, 0},
		{"message: nobody serves it", byHand, []any{hour, lifecycle.Event{Kind: lifecycle.EvUnserved, Code: lifecycle.ChannelMissing}}, failed, lifecycle.ChannelMissing, 0},
		{"by hand: two attempts, then delivered", byHand, []any{byOwner, lifecycle.EvHandAttempt, lifecycle.EvHandAttempt, lifecycle.EvHandDelivered}, lifecycle.Succeeded, "", 2},
		{"by hand: refused, given up", message, []any{byOwner, lifecycle.Event{Kind: lifecycle.EvHandAttempt, Told: lifecycle.Refused}, lifecycle.EvHandFailed}, failed, lifecycle.AttemptsExhausted, 1},
		{"by hand: unknown, given up", message, []any{byOwner, lifecycle.EvHandAttempt, lifecycle.EvHandFailed}, failed, lifecycle.OutcomeUnknown, 1},
	}
}
