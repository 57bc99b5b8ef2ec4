package approval

import (
	"context"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
)

// Decision is what a person says about an open approval.
type Decision struct {
	// Approval is the one that is decided, and Tenant the tenant in which the person
	// may decide. An approval of another tenant is not found.
	Approval consign.ID
	Tenant   consign.Entity

	// By is who decides, as the program has authenticated them.
	By consign.Entity

	// Reason is why, for the record: at most 1,024 bytes of UTF-8 without NUL.
	// Default: not said.
	Reason string
}

// Confirm signs an open approval off, so that one run may consume it. Of several
// decisions at once one wins; the others are told what became of it.
//
// Errors: consign.ErrInvalid; ErrNotFound; ErrConflict where it is not open any
// more, with the code APPROVAL_CONFIRMED, APPROVAL_DISMISSED, APPROVAL_EXPIRED or
// APPROVAL_CONSUMED; ErrNotPermitted with APPROVAL_SELF_CONFIRMED for a proposer
// who may not confirm; ErrUnconfirmed, ErrSchema, or the database's own.
func (a *Approvals[TX]) Confirm(ctx context.Context, d Decision) (Approval, error) {
	return a.decide(ctx, "confirm", d, driver.ApprovalConfirmed)
}

// Dismiss turns an open approval down, for good. A proposer may withdraw a proposal
// so. Errors are those of [Approvals.Confirm].
func (a *Approvals[TX]) Dismiss(ctx context.Context, d Decision) (Approval, error) {
	return a.decide(ctx, "dismiss", d, driver.ApprovalDismissed)
}

func (a *Approvals[TX]) decide(ctx context.Context, op string, d Decision, status driver.ApprovalStatus) (Approval, error) {
	var wrong []consign.Fault
	if d.Approval.IsZero() {
		wrong = append(wrong, consign.Fault{Field: "approval", Rule: "is the zero ID"})
	}
	wrong = append(wrong, entityFaults("tenant", d.Tenant)...)
	wrong = append(wrong, entityFaults("by", d.By)...)
	wrong = append(wrong, textFaults("reason", d.Reason)...)
	if len(wrong) > 0 {
		return Approval{}, &consign.Error{Op: op, Faults: wrong, Err: consign.ErrInvalid}
	}
	id, by := driver.ID(d.Approval), d.By.String()
	var decided driver.Approval
	err := a.within(ctx, op, func(tx driver.Tx) error {
		// Locked, it stays as it is read until this transaction ends.
		held, found, err := tx.LockApproval(ctx, id)
		if err != nil {
			return err
		}
		if !found || held.Tenant != d.Tenant.String() {
			return &consign.Error{Op: op, Err: consign.ErrNotFound}
		}
		if err := refusal(op, &held, by, status); err != nil {
			return err
		}
		decided = held
		decided.Status, decided.By, decided.Decision = status, by, d.Reason
		decided.DecidedAt, err = tx.Decide(ctx, driver.Decision{Approval: id, Status: status, By: by, Why: d.Reason})
		return err
	}, func(row *driver.Approval) bool { // the instant tells this decision from any other
		return row.By == by && row.DecidedAt.Equal(decided.DecidedAt) && row.Decision == decided.Decision
	}, id)
	if err != nil {
		return Approval{}, err
	}
	return public(&decided)
}

// refusal says why an approval cannot be decided so; nil: it can.
func refusal(op string, a *driver.Approval, by string, status driver.ApprovalStatus) error {
	code := map[Status]consign.Code{
		Confirmed: consign.CodeApprovalConfirmed, Dismissed: consign.CodeApprovalDismissed,
		Consumed: consign.CodeApprovalConsumed, Expired: consign.CodeApprovalExpired,
	}[statusOf(a)]
	switch {
	case code != "":
		return consign.Refusal(driver.Key{}, op, code, consign.ErrConflict)
	case a.OtherConfirmer && status == driver.ApprovalConfirmed && by == a.Proposer:
		return consign.Refusal(driver.Key{}, op, consign.CodeApprovalSelfConfirmed, consign.ErrNotPermitted)
	}
	return nil
}
