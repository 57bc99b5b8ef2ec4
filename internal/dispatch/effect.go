package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Attempt is what an effect function gets to know about its attempt.
type Attempt struct {
	Key        driver.ID
	Number     int
	Generation int64
}

// Errors that Effect returns without having called its function.
var (
	errTwice  = &Stop{Code: lifecycle.EffectCalledTwice}
	errFenced = &Stop{Code: lifecycle.Fenced}
	errNoTime = errors.New("the lease has no room left for the effect")
)

// Effect makes the start durable with the request's digest bound, calls send, and
// writes down the outcome before it returns. It is the one place from which bytes
// may leave, and works once in an attempt: a second call is refused before its
// function runs, and the first one's outcome stands.
//
// The context of send ends with ctx and before the lease does. The returned error
// is nil only for a known success.
func (t *Task) Effect(ctx context.Context, digest lifecycle.Digest, send func(ctx context.Context, a Attempt) error) error {
	if !t.effect.TryLock() {
		return errTwice
	}
	defer t.effect.Unlock()
	if t.called {
		return errTwice
	}
	t.called = true
	if err := t.start(ctx, digest); err != nil {
		return err
	}
	t.harmless()
	number := t.state.AttemptNo()
	began := time.Now()
	end := began.Add(t.state.Contract.Timeout)
	if last := t.effectEnd(); last.Before(end) {
		end = last
	}
	// The last look before the call. Where the answer to the start came so late
	// that the effect would have less than half of its time, or has been cancelled
	// meanwhile, calling it could only make something unknown of what is certain.
	late := end.Sub(began) < t.state.Contract.Timeout/2
	if late || ctx.Err() != nil || t.life.effect.Err() != nil {
		t.settle(&lifecycle.Event{
			Kind: lifecycle.EvNotSent, Attempt: number, Wait: t.pause(number, 0), Error: errNoTime.Error(),
		}, 0)
		return errNoTime
	}
	foreign := ctx != t.ctx
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	if foreign { // then it need not end with the grace period
		defer context.AfterFunc(t.life.effect, cancel)()
	}
	v := judge(func() error {
		return send(ctx, Attempt{Key: t.Intent.Key, Number: number, Generation: t.generation})
	})
	t.settle(&lifecycle.Event{
		Kind: v.kind, Attempt: number, Wait: t.pause(number, v.wish), Error: v.text, HTTPStatus: v.http,
		Retryable: t.retryable(v.kind, number),
	}, time.Since(began))
	return v.err
}

// retryable reports whether the outcome of attempt number is a rejection that the
// channel lets be tried again: fewer than that many came before it. The log tells;
// while it cannot be read, no outcome can be written down either.
func (t *Task) retryable(kind lifecycle.EventKind, number int) bool {
	allowed := t.served.Rejections
	if kind != lifecycle.EvRejected || t.state.Contract.Retry != lifecycle.Schedule || number <= allowed {
		return kind == lifecycle.EvRejected && allowed > 0
	}
	for pause := firstPause; allowed > 0; {
		rows, err := t.engine.store.History(t.life.hard, t.Intent.Ref)
		if err == nil {
			for _, r := range rows {
				if r.Outcome == lifecycle.Rejected && !r.Late {
					allowed--
				}
			}
			return allowed > 0
		}
		if !(limit{ctx: t.life.hard}).sleep(&pause) {
			break
		}
	}
	return false
}

// start marks that the effect may now happen. A start that the database did not
// confirm in time is not acted upon, and is given back when it turns out to have
// happened.
func (t *Task) start(ctx context.Context, digest lifecycle.Digest) error {
	if t.unsent() && t.life.stop.Err() != nil || t.life.effect.Err() != nil || ctx.Err() != nil {
		t.notStarted(context.Cause(ctx))
		return errNoTime
	}
	began := time.Now()
	latest := t.claimed.Add(t.state.Contract.Lease - t.state.Contract.Timeout - t.engine.Policy.SettleMargin)
	ev := lifecycle.Event{Kind: lifecycle.EvStart, Digest: digest}
	tr, err := t.decide(ev, limit{t.life.hard, latest})
	switch {
	case err != nil:
		t.giveBack(&tr)
		return err
	case tr.Answer == lifecycle.TooLate:
		t.notStarted(errNoTime)
		return errNoTime
	case tr.Answer != lifecycle.Apply:
		return errFenced
	case tr.Set.Status != lifecycle.Delivering:
		t.observed("settle", &ev, 0)
		return &Stop{Code: tr.Code}
	}
	ev.Attempt = t.state.AttemptNo()
	t.observed("start", &ev, time.Since(began))
	return nil
}

// notStarted gives up an attempt that is certain not to have been started. A loop
// that cannot go on ends.
func (t *Task) notStarted(why error) {
	if t.waits() {
		t.write(lifecycle.Event{Kind: lifecycle.EvInterrupted})
		return
	}
	t.write(t.undecided(why))
}

// giveBack ends a start of which it is not known whether it happened. The effect
// is not called, so what was started was certainly not sent. The start may still
// be on its way: then the first look does not see it, what is given back is
// refused because it has arrived in between, and the second look does.
func (t *Task) giveBack(tr *lifecycle.Transition) {
	for range 3 {
		if _, err := t.look(tr, limit{ctx: t.life.hard}); err != nil || !t.mine() {
			return // the lease will end, and the sweep or the next owner takes over
		}
		if t.state.InFlight {
			number := t.state.AttemptNo()
			t.settle(&lifecycle.Event{
				Kind: lifecycle.EvNotSent, Attempt: number, Wait: t.pause(number, 0), Error: errImpatient.Error(),
			}, 0)
			return
		}
		ev := lifecycle.Event{Kind: lifecycle.EvReleased}
		if t.waits() {
			ev.Kind = lifecycle.EvInterrupted
		}
		if t.write(ev) == lifecycle.Apply {
			return
		}
	}
}

// settle writes down the outcome of the effect, which took so long.
func (t *Task) settle(ev *lifecycle.Event, took time.Duration) {
	t.wait = ev.Wait
	tr, err := t.decide(*ev, limit{ctx: t.life.hard})
	t.settled = true
	if err == nil && tr.Answer == lifecycle.Apply {
		t.observed("settle", ev, took)
		t.putOff(ev.Wait)
	}
}

// pause is how long to wait after an attempt, at least as long as the receiver
// wishes. A process-owned loop waits no longer than its lease has room for, with
// all attempts that are left and their own pauses.
func (t *Task) pause(number int, wish time.Duration) time.Duration {
	s, c := &t.served.Schedule, &t.state.Contract
	wait := s.next(number, wish)
	if c.Retry != lifecycle.Process {
		return wait
	}
	room := time.Until(t.effectEnd()) - t.engine.Policy.SettleMargin
	for n := number + 1; n <= c.MaxAttempts; n++ {
		room -= c.Timeout
		if n < c.MaxAttempts {
			room -= s.wait(n, 0, 0)
		}
	}
	return max(min(wait, room), s.wait(number, 0, 0))
}
