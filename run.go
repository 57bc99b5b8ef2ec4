package consign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/consign-go/consign/internal/canon"
	"github.com/consign-go/consign/internal/driver"
)

// Operation is a domain operation that may be admitted.
type Operation struct {
	// Name is what grants are given on: 1 to 128 bytes of printable ASCII.
	Name string
}

// Admission is one request to run an operation.
type Admission struct {
	Operation Operation

	// Actor runs it, in Tenant.
	Actor, Tenant Entity

	// Target is what it acts on, and all that its work may name. Default: the
	// operation creates its target and names it with [Run.Created].
	Target Entity

	// Input is what the operation was asked to do: a struct, a map with string
	// keys or a json.RawMessage, at most 16 KiB in canonical form. Only its digest
	// is stored. Default: none.
	Input any

	// Subject is whose data the run and its work hold: what an erasure names. At
	// most 128 bytes of UTF-8 without control characters. Default: nobody's.
	Subject string
}

// Receipt is the durable result of a run. What becomes of its work later never
// changes it: a ref in Work means that the delivery is tracked, not that it is done.
type Receipt struct {
	Run     ID
	Target  Entity
	Version string          // of the target, as committed
	Body    json.RawMessage // what the operation set with Run.Receipt; nil: nothing
	Work    []Ref
}

// Run is an operation execution while its function runs. It is safe for
// concurrent use and of no use after the function has returned.
type Run struct {
	id        ID
	admission Admission
	principal Principal

	mu      sync.Mutex
	closed  bool
	target  Entity
	created bool
	body    []byte
	rows    []driver.New
	keys    map[string]int
}

// MaxWork is how much work one run may enqueue.
const MaxWork = 1000

// ID names the run.
func (r *Run) ID() ID { return r.id }

// Principal is the authority under which the run was admitted.
func (r *Run) Principal() Principal { return r.principal }

// Target is the entity that the run acts on, the only one that its work names.
// It is zero until [Run.Created] where the operation creates its target.
func (r *Run) Target() Entity {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.target
}

// Created names the target that the operation has inserted: once, and only where
// the admission named none.
func (r *Run) Created(e Entity) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var fs faults
	switch {
	case r.closed:
		return &Error{Op: "run", Err: wrapped{ErrClosed, "the run has ended"}}
	case r.admission.Target != (Entity{}):
		fs.add("target", "was named by the admission")
	case r.created:
		fs.add("target", "is named already")
	default:
		fs.entity("target", e)
	}
	if err := fs.err("run"); err != nil {
		return err
	}
	r.target, r.created = e, true
	return nil
}

// Receipt sets the business receipt: a JSON object of at most 4,096 bytes in
// canonical form. A later call replaces it.
func (r *Run) Receipt(v any) error {
	body, err := canon.Object(v, canon.Limits{Bytes: 4096, Depth: maxDepth})
	var fs faults
	if err != nil {
		fs.addCanon("receipt", err)
	}
	if err := fs.err("run"); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return &Error{Op: "run", Err: wrapped{ErrClosed, "the run has ended"}}
	}
	r.body = body
	return nil
}

// add notes a piece of work until the run is sealed.
func (r *Run) add(n driver.New) (Ref, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return Ref{}, &Error{Op: "enqueue", Err: wrapped{ErrClosed, "the run has ended; work is enqueued while its function runs"}}
	}
	if i, taken := r.keys[n.WorkKey]; taken {
		old := &r.rows[i]
		if old.Kind != n.Kind || old.Digest != n.Digest || old.Fingerprint != n.Fingerprint {
			return Ref{}, &Error{Op: "enqueue", Err: wrapped{ErrConflict, "the key is taken by other work of this run"}}
		}
		return Ref{ID(old.Ref)}, nil
	}
	if len(r.rows) == MaxWork {
		return Ref{}, faults{{"work", "more than " + strconv.Itoa(MaxWork) + " in one run"}}.err("enqueue")
	}
	n.Ref = driver.NewID()
	n.Key = n.Ref
	r.keys[n.WorkKey] = len(r.rows)
	r.rows = append(r.rows, n)
	return Ref{ID(n.Ref)}, nil
}

// Run executes one admitted operation in a transaction of its own: the authority
// is asked, fn changes data and enqueues work, the target's version is read as it
// will be committed, and run, work and audit row are written. All of it commits or
// none of it does; an error or a panic of fn rolls everything back.
//
// Errors: ErrInvalid, ErrRevoked, ErrUnavailable, ErrNotPermitted, ErrConflict,
// ErrSchema, ErrUnconfirmed (with the receipt: look for its work, or for what the
// operation changed), the database's, or fn's own error as it is.
func (o *Outbox[TX]) Run(ctx context.Context, a Admission, fn func(ctx context.Context, tx TX, run *Run) error) (Receipt, error) {
	r, err := o.admit(a, fn != nil)
	if err != nil {
		return Receipt{}, err
	}
	tx, dtx, err := o.bound.Begin(ctx)
	if err != nil {
		return Receipt{}, failure("run", err)
	}
	done := false
	defer func() {
		if !done {
			dtx.Rollback(context.WithoutCancel(ctx))
		}
	}()
	receipt, err := o.execute(ctx, tx, dtx, r, func(ctx context.Context) error { return fn(ctx, tx, r) })
	if err != nil {
		return Receipt{}, err
	}
	done = true
	if err := o.commit(ctx, dtx, "run", receipt.Work); err != nil {
		if errors.Is(err, ErrUnconfirmed) {
			return receipt, err
		}
		return Receipt{}, err
	}
	return receipt, nil
}

// Join executes one admitted operation inside the caller's transaction, as its
// last step: what changes the target afterwards is not in the version that the
// run records. The caller commits. When Join fails it has undone everything that
// happened inside it, and the transaction goes on as if it had not been called.
// Errors are those of [Outbox.Run], with ErrClosed for a finished transaction.
func (o *Outbox[TX]) Join(ctx context.Context, tx TX, a Admission, fn func(ctx context.Context, run *Run) error) (Receipt, error) {
	r, err := o.admit(a, fn != nil)
	if err != nil {
		return Receipt{}, err
	}
	dtx := o.bound.Join(tx)
	sp, err := dtx.Savepoint(ctx)
	if err != nil {
		return Receipt{}, failure("join", err)
	}
	done := false
	defer func() {
		if !done {
			sp.Rollback(context.WithoutCancel(ctx))
		}
	}()
	receipt, err := o.execute(ctx, tx, dtx, r, func(ctx context.Context) error { return fn(ctx, r) })
	if err != nil {
		return Receipt{}, err
	}
	done = true
	if err := sp.Release(ctx); err != nil {
		return Receipt{}, failure("join", err)
	}
	return receipt, nil
}

// admit checks an admission without IO.
func (o *Outbox[TX]) admit(a Admission, fn bool) (*Run, error) {
	var fs faults
	if !fn {
		fs.add("fn", "is nil")
	}
	if o.authority == nil {
		fs.add("authority", "is not configured; nothing stands in for it")
	}
	fs.text("operation.name", a.Operation.Name, 1, 128)
	fs.entity("actor", a.Actor)
	fs.entity("tenant", a.Tenant)
	if a.Target != (Entity{}) {
		fs.entity("target", a.Target)
	}
	fs.name("subject", a.Subject, 0, 128)
	if err := fs.err("run"); err != nil {
		return nil, err
	}
	return &Run{id: ID(driver.NewID()), admission: a, target: a.Target, keys: map[string]int{}}, nil
}

// execute is what Run and Join have in common.
func (o *Outbox[TX]) execute(ctx context.Context, tx TX, dtx driver.Tx, r *Run, fn func(context.Context) error) (Receipt, error) {
	defer r.close()
	if err := o.ready(ctx, dtx); err != nil {
		return Receipt{}, failure("run", err)
	}
	row, err := r.opening()
	if err != nil {
		return Receipt{}, err
	}
	// The run is written before anything is read: a database with one writer
	// refuses a transaction that reads first and writes later.
	if err := dtx.OpenRun(ctx, row); err != nil {
		return Receipt{}, failure("run", err)
	}
	view := runView[TX]{in: func(ctx context.Context, fn func(TX) error) error { return o.bound.ViewIn(ctx, tx, fn) }}
	if err := o.permit(ctx, view, r); err != nil {
		return Receipt{}, err
	}
	if err := fn(ctx); err != nil {
		return Receipt{}, err
	}
	r.close()
	r.traced(o.traced(ctx))
	if r.target == (Entity{}) {
		return Receipt{}, faults{{"target", "was neither admitted nor created"}}.err("run")
	}
	t, err := target(ctx, o.authority, view, r.principal, r.target)
	if err != nil {
		return Receipt{}, failure("run", fmt.Errorf("target after the operation: %w", err))
	}
	return r.seal(ctx, dtx, row, t)
}

// permit asks the authority: who the actor is now, what the target is now, and
// whether the one may run the operation on the other.
func (o *Outbox[TX]) permit(ctx context.Context, v View, r *Run) error {
	p, err := principal(ctx, o.authority, v, r.admission.Actor, r.admission.Tenant)
	if err != nil {
		return failure("run", fmt.Errorf("principal: %w", err))
	}
	var t Target
	if r.admission.Target != (Entity{}) {
		if t, err = target(ctx, o.authority, v, p, r.admission.Target); err != nil {
			return failure("run", fmt.Errorf("target: %w", err))
		}
	}
	ok, err := o.authority.MayRun(ctx, v, p, r.admission.Operation.Name, t)
	if err != nil {
		return failure("run", fmt.Errorf("may run: %w", err))
	}
	if !ok {
		return &Error{Op: "run", Err: wrapped{ErrNotPermitted, "the principal may not run this operation"}}
	}
	r.principal = p
	return nil
}

func (r *Run) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// traced gives all work of the run its trace context.
func (r *Run) traced(trace string) {
	for i := range r.rows {
		r.rows[i].Trace = trace
	}
}

// opening is the run's row as far as it is known before anything is asked.
func (r *Run) opening() (driver.Run, error) {
	a := &r.admission
	row := driver.Run{
		ID: driver.ID(r.id), Operation: a.Operation.Name, Actor: a.Actor.String(), Tenant: a.Tenant.String(),
		Target: a.Target.String(), Subject: a.Subject,
	}
	if a.Input != nil {
		input, err := canon.Object(a.Input, canon.Limits{Bytes: 16 << 10, Depth: maxDepth})
		if err != nil {
			var fs faults
			fs.addCanon("input", err)
			return row, fs.err("run")
		}
		row.InputDigest = canon.Digest(input)
	}
	return row, nil
}

// seal writes all work of the run and completes its row.
func (r *Run) seal(ctx context.Context, dtx driver.Tx, row driver.Run, t Target) (Receipt, error) {
	row.SecurityVersion = r.principal.SecurityVersion
	row.Target, row.TargetVersion, row.Receipt = t.Entity.String(), t.Version, r.body
	receipt := Receipt{Run: r.id, Target: t.Entity, Version: t.Version, Body: r.body, Work: make([]Ref, len(r.rows))}
	for i := range r.rows {
		n := &r.rows[i]
		n.Run, n.Operation, n.Subject = row.ID, row.Operation, row.Subject
		n.Actor, n.Tenant, n.SecurityVersion = row.Actor, row.Tenant, row.SecurityVersion
		n.Target, n.TargetVersion = row.Target, row.TargetVersion
		receipt.Work[i] = Ref{ID(n.Ref)}
	}
	if len(r.rows) > 0 {
		if err := dtx.Insert(ctx, r.rows); err != nil {
			return Receipt{}, failure("run", err)
		}
	}
	if err := dtx.SealRun(ctx, row); err != nil {
		return Receipt{}, failure("run", err)
	}
	return receipt, nil
}
