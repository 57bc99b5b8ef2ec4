package consign

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/consign-go/consign/internal/driver"
)

// Receipt is the durable result of a run. What becomes of its work later never
// changes it: a ref in Work means that the delivery is tracked, not that it is done.
type Receipt struct {
	Run     ID
	Target  Entity
	Version string          // of the target, as committed
	Body    json.RawMessage // what the operation set with Run.Receipt; nil: nothing, or erased
	Work    []Ref           // in the order in which it was enqueued
}

// Receipt returns what a committed run left behind, to a reader who may read it in
// the tenant: the [Authority] is asked who the reader is now, and then MayRead. To
// have run the operation, or to be allowed to, grants nothing here.
//
// Errors: ErrRevoked where the reader has no authority in the tenant, whatever the
// run; ErrNotFound where there is no such run in the tenant, one of another tenant
// included; ErrNotPermitted where there is one and it may not be read; ErrInvalid,
// ErrSchema, the database's, or the authority's own where it could not decide.
func (o *Outbox[TX]) Receipt(ctx context.Context, run ID, reader, tenant Entity) (Receipt, error) {
	const op = "receipt"
	var fs faults
	if o.authority == nil {
		fs.add("authority", "is not configured; nothing stands in for it")
	}
	if run.IsZero() {
		fs.add("run", "is the zero ID")
	}
	fs.entity("reader", reader)
	fs.entity("tenant", tenant)
	if err := fs.err(op); err != nil {
		return Receipt{}, err
	}
	if err := o.checkSchema(ctx); err != nil {
		return Receipt{}, failure(op, err)
	}
	var p Principal
	err := asking(o.view(), func(v View) (err error) {
		p, err = principal(ctx, o.authority, v, reader, tenant)
		return err
	})
	if err != nil {
		return Receipt{}, failure(op, fmt.Errorf("principal: %w", err))
	}
	row, found, err := o.bound.Run(ctx, driver.ID(run))
	if err != nil {
		return Receipt{}, failure(op, err)
	}
	if !found || row.Tenant != tenant.String() {
		return Receipt{}, &Error{Op: op, Err: ErrNotFound}
	}
	target, err := ParseEntity(row.Target)
	if err != nil {
		return Receipt{}, failure(op, err)
	}
	var ok bool
	err = asking(o.view(), func(v View) (err error) {
		ok, err = o.authority.MayRead(ctx, v, p, row.Operation, target)
		return err
	})
	if err != nil {
		return Receipt{}, failure(op, fmt.Errorf("may read: %w", err))
	}
	if !ok {
		return Receipt{}, &Error{Op: op, Err: wrapped{ErrNotPermitted, "the principal may not read this receipt"}}
	}
	return receiptOf(&row, target), nil
}

// receiptOf is the receipt of a run that was sealed.
func receiptOf(row *driver.Run, target Entity) Receipt {
	r := Receipt{Run: ID(row.ID), Target: target, Version: row.TargetVersion, Body: row.Receipt, Work: make([]Ref, len(row.Work))}
	for i, ref := range row.Work {
		r.Work[i] = Ref{ID(ref)}
	}
	return r
}
