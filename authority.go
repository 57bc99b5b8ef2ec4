package consign

import (
	"context"
	"errors"
)

// Authority is the host program's answer to who may do what, asked anew each
// time: nothing that was true at an earlier moment is reused. Every method gets a
// read-only [View] of the database at that moment, which is over when it returns;
// see [Read]. It is asked from many goroutines at once.
//
// A definite no is said as one: ErrRevoked, ErrUnavailable or false. Any other
// error, and an empty answer without one, means that nothing could be decided.
// No authority never means an anonymous or a system one.
type Authority interface {
	// Principal rebuilds the actor's current authority in the tenant. Look the
	// tenant up through the actor's memberships, never globally, and take the
	// security version from where it is kept now. ErrRevoked: the actor or the
	// tenant is gone, or the one is not a member of the other.
	Principal(ctx context.Context, v View, actor, tenant Entity) (Principal, error)

	// Target finds the target in the principal's scope, with its current version
	// (a lock version, or else a time of change). ErrUnavailable: it is not there.
	Target(ctx context.Context, v View, p Principal, target Entity) (Target, error)

	// MayRun says whether the principal may run the operation on the target; a
	// zero target is one that the operation creates. It grants nothing else.
	MayRun(ctx context.Context, v View, p Principal, operation string, t Target) (bool, error)

	// MayRead says whether the principal may read the receipts of the operation on
	// the target, which need not exist any more. It grants nothing else.
	MayRead(ctx context.Context, v View, p Principal, operation string, target Entity) (bool, error)

	// MayDeliver says whether the work of this kind, left by this operation, may be
	// delivered on the principal's behalf now. It is asked twice for each attempt:
	// before the handler, and right before the effect. It grants nothing else.
	MayDeliver(ctx context.Context, v View, p Principal, operation, kind string, t Target) (bool, error)
}

// Principal is an actor's authority in a tenant, as it is now.
type Principal struct {
	Actor, Tenant Entity

	// SecurityVersion changes whenever the actor's authority does: 1 to 128 bytes
	// of UTF-8 without control characters.
	SecurityVersion string

	// Value is the host's own, handed on to its other methods. It is never stored.
	Value any
}

// Target is what an operation acts on, as it is now.
type Target struct {
	Entity Entity

	// Version changes whenever the target does: 1 to 128 bytes of UTF-8 without
	// control characters.
	Version string

	// Value is the host's own. It is never stored.
	Value any
}

// View is a read-only look at the database. It is sealed; use [Read].
type View interface{ sealed() }

// Read runs fn in a read-only transaction of the view's database, inside a run in
// the run's own transaction. A write through it fails. The type of tx is that of
// the program's store; any other is an error. The guard keeps honest code from
// writing by mistake; it is not a sandbox.
//
// fn closes the rows that it opens, and leaves the end of tx to Read: inside a run
// it is the run's own. It does not call Read again, which may need another
// connection of the pool than the one that it holds. Once the view is over, Read
// returns ErrClosed.
func Read[TX any](ctx context.Context, v View, fn func(tx TX) error) error {
	if d, ok := v.(*Delivery); ok && d != nil {
		v = d.view
	}
	r, ok := v.(interface {
		read(context.Context, func(TX) error) error
	})
	if !ok {
		return &Error{Op: "read", Faults: []Fault{{"tx", "is not the transaction type of this store"}}, Err: ErrInvalid}
	}
	return r.read(ctx, fn)
}

// errUndecided stands for an authority that answered without an answer.
var errUndecided = errors.New("the authority answered with neither a value nor an error")

// principal asks for the actor's authority and compares the answer whole.
func principal(ctx context.Context, a Authority, v View, actor, tenant Entity) (Principal, error) {
	p, err := a.Principal(ctx, v, actor, tenant)
	switch {
	case err != nil:
		return Principal{}, err
	case p.Actor == (Entity{}) || p.Tenant == (Entity{}): // half an answer is none
		return Principal{}, errUndecided
	case p.Actor != actor || p.Tenant != tenant:
		return Principal{}, wrapped{ErrRevoked, "the authority answered for another actor or tenant"}
	}
	var fs faults
	fs.name("principal.security_version", p.SecurityVersion, 1, 128)
	if len(fs) > 0 {
		return Principal{}, fs.err("authority")
	}
	return p, nil
}

// target asks for the target as it is now.
func target(ctx context.Context, a Authority, v View, p Principal, e Entity) (Target, error) {
	t, err := a.Target(ctx, v, p, e)
	switch {
	case err != nil:
		return Target{}, err
	case t.Entity == (Entity{}):
		return Target{}, errUndecided
	case t.Entity != e:
		return Target{}, wrapped{ErrUnavailable, "the authority answered with another target"}
	}
	var fs faults
	fs.name("target.version", t.Version, 1, 128)
	if len(fs) > 0 {
		return Target{}, fs.err("authority")
	}
	return t, nil
}
