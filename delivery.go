package consign

import (
	"context"
	"time"

	"github.com/consign-go/consign/internal/dispatch"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Delivery is one attempt to deliver a piece of work, in the hands of its handler.
// Until its effect it is a [View]: [Read] looks at the database as it is now, and
// each look is over when Read returns. The guard keeps honest code from writing by
// mistake; it is not a sandbox.
type Delivery struct {
	Ref       Ref
	Kind      string
	Run       ID        // the run that left the work
	Principal Principal // as the authority has just rebuilt it
	Target    Target    // as it is now
	Deadline  time.Time // by this machine's clock; no attempt starts after it

	view     closer
	boundary *boundary
}

func (*Delivery) sealed() {}

// Effect is the one place where bytes may leave. The request is what the far side
// is asked to do, whole, with its target: a struct, a map with string keys or a
// json.RawMessage, an object of at most 16 KiB and 8 levels in canonical form (RFC
// 8785). Times, decimals and other values that marshal themselves are given as the
// text or number that is to be sent; integers beyond ±(2^53−1) as text.
//
// Before send is called, in this order: the request is checked; the contract is
// compared with the one that the work was enqueued under, and the deadline looked
// at; the authority is asked anew for principal, target and permission; and in one
// durable write fence, lease, deadline and attempts are checked and the request's
// digest is bound to the delivery key, or compared with what an earlier attempt
// has bound. The first of these that fails ends the delivery or puts it off, and
// Effect returns an [*Error] whose Code says why: the handler has nothing left to
// do but to return.
//
// send gets the key and the exact bytes that were digested, and sends those. No
// transaction is open meanwhile. Its context ends with the contract's timeout, and
// before the lease does: use a transport that heeds it. It returns nil only for a
// known success, never for an HTTP error response; [NotSent], [Refused] or
// [Rejected] where it knows that much; anything else, a panic and joined errors
// included, means that the outcome is unknown. The outcome is durable before Effect
// returns send's error as it is.
//
// Effect works once: a second call is refused with EFFECT_CALLED_TWICE before its
// function runs. Do not call it inside [Read].
func (d *Delivery) Effect(ctx context.Context, request any, send func(ctx context.Context, a Attempt) error) error {
	if d == nil || d.boundary == nil {
		return &Error{Op: "effect", Err: wrapped{ErrInvalid, "the delivery is not one that a handler was given"}}
	}
	if !d.view.close() { // not even the refusal can be written while the only connection is read through
		return &Error{Op: "effect", Ref: d.Ref, Err: errInUse}
	}
	var fs faults
	if ctx == nil {
		fs.add("ctx", "is nil")
		ctx = context.Background() // for what is written down of it
	}
	if send == nil {
		fs.add("send", "is nil")
	}
	b, called := d.boundary, false
	err := b.task.EffectOf(ctx,
		func(ctx context.Context) (lifecycle.Digest, error) { return b.bind(ctx, d, request, fs) },
		func(ctx context.Context, a dispatch.Attempt) error {
			called = true
			return send(ctx, Attempt{
				Ref: d.Ref, Key: a.Key.String(), Request: b.request, Digest: b.digest, Number: a.Number, Generation: a.Generation,
				Trace: b.task.Intent.Trace, of: a,
			})
		})
	if err == nil || called {
		return err
	}
	return refusal(d.Ref, err)
}
