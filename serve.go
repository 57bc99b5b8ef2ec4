package consign

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/consign-go/consign/internal/dispatch"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Attempt is what an effect or a channel gets to know about one attempt.
type Attempt struct {
	Ref        Ref
	Key        string   // the delivery key: what the receiver deduplicates on
	Request    []byte   // the exact bytes that were digested: send these
	Digest     [32]byte // SHA-256 of Request
	Number     int      // of the attempt, from 1
	Generation int64    // of the claim
	Trace      string   // the trace context under which it was enqueued; empty: none

	of dispatch.Attempt
}

// KeepProof keeps what the receiver has signed, with the record of this attempt: where
// its outcome comes too late to be written down, a person accepts the proof as a
// finding. proof is 1 to 2,048 bytes of printable ASCII; anything else is not kept.
// Call it inside the effect, and only with what you have checked against Key and the
// request: nobody checks it again. Beside an error it makes the outcome uncertain: the
// receiver has said two things. An attempt that was made by hand keeps none.
func (a Attempt) KeepProof(proof string) { a.of.Prove(proof) }

// Result is what became of a visit.
type Result struct {
	Ref    Ref
	Status Status
	Code   Code
}

// Success reports whether the far side is known to have accepted it.
func (r Result) Success() bool { return r.Status == StatusSucceeded || r.Status == StatusDelivered }

// Queue takes refs that are due, for workers that call [Outbox.Visit]. It may
// lose, repeat and reorder them: a repeated visit finds nothing to do, a lost one
// is found by the next scan. A scheduled recovery needs a queue that survives
// restarts, or something that goes on scanning, or [Outbox.Serve]. [MemoryQueue] is
// one inside this program.
type Queue interface {
	Push(ctx context.Context, refs []Ref) error
}

// Observation is something that the engine did: ids, codes, durations and counts,
// never content.
type Observation struct {
	// Event is "claim", "start", "settle", "fence", "sweep", "error", or "listen":
	// wake-ups of other programs are seen to arrive, or do so no longer (Err says
	// why) and polling alone finds what they commit, until they arrive again.
	Event    string
	Kind     string        // the kind or channel; empty where several are meant
	Ref      Ref           // zero where several are meant
	Status   Status        // after a settle
	Code     Code          // after a settle, of a fence
	Outcome  string        // of a settle: "succeeded", "refused", "unknown", …
	Attempt  int           // of a start or a settle
	Count    int           // of a claim or a sweep
	Duration time.Duration // of a claim, of the wait for a start, of an effect
	Write    time.Duration // of a start or a settle: until it was durable
	Err      error         // of the database; never of user code
}

// engine makes the engine of what this program delivers; without any it still
// sweeps.
func (o *Outbox[TX]) newEngine(opt *Options) *dispatch.Engine {
	c := dispatch.Config{
		Store: o.bound, Program: opt.Program, Workers: opt.Workers, Grace: opt.Grace, Unserved: opt.HandlerGrace,
	}
	if r, ok := o.bound.(driver.Registry); ok {
		c.Registry = r
	}
	if w, ok := o.bound.(driver.Waker); ok {
		c.Waker = w
	}
	if p, ok := o.bound.(driver.Pauses); ok {
		c.Pauses = p
	}
	for _, ch := range o.channels {
		if ch.Deliver != nil {
			c.Served = append(c.Served, ch.served())
		}
	}
	for _, h := range opt.Handlers { // a copy each: the caller's list may change
		c.Served = append(c.Served, o.served(&h))
	}
	c.Observe = opt.observer()
	return dispatch.New(c)
}

// observer is who is told what the engine does; nil: nobody.
func (o *Options) observer() func(dispatch.Observation) {
	tell := o.Observe
	if o.Logger != nil {
		tell = logged(o.Logger)
		if o.Observe != nil {
			log := tell
			tell = func(ob Observation) { log(ob); o.Observe(ob) }
		}
	}
	if tell == nil {
		return nil
	}
	return func(ob dispatch.Observation) { tell(observation(&ob)) }
}

func observation(ob *dispatch.Observation) Observation {
	out := Observation{
		Event: ob.Event, Kind: ob.Kind, Ref: Ref{ID(ob.Ref)}, Code: ob.Code, Attempt: ob.Attempt,
		Count: ob.Count, Duration: ob.Duration, Write: ob.Write, Err: ob.Err,
	}
	if ob.Event == "settle" {
		out.Status, out.Outcome = Status(ob.Status.Public(ob.Profile)), ob.Outcome.String()
	}
	return out
}

// served is the channel as the engine sees it: its stored payload is the request.
func (c *Channel) served() *dispatch.Served {
	deliver := c.Deliver
	s := &dispatch.Served{Profile: lifecycle.Message, Kind: c.Name, Contract: c.contract(), Rejections: c.Rejections}
	s.Schedule = dispatch.Schedule{Waits: c.Waits, Jitter: 0.2}
	s.Deliver = func(ctx context.Context, t *dispatch.Task) error {
		i := &t.Intent
		// Copies, so that what a channel does to its bytes reaches no later attempt.
		request := bytes.Clone(i.Payload)
		m := Message{
			ID: Ref{ID(i.Ref)}, Channel: i.Kind, To: i.Address, Payload: json.RawMessage(bytes.Clone(i.Payload)),
			Task: i.Task, Index: i.Index, Subject: i.Subject,
		}
		return t.Effect(ctx, i.Digest, func(ctx context.Context, a dispatch.Attempt) error {
			return deliver(ctx, m, Attempt{
				Ref: m.ID, Key: a.Key.String(), Request: request, Digest: i.Digest, Number: a.Number, Generation: a.Generation,
				Trace: i.Trace, of: a,
			})
		})
	}
	return s
}

// Serve scans, sweeps and delivers until ctx ends, then stops gracefully: nothing
// new is claimed, what was not started is given back, running effects may end
// within [Options.Grace] and are cancelled after it, and what is known is written
// down, for which it takes up to 11 s more where an effect does not heed its
// context or the database does not answer. It is the recommended host of delivery;
// call it once, in any number of programs.
//
// A second signal should end the program at once, for whoever does not want to wait
// for the grace period. That needs no help from Serve: a process may be killed at any
// moment, and what was in flight is found when its lease ends. So let the first
// signal end ctx and give the next one back its usual effect:
//
//	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
//	context.AfterFunc(ctx, stop)
//	err := outbox.Serve(ctx)
//
// Before it begins it returns ErrSchema where the schema does not fit this program
// and ErrClosed where the database is closed. Any other trouble with the database
// is waited out, and told to [Options.Observe] as an "error".
func (o *Outbox[TX]) Serve(ctx context.Context) error {
	if err := o.checkSchema(ctx); errors.Is(err, ErrSchema) || errors.Is(err, driver.ErrNoSchema) || errors.Is(err, driver.ErrClosed) {
		return failure("serve", err)
	}
	return failure("serve", o.engine.Serve(ctx))
}

// Visit drives one intent through whatever it is due for. Losing the claim is a
// result, not an error. An intent that does not exist is ErrNotFound.
func (o *Outbox[TX]) Visit(ctx context.Context, ref Ref) (Result, error) {
	if err := o.checkSchema(ctx); err != nil {
		return Result{}, failure("visit", err)
	}
	r, found, err := o.engine.Visit(ctx, driver.ID(ref.ID))
	if err != nil {
		return Result{}, failure("visit", err)
	}
	if !found {
		return Result{}, &Error{Op: "visit", Err: ErrNotFound}
	}
	return result(r), nil
}

func result(r dispatch.Result) Result {
	return Result{Ref: Ref{ID(r.Ref)}, Status: Status(r.Status.Public(r.Profile)), Code: r.Code}
}

// Drain visits up to limit due or expired intents and returns what became of
// each, in no order. It installs no schedule. limit 0 means 100.
func (o *Outbox[TX]) Drain(ctx context.Context, limit int) ([]Result, error) {
	if err := o.checkSchema(ctx); err != nil {
		return nil, failure("drain", err)
	}
	rs, err := o.engine.Drain(ctx, limit)
	out := make([]Result, len(rs))
	for i, r := range rs {
		out[i] = result(r)
	}
	return out, failure("drain", err)
}

// Scan pushes the refs of up to limit due or expired intents to q and returns how
// many. It installs no schedule. limit 0 means 100.
func (o *Outbox[TX]) Scan(ctx context.Context, q Queue, limit int) (int, error) {
	if err := o.checkSchema(ctx); err != nil {
		return 0, failure("scan", err)
	}
	n, err := o.engine.Scan(ctx, limit, func(ctx context.Context, ids []driver.ID) error {
		refs := make([]Ref, len(ids))
		for i, id := range ids {
			refs[i] = Ref{ID(id)}
		}
		return q.Push(ctx, refs)
	})
	return n, failure("scan", err)
}

// Wake says that something was committed: call it after the commit of your own
// transaction. This program's Serve looks at once. On PostgreSQL other programs do
// too: they are sent a NOTIFY, one for all calls that come together and about a
// hundred a second at most, and Wake returns once it is sent or ctx has ended. The
// hint takes a connection of the pool for a moment, so do not call Wake while you
// hold the pool's last one.
//
// It only shortens the wait: scanning finds everything without it, and an error
// says no more than that others may look later.
func (o *Outbox[TX]) Wake(ctx context.Context) error {
	return failure("wake", o.engine.Announce().Wait(ctx))
}
