package operator

import (
	"context"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
)

// ReadContent returns what an intent says, and enters in the audit that somebody has
// read it. The entry is committed first: what cannot be audited is not shown.
//
// Errors: consign.ErrInvalid, consign.ErrNotFound (also once erased), and the
// database's own.
func (o *Operator) ReadContent(ctx context.Context, by By, ref consign.Ref) (Content, error) {
	const op = "read"
	var fs faults
	fs.by(by)
	fs.ref(ref)
	if err := fs.err(op); err != nil {
		return Content{}, err
	}
	if err := o.ready(ctx, op); err != nil {
		return Content{}, err
	}
	v, err := o.content(ctx, op, ref)
	if err != nil {
		return Content{}, err
	}
	_, err = o.desk.Act(ctx, &driver.Action{Audit: driver.Audited{
		By: by.Who, Action: op, Ref: v.record.Intent.Ref, Run: v.record.Intent.Run, Reason: by.Why,
	}})
	if err != nil {
		return Content{}, failure(op, err)
	}
	if v, err = o.content(ctx, op, ref); err != nil { // erased since
		return Content{}, err
	}
	return *content(&v.record.Intent), nil
}

// content is view of what has content.
func (o *Operator) content(ctx context.Context, op string, ref consign.Ref) (*view, error) {
	v, err := o.view(ctx, op, driver.ID(ref.ID))
	if err == nil && v.record.State.Erased {
		return nil, &consign.Error{Op: op, Ref: ref, Err: consign.ErrNotFound}
	}
	return v, err
}

// NoteApprovalRead enters in the audit that somebody is going to read what an approval
// asks for. Package approval keeps what that is; whoever shows it calls this first.
//
// Errors: consign.ErrInvalid, consign.ErrSchema, or the database's own.
func (o *Operator) NoteApprovalRead(ctx context.Context, by By, approval consign.ID) error {
	const op = "read"
	var fs faults
	fs.by(by)
	if approval.IsZero() {
		fs.add("approval", "is the zero ID")
	}
	if err := fs.err(op); err != nil {
		return err
	}
	if err := o.ready(ctx, op); err != nil {
		return err
	}
	_, err := o.desk.Act(ctx, &driver.Action{Audit: driver.Audited{
		By: by.Who, Action: op, Reason: by.Why, After: told{Approval: approval.String()}.text(),
	}})
	return failure(op, err)
}
