package operator

import (
	"context"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Cancel stops an intent that is not in flight: one that is pending, one that a
// program holds and has not started, or a message between two attempts of its loop.
// Work becomes cancelled and a message failed, with CodeCancelledByOperator; where the
// outcome of an earlier attempt is unknown it goes to review instead, and the result
// says so. What was started cannot be recalled.
//
// Errors: consign.ErrInvalid, consign.ErrNotFound (also once erased), ErrRefused for
// what has been started or has ended, ErrChanged where somebody else has cancelled it
// or a program was faster, and the database's own.
func (o *Operator) Cancel(ctx context.Context, by By, ref consign.Ref) (consign.Result, error) {
	const op = "cancel"
	var fs faults
	fs.by(by)
	fs.ref(ref)
	if err := fs.err(op); err != nil {
		return consign.Result{}, err
	}
	var after consign.Result
	err := o.decide(ctx, op, ref, func(v *view) (*driver.Action, error) {
		if err := v.mayCancel(op); err != nil {
			return nil, err
		}
		a := v.action(by, "cancel", lifecycle.EvCancel)
		set := &a.Change.Set
		after = consign.Result{Ref: ref, Status: consign.Status(set.Status.Public(v.record.Intent.Profile)), Code: set.Code}
		return a.tell(v, told{}), nil
	}, func(v *view) bool { return v.record.State.Code == lifecycle.CancelledByOperator })
	if err != nil {
		return consign.Result{}, err
	}
	return after, nil
}

// mayCancel says why it cannot be cancelled.
func (v *view) mayCancel(op string) error {
	s := &v.record.State
	switch {
	case s.Erased:
		return &consign.Error{Op: op, Err: consign.ErrNotFound}
	case s.Code == lifecycle.CancelledByOperator:
		return changed(op, "it has been cancelled already")
	case s.Status.Terminal() && s.Uncertain:
		return refused(op, "it has ended, with an outcome that is unknown; record a finding")
	case s.Status.Terminal():
		return refused(op, "it has ended as "+s.Status.Public(v.record.Intent.Profile))
	case s.Stranded():
		return refused(op, "it is stranded: nothing drives it any more; record a finding")
	}
	if lifecycle.DefaultPolicy.Apply(*s, lifecycle.Event{Kind: lifecycle.EvCancel}).Answer != lifecycle.Apply {
		return refused(op, "it has been started: what may be on its way cannot be recalled")
	}
	return nil
}
