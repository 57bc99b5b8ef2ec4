package reply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/dispatch"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// RecordAttempt notes that one attempt ended without success: it adds one to the
// attempts and stores the text of err as the last error; a nil err clears that. The
// reply stays delivering, held by this claim, however many there are.
//
// consign.NotSent, consign.Refused and consign.Rejected are definite. After any other
// err, nil included, the reply may have arrived: it is uncertain until it is marked
// delivered. The text must not hold what the receiver said or whom it was about.
//
// It is tried until it is written or ctx has ended, and for 10 s at least. After
// ErrUnconfirmed the same call can be repeated and counts once; another mark first
// sees to it that this one is written down.
//
// Errors of all three marks: ErrFenced where the reply is no longer this claim's to
// decide about (it has ended, or a person took it over), and what was observed is
// kept as late evidence; both ErrFenced and ErrNotFound where it was purged;
// ErrNotFound where it was deleted; ErrUnconfirmed; ErrClosed.
func (c *Claim) RecordAttempt(ctx context.Context, err error) (Record, error) {
	told, http, text := dispatch.Told(err)
	return c.mark(ctx, "record attempt", lifecycle.Event{
		Kind: lifecycle.EvHandAttempt, Told: told, HTTPStatus: http, Error: text,
	})
}

// MarkDelivered ends the reply as delivered: it adds one to the attempts and clears
// the last error and every doubt. A reply that this claim has marked delivered is
// returned as it is. It says that the receiver is known to have accepted it, such as
// by an answer with a 2xx status. Errors are those of [Claim.RecordAttempt].
func (c *Claim) MarkDelivered(ctx context.Context) (Record, error) {
	return c.mark(ctx, "mark delivered", lifecycle.Event{Kind: lifecycle.EvHandDelivered})
}

// MarkFailed ends the reply as failed: nothing sends it again. It adds no attempt. A
// nil err keeps the last error and says nothing new; otherwise the text of err
// replaces it, and an err that is none of the three definite ones means that the
// reply may have arrived, as in [Claim.RecordAttempt], whose errors it returns. A
// reply that this claim has marked failed is returned as it is.
func (c *Claim) MarkFailed(ctx context.Context, err error) (Record, error) {
	ev := lifecycle.Event{Kind: lifecycle.EvHandFailed}
	if err != nil {
		ev.Told, ev.HTTPStatus, ev.Error = dispatch.Told(err)
	}
	return c.mark(ctx, "mark failed", ev)
}

// mark brings ev about, after whatever is owed from before. Who goes on after
// ErrUnconfirmed with another mark must not lose what the first one told: that a
// reply may have arrived, or that it did.
func (c *Claim) mark(ctx context.Context, op string, ev lifecycle.Event) (Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ev.Owner, ev.Generation = c.owner, c.generation
	c.owe(ev)
	for p := patiently(ctx); ; {
		first := &c.owed[0]
		if first.Attempt == 0 {
			first.Attempt = c.number(first.Kind)
		}
		r, err := c.decide(p, first)
		if errors.Is(err, consign.ErrUnconfirmed) {
			return Record{}, failure(op, err)
		}
		c.owed = c.owed[1:]
		switch {
		case len(c.owed) > 0: // a refusal meets what follows, too
		case err != nil:
			return Record{}, failure(op, err)
		default:
			return r, nil
		}
	}
}

// owe adds a mark to those that are to be written down, unless it is the last one
// once more. A success makes up for a failure of which nobody knows.
func (c *Claim) owe(ev lifecycle.Event) {
	if n := len(c.owed); n > 0 {
		last := &c.owed[n-1]
		if last.Kind == ev.Kind && last.Told == ev.Told && last.HTTPStatus == ev.HTTPStatus && last.Error == ev.Error {
			return
		}
	}
	if ev.Kind == lifecycle.EvHandDelivered {
		c.owed = slices.DeleteFunc(c.owed, func(e lifecycle.Event) bool { return e.Kind == lifecycle.EvHandFailed })
	}
	c.owed = append(c.owed, ev)
}

// number is that of the attempt that a mark is about. It names one attempt for ever:
// it is used again only while it is not known whether it was written down.
func (c *Claim) number(kind lifecycle.EventKind) int {
	if kind == lifecycle.EvHandDelivered && c.delivered > 0 {
		return c.delivered
	}
	return c.next
}

// decide writes ev down, or finds that it is written down already, or keeps what it
// tells as evidence. It goes by what was seen last, and looks again before it
// concludes from that that there is nothing to write.
func (c *Claim) decide(p *patience, ev *lifecycle.Event) (Record, error) {
	for looked := false; ; looked = true {
		if ev.Kind == lifecycle.EvHandAttempt && c.mine() && c.state.Attempts >= ev.Attempt {
			return c.told(ev), nil // the answer was lost, the write was not
		}
		t := lifecycle.DefaultPolicy.Apply(c.state, *ev)
		var held bool
		var sent error
		switch {
		case t.Answer == lifecycle.Apply:
			held, sent = c.apply(p, &t)
		case looked && t.Answer == lifecycle.Refuse:
			return Record{}, c.refused(p, ev, &t)
		case looked:
			return c.told(ev), nil
		}
		stored, err := p.look(c.store, c.ref)
		switch {
		case held && (err != nil || stored == nil): // written down, and cannot be looked at
			c.foresee(&t)
			return c.told(ev), nil
		case err != nil:
			return Record{}, unconfirmed(err)
		case stored == nil:
			return Record{}, consign.ErrNotFound
		}
		c.state, c.seen = stored.State, record(stored)
		if held {
			return c.told(ev), nil
		}
		if sent != nil && c.state.Revision == t.Fence.Revision && !p.again() {
			return Record{}, unconfirmed(sent)
		}
	}
}

// mine reports whether the reply is still under this claim, as far as it was seen.
func (c *Claim) mine() bool { return c.state.Owner == c.owner && c.state.Generation == c.generation }

// told notes that the attempt of ev is on record.
func (c *Claim) told(ev *lifecycle.Event) Record {
	switch ev.Kind {
	case lifecycle.EvHandAttempt:
		c.next = ev.Attempt + 1
	case lifecycle.EvHandDelivered:
		c.delivered = ev.Attempt
		c.next = max(c.next, ev.Attempt+1)
	}
	return c.seen
}

// foresee is what t makes of the reply, where it cannot be read.
func (c *Claim) foresee(t *lifecycle.Transition) {
	set := &t.Set
	c.state.Status, c.state.InFlight, c.state.Attempts = set.Status, set.InFlight, set.Attempts
	c.state.Uncertain, c.state.Code = set.Uncertain, set.Code
	c.state.Revision++
	c.seen.Status = consign.Status(set.Status.Public(lifecycle.Message))
	c.seen.Attempts, c.seen.Uncertain, c.seen.Code = set.Attempts, set.Uncertain, set.Code
	if set.SetError {
		c.seen.LastError = set.Error
	}
}

// refused keeps what a mark tells of a reply that is no longer this claim's, once for
// each attempt.
func (c *Claim) refused(p *patience, ev *lifecycle.Event, t *lifecycle.Transition) error {
	why := consign.ErrFenced
	if c.state.Erased {
		why = fmt.Errorf("%w: %w", consign.ErrFenced, consign.ErrNotFound)
	}
	if t.Log == nil {
		return why
	}
	for {
		ctx, cancel := p.call()
		err := c.store.Append(ctx, []driver.Logged{{Ref: c.ref, Attempt: *t.Log}})
		cancel()
		if err == nil {
			c.told(ev)
			return why
		}
		if errors.Is(err, driver.ErrClosed) || !p.again() {
			return fmt.Errorf("%w, and the evidence was not kept: %w", why, err)
		}
	}
}
