package reply

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Claim is the right to send one reply, and the place to say what became of it. It
// is safe for concurrent use.
type Claim struct {
	store driver.Driver
	ref   driver.ID
	key   driver.ID
	until time.Time // by this process's clock, from before the claim was sent

	mu         sync.Mutex
	owner      lifecycle.Token
	generation int64
	digest     lifecycle.Digest
	state      lifecycle.State // as last read, or written
	seen       Record
	next       int // number of the next attempt that is told of
	delivered  int // number of the attempt that was told to have succeeded; 0: none was

	owed []lifecycle.Event // marks of which it is not known whether they are written down
}

// Claim takes one reply to be sent by the caller: from pending to delivering, durably
// and in one write. won is true for exactly one caller, who alone may send it. It is
// false, with a nil error and nothing changed, for a reply that is not pending, that
// somebody holds, that is not due, that waits for a lower index of its task, or that
// does not exist.
//
// A channel counts as served, for the other programs on this database, while one of
// them calls Claim or [Outbox.Pending] for it at least every few minutes: what has
// been due for the grace period of consign.Options.HandlerGrace, and is served by
// nobody, they stop with CHANNEL_MISSING. A program that is to pick up what a crash
// left behind goes through Pending when it starts and from time to time.
//
// Errors: ErrClosed, ErrSchema, ErrUnconfirmed, or the database's own. With
// ErrUnconfirmed this call may have claimed the reply all the same: then it shows as
// delivering, unsent, and is in review when its lease is over.
func (o *Outbox[TX]) Claim(ctx context.Context, id consign.Ref) (c *Claim, won bool, err error) {
	const op = "claim"
	if err := o.ready(ctx, op); err != nil {
		return nil, false, err
	}
	stored, err := o.load(ctx, id)
	if err != nil {
		return nil, false, failure(op, err)
	}
	if !visible(stored) {
		return nil, false, nil
	}
	o.present.serves(stored.Intent.Kind)
	o.present.tell(ctx)
	contract := o.contract(stored.Intent.Kind)
	c = &Claim{store: o.bound, ref: driver.ID(id.ID), key: stored.Intent.Key, digest: stored.Intent.Digest}
	rand.Read(c.owner[:]) // never fails, by its documentation
	began := time.Now()
	won, err = c.take(patiently(ctx), stored, contract)
	if err != nil || !won {
		return nil, false, failure(op, err)
	}
	c.until = began.Add(contract.Lease)
	c.next = c.state.Attempts + 1
	return c, true, nil
}

// contract is what a claim by hand copies onto a message of channel.
func (o *Outbox[TX]) contract(channel string) lifecycle.Contract {
	c := o.channels[channel]
	lease := c.Lease
	if lease == 0 {
		lease = defaultLease
	}
	return lifecycle.Contract{Retry: lifecycle.Process, Idempotent: c.Idempotent, Lease: lease, Timeout: lease}
}

// take makes the claim, and looks whether it did where the answer was lost: the owner
// is this call's alone.
func (c *Claim) take(p *patience, stored *driver.Record, contract lifecycle.Contract) (won bool, err error) {
	ev := lifecycle.Event{Kind: lifecycle.EvHandClaim, Owner: c.owner, Contract: contract, Digest: c.digest}
	var sent error // the latest error of a write, which may have happened
	for {
		if stored == nil {
			return false, nil
		}
		c.state, c.seen = stored.State, record(stored)
		if c.state.Owner == c.owner {
			c.generation = c.state.Generation
			return true, nil
		}
		t := lifecycle.DefaultPolicy.Apply(c.state, ev)
		if t.Answer != lifecycle.Apply {
			return false, nil
		}
		held, err := c.apply(p, &t)
		if err != nil {
			sent = err
		}
		stored, err = p.look(c.store, c.ref)
		switch {
		case err != nil && (held || sent != nil):
			return false, unconfirmed(err)
		case err != nil:
			return false, err // nothing was written
		case sent != nil && stored != nil && stored.State.Revision == t.Fence.Revision && !p.again():
			return false, unconfirmed(sent)
		}
	}
}

// apply has the store carry out t.
func (c *Claim) apply(p *patience, t *lifecycle.Transition) (held bool, err error) {
	t.Ref = c.ref
	ctx, cancel := p.call()
	defer cancel()
	all, err := c.store.Apply(ctx, []lifecycle.Transition{*t})
	return err == nil && len(all) == 1 && all[0], err
}

// Record returns the reply as this claim last saw it.
func (c *Claim) Record() Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen
}

// Until is when the lease is over, by this process's clock: by then the reply should
// have ended. Afterwards it is in review as stranded and holds back no higher index
// of its task; its claim can still say what became of it.
func (c *Claim) Until() time.Time { return c.until }

// Attempt is what the sender needs to know of its next attempt: the exact bytes to
// send and the key under which a receiver drops repetitions.
func (c *Claim) Attempt() consign.Attempt {
	c.mu.Lock()
	defer c.mu.Unlock()
	return consign.Attempt{
		Ref: c.seen.ID, Key: c.key.String(), Request: append([]byte(nil), c.seen.Payload...), Digest: c.digest,
		Number: c.next, Generation: c.generation,
	}
}
