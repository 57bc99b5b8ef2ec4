package dispatch

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Attempt is what an effect function gets to know about its attempt.
type Attempt struct {
	Key        driver.ID
	Number     int
	Generation int64

	task *Task // nil: nothing is kept
}

// maxProof is how large a proof may be, in bytes: as large as one that is handed in.
const maxProof = 2048

// Prove keeps what the receiver has signed with what is written down of the attempt.
// What is no printable ASCII or too large is not kept.
func (a Attempt) Prove(proof string) {
	if a.task == nil || proof == "" || len(proof) > maxProof || strings.ContainsFunc(proof, func(r rune) bool { return r < ' ' || r > '~' }) {
		return
	}
	a.task.proof.Store(&proof)
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
	return t.effectOf(ctx, digest, nil, send)
}

// EffectOf is Effect for what is checked right before its start. bind does that,
// with a context that ends before the lease does, and returns the request's digest.
// Its error ends the delivery as an error of the delivery function before the
// effect would, and is written down before EffectOf returns it: a *Stop stops it,
// anything else leaves it undecided.
func (t *Task) EffectOf(ctx context.Context, bind Bind, send func(ctx context.Context, a Attempt) error) error {
	return t.effectOf(ctx, lifecycle.Digest{}, bind, send)
}

// Bind is the last check of a request before its start.
type Bind func(ctx context.Context) (lifecycle.Digest, error)

func (t *Task) effectOf(ctx context.Context, digest lifecycle.Digest, bind Bind, send func(ctx context.Context, a Attempt) error) error {
	if !t.enter() {
		return errTwice
	}
	defer t.effect.Unlock()
	if bind != nil {
		var err error
		if digest, err = t.bind(ctx, bind); err != nil {
			return err
		}
	}
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
	if late || errAt(ctx, began) != nil || t.life.effect.Err() != nil {
		t.unsentAfterAll(errNoTime)
		return errNoTime
	}
	limited := &t.contexts.effect
	limited.parent, limited.end = ctx, end
	defer limited.stop()
	if !t.own(ctx) { // then it need not end with the grace period
		defer context.AfterFunc(t.life.effect, limited.stop)()
	}
	v := judge(t.send(limited, number, send))
	ev := t.event(v.kind)
	ev.Attempt, ev.Wait, ev.Error, ev.HTTPStatus = number, t.pause(number, v.wish), v.text, v.http
	ev.Retryable = t.retryable(v.kind, number)
	if p := t.proof.Load(); p != nil {
		ev.Proof = *p
	}
	t.settle(began)
	return v.err
}

// enter holds t.effect, where this is the first effect of the attempt.
func (t *Task) enter() (first bool) {
	if !t.effect.TryLock() {
		return false
	}
	if t.called {
		t.effect.Unlock()
		return false
	}
	t.called = true
	return true
}

// own reports whether ctx is that of the delivery function.
func (t *Task) own(ctx context.Context) bool { return ctx == context.Context(&t.contexts.delivery) }

// send calls the effect's function.
func (t *Task) send(ctx context.Context, number int, send func(ctx context.Context, a Attempt) error) (err error) {
	defer caught(&err)
	t.proof.Store(nil)
	return send(ctx, Attempt{Key: t.Intent.Key, Number: number, Generation: t.generation, task: t})
}

// unsentAfterAll settles an attempt that was started and whose function was not
// called.
func (t *Task) unsentAfterAll(why error) {
	number := t.state.AttemptNo()
	ev := t.event(lifecycle.EvNotSent)
	ev.Attempt, ev.Wait, ev.Error = number, t.pause(number, 0), why.Error()
	t.settle(time.Time{})
}

// bind makes the last check and writes down what it refuses.
func (t *Task) bind(ctx context.Context, bind Bind) (d lifecycle.Digest, err error) {
	if !t.own(ctx) {
		limited := &lazyContext{parent: ctx, end: t.effectEnd()}
		defer limited.stop()
		defer context.AfterFunc(t.life.effect, limited.stop)()
		ctx = limited
	}
	if err = contain(func() (err error) { d, err = bind(ctx); return err }); err != nil {
		t.unstarted(err)
	}
	return d, err
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
	began := time.Now()
	if t.unsent() && t.life.stop.Err() != nil || t.life.effect.Err() != nil || errAt(ctx, began) != nil {
		t.notStarted(context.Cause(ctx))
		return errNoTime
	}
	latest := t.claimed.Add(t.state.Contract.Lease - t.state.Contract.Timeout - t.engine.Policy.SettleMargin)
	t.event(lifecycle.EvStart).Digest = digest
	switch err := t.decide(limit{t.life.hard, latest}); {
	case err != nil:
		t.giveBack()
		return err
	case t.answer == lifecycle.TooLate:
		t.notStarted(errNoTime)
		return errNoTime
	case t.answer != lifecycle.Apply:
		return errFenced
	case t.state.Status != lifecycle.Delivering:
		t.observed("settle", 0, 0)
		return &Stop{Code: t.said}
	}
	t.ev.Attempt = t.state.AttemptNo()
	if t.engine.observes() {
		took := time.Since(began)
		t.observed("start", took, took)
	}
	return nil
}

// notStarted gives up an attempt that is certain not to have been started. A loop
// that cannot go on ends.
func (t *Task) notStarted(why error) {
	if t.waits() {
		t.tell(lifecycle.EvInterrupted)
		return
	}
	t.undecided(why)
}

// giveBack ends a start of which it is not known whether it happened. The effect
// is not called, so what was started was certainly not sent. The start may still
// be on its way: then the first look does not see it, what is given back is
// refused because it has arrived in between, and the second look does.
func (t *Task) giveBack() {
	for range 3 {
		if _, err := t.look(limit{ctx: t.life.hard}); err != nil || !t.mine() {
			return // the lease will end, and the sweep or the next owner takes over
		}
		if t.state.InFlight {
			t.unsentAfterAll(errImpatient)
			return
		}
		kind := lifecycle.EvReleased
		if t.waits() {
			kind = lifecycle.EvInterrupted
		}
		if t.tell(kind) == lifecycle.Apply {
			return
		}
	}
}

// settle writes down the outcome of the effect, which began then; zero: it did not.
func (t *Task) settle(began time.Time) {
	t.wait = t.ev.Wait
	var ended time.Time
	var took time.Duration
	if t.engine.observes() {
		if ended = time.Now(); !began.IsZero() {
			took = ended.Sub(began)
		}
	}
	err := t.decide(limit{ctx: t.life.hard})
	t.settled = true
	if err == nil && t.answer == lifecycle.Apply {
		if t.engine.observes() {
			t.observed("settle", took, time.Since(ended))
		}
		t.putOff()
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
