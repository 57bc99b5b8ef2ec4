package consign

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/consign-go/consign/internal/canon"
	"github.com/consign-go/consign/internal/driver"
)

// Run is an operation execution while its function runs. It is safe for
// concurrent use and of no use after the function has returned.
type Run struct {
	id        ID
	admission Admission
	row       driver.Run // as it is known before anything is asked
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
	n.Ref = driver.WorkRef(driver.ID(r.id), n.WorkKey)
	n.Key = n.Ref
	r.keys[n.WorkKey] = len(r.rows)
	r.rows = append(r.rows, n)
	return Ref{ID(n.Ref)}, nil
}

// Run executes one admitted operation in a transaction of its own: the authority
// is asked, the approval is consumed, fn changes data and enqueues work, the
// target's version is read as it will be committed, and run, work and audit row
// are written. All of it commits or none of it does; an error or a panic of fn
// rolls everything back.
//
// A commit whose answer was lost is looked up by the run's ID. Where that does not
// settle it, the error is ErrUnconfirmed and comes with the receipt: ask
// [Outbox.Receipt] for its Run before running the operation again.
//
// Errors: ErrInvalid, ErrRevoked, ErrUnavailable, ErrNotPermitted, ErrNotApproved
// with a code, ErrConflict, ErrSchema, ErrUnconfirmed, the database's, or fn's own
// error as it is.
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
	if err := o.commit(ctx, dtx, "run", func(ctx context.Context) bool { return o.ran(ctx, r.id) }); err != nil {
		if errors.Is(err, ErrUnconfirmed) {
			return receipt, err
		}
		return Receipt{}, err
	}
	return receipt, nil
}

// ran reports whether a run is seen to be committed.
func (o *Outbox[TX]) ran(ctx context.Context, run ID) bool {
	_, found, err := o.bound.Run(ctx, driver.ID(run))
	return err == nil && found
}

// Join executes one admitted operation inside the caller's transaction, as its
// last step: what changes the target afterwards is not in the version that the
// run records, so that work under the Exact policy is stopped for review with
// RECORD_CHANGED. The caller commits. When Join fails it has undone everything that
// happened inside it, and the transaction goes on as if it had not been called; an
// approval can be consumed again. Only where the database refuses to undo it, which
// the error says, must the caller roll back.
//
// Errors are those of [Outbox.Run], with ErrClosed for a finished transaction.
func (o *Outbox[TX]) Join(ctx context.Context, tx TX, a Admission, fn func(ctx context.Context, run *Run) error) (receipt Receipt, err error) {
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
		if done {
			return
		}
		// A transaction that has ended has nothing left to undo.
		if stuck := sp.Rollback(context.WithoutCancel(ctx)); stuck != nil && !errors.Is(stuck, driver.ErrClosed) && err != nil {
			err = errors.Join(err, fmt.Errorf("consign: join: what it did could not be undone, roll the transaction back: %w", stuck))
		}
	}()
	receipt, err = o.execute(ctx, tx, dtx, r, func(ctx context.Context) error { return fn(ctx, r) })
	if err != nil {
		return Receipt{}, err
	}
	// A context that ends ends the join here at the latest: what is released cannot be
	// undone any more, so the release does not depend on it.
	if err := ctx.Err(); err != nil {
		return Receipt{}, failure("join", err)
	}
	done = true
	free, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := sp.Release(free); err != nil {
		return Receipt{}, failure("join", fmt.Errorf("roll the transaction back: %w", err))
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
	row, _ := a.bind(&fs)
	row.ID = driver.NewID()
	if err := fs.err("run"); err != nil {
		return nil, err
	}
	return &Run{id: ID(row.ID), admission: a, row: row, target: a.Target, keys: map[string]int{}}, nil
}

// execute is what Run and Join have in common.
func (o *Outbox[TX]) execute(ctx context.Context, tx TX, dtx driver.Tx, r *Run, fn func(context.Context) error) (Receipt, error) {
	defer r.close()
	if err := o.ready(ctx, dtx); err != nil {
		return Receipt{}, failure("run", err)
	}
	// The run is written before anything is read: a database with one writer
	// refuses a transaction that reads first and writes later.
	if err := dtx.OpenRun(ctx, r.row); err != nil {
		return Receipt{}, failure("run", err)
	}
	// Each view ends with its questions: one that was kept could make the transaction
	// read-only under fn, or take back what fn has just written.
	if err := asking(o.viewIn(tx), func(v View) error { return o.permit(ctx, v, r) }); err != nil {
		return Receipt{}, failure("run", err)
	}
	if err := r.consume(ctx, dtx); err != nil {
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
	var t Target
	err := asking(o.viewIn(tx), func(v View) (err error) {
		t, err = target(ctx, o.authority, v, r.principal, r.target)
		return err
	})
	if err != nil {
		return Receipt{}, failure("run", fmt.Errorf("target after the operation: %w", err))
	}
	return r.seal(ctx, dtx, t)
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

// seal writes all work of the run and completes its row.
func (r *Run) seal(ctx context.Context, dtx driver.Tx, t Target) (Receipt, error) {
	row := r.row
	row.SecurityVersion = r.principal.SecurityVersion
	row.Target, row.TargetVersion, row.Receipt = t.Entity.String(), t.Version, r.body
	row.Work = make([]driver.ID, len(r.rows))
	for i := range r.rows {
		n := &r.rows[i]
		n.Run, n.Operation, n.Subject = row.ID, row.Operation, row.Subject
		n.Actor, n.Tenant, n.SecurityVersion = row.Actor, row.Tenant, row.SecurityVersion
		n.Target, n.TargetVersion = row.Target, row.TargetVersion
		row.Work[i] = n.Ref
	}
	if len(r.rows) > 0 {
		if err := dtx.Insert(ctx, r.rows); err != nil {
			return Receipt{}, failure("run", err)
		}
	}
	if err := dtx.SealRun(ctx, row); err != nil {
		return Receipt{}, failure("run", err)
	}
	return receiptOf(&row, t.Entity), nil
}
