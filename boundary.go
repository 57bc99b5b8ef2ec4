package consign

import (
	"context"
	"errors"
	"time"

	"github.com/consign-go/consign/internal/canon"
	"github.com/consign-go/consign/internal/dispatch"
	"github.com/consign-go/consign/internal/lifecycle"
)

// requestLimit is the largest request in canonical bytes.
const requestLimit = 16 << 10

// boundary is what one attempt has to pass before bytes may leave.
type boundary struct {
	handler   *Handler
	task      *dispatch.Task
	authority Authority
	look      func() closer
	prepared  string // the target's version that the request was prepared from
	request   []byte // in canonical form
	digest    [32]byte
}

// Errors that leave a delivery undecided.
var (
	errMoved  = errors.New("the target changed while the request was prepared; it is prepared again")
	errTooOld = errors.New("the deadline has passed")
	errInUse  = wrapped{ErrInvalid, "a view is being read: the effect is called after Read has returned"}
)

// bind checks everything that must hold before the start, in this order, and
// returns the request's digest; the first thing that is wrong ends it. The start
// then checks fence, lease, deadline, budget and digest in one write. fs are the
// faults of the other arguments of the effect.
func (b *boundary) bind(ctx context.Context, d *Delivery, request any, fs faults) (lifecycle.Digest, error) {
	if err := b.canonicalise(request, fs); err != nil {
		return lifecycle.Digest{}, &dispatch.Stop{Code: lifecycle.RequestInvalid, Err: err}
	}
	if err := b.handler.fits(&b.task.Intent); err != nil {
		return lifecycle.Digest{}, err
	}
	// By the local clock, which can be wrong. So it only saves the question; the
	// store decides whether the deadline has passed.
	if end := b.task.Deadline(); !end.IsZero() && !time.Now().Before(end) {
		return lifecycle.Digest{}, errTooOld
	}
	p, t, err := b.ask(ctx)
	if err != nil {
		return lifecycle.Digest{}, err
	}
	if t.Version != b.prepared { // under Current; Exact has refused it
		return lifecycle.Digest{}, errMoved
	}
	d.Principal, d.Target = p, t
	return b.digest, nil
}

func (b *boundary) canonicalise(request any, fs faults) error {
	body, err := canon.Object(request, canon.Limits{Bytes: requestLimit, Depth: maxDepth})
	if err != nil {
		fs.addCanon("request", err)
	}
	if err := fs.err("effect"); err != nil {
		return err
	}
	b.request, b.digest = body, canon.Digest(body)
	return nil
}

// ask asks the authority everything anew: who the actor is now, what the target is
// now, and whether this kind of work may be delivered. A definite no is a
// *dispatch.Stop; any other error leaves the delivery undecided.
func (b *boundary) ask(ctx context.Context) (Principal, Target, error) {
	var p Principal
	var t Target
	err := asking(b.look(), func(v View) (err error) {
		p, t, err = b.standing(ctx, v)
		return err
	})
	if err != nil {
		return Principal{}, Target{}, err
	}
	return p, t, nil
}

func (b *boundary) standing(ctx context.Context, v View) (Principal, Target, error) {
	i := &b.task.Intent
	var admitted [3]Entity
	for n, s := range []string{i.Actor, i.Tenant, i.Target} {
		var err error
		if admitted[n], err = ParseEntity(s); err != nil {
			return Principal{}, Target{}, undecided{"stored entities", err}
		}
	}
	p, err := principal(ctx, b.authority, v, admitted[0], admitted[1])
	if err != nil {
		return p, Target{}, answer("principal", err)
	}
	if p.SecurityVersion != i.SecurityVersion {
		return p, Target{}, &dispatch.Stop{Code: lifecycle.AuthorityRevoked, Err: errors.New("the actor's security version is not the admitted run's")}
	}
	t, err := target(ctx, b.authority, v, p, admitted[2])
	if err != nil {
		return p, t, answer("target", err)
	}
	if b.handler.kind.record == Exact && t.Version != i.TargetVersion {
		return p, t, &dispatch.Stop{Code: lifecycle.RecordChanged, Err: errors.New("the target's version is not the one that the run committed")}
	}
	ok, err := b.authority.MayDeliver(ctx, v, p, i.Operation, i.Kind, t)
	if err != nil {
		return p, t, answer("may deliver", err)
	}
	if !ok {
		return p, t, &dispatch.Stop{Code: lifecycle.DeliveryNotPermitted, Err: errors.New("the principal may not deliver this kind of work of this operation")}
	}
	return p, t, nil
}

// answer is what an error of the authority means: a definite no stops the delivery,
// and nothing else does. Joined errors say several things at once, so nothing
// definite can be read from a part.
func answer(question string, err error) error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		switch e {
		case ErrRevoked:
			return &dispatch.Stop{Code: lifecycle.AuthorityRevoked, Err: err}
		case ErrUnavailable:
			return &dispatch.Stop{Code: lifecycle.TargetUnavailable, Err: err}
		}
	}
	return undecided{question, err}
}

// undecided is an error of the authority that is no definite no. It is not a single
// wrap, so that nothing inside it, such as a [Cancel], is taken for a decision.
type undecided struct {
	question string
	err      error
}

func (u undecided) Error() string   { return u.question + ": " + u.err.Error() }
func (u undecided) Unwrap() []error { return []error{u.err} }
