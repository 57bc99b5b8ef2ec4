package supportdesk

import (
	"context"
	"database/sql"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/approval"
)

// The operations. Who has proposed a triage cannot be the one who confirms it.
var (
	triage  = consign.Operation{Name: "triage", Approval: consign.OtherConfirmer}
	closing = consign.Operation{Name: "close"}
)

// Order says who does something to which ticket.
type Order struct {
	Tenant, Staff, Ticket string
}

func (o Order) admission(op consign.Operation, input any) consign.Admission {
	return consign.Admission{
		Operation: op, Input: input,
		Actor: staffEntity(o.Staff), Tenant: tenantEntity(o.Tenant), Target: ticketEntity(o.Ticket),
	}
}

// triageInput is what an approval of a triage is bound to.
type triageInput struct {
	Priority string `json:"priority"`
}

// ProposeTriage asks for a triage to be confirmed; it changes no ticket.
func (d *Desk) ProposeTriage(ctx context.Context, o Order, priority, why string) (consign.ID, error) {
	if err := d.may(ctx, o.Tenant, o.Staff, ProposeTriage); err != nil {
		return consign.ID{}, err
	}
	return d.Approvals.ProposeNow(ctx, approval.Proposal{
		Admission: o.admission(triage, triageInput{priority}), Proposer: staffEntity(o.Staff), Reason: why,
	})
}

// ConfirmTriage lets a member of the tenant's staff confirm a triage.
func (d *Desk) ConfirmTriage(ctx context.Context, tenant, staff string, proposed consign.ID) error {
	if err := d.may(ctx, tenant, staff, ConfirmTriage); err != nil {
		return err
	}
	_, err := d.Approvals.Confirm(ctx, approval.Decision{Approval: proposed, Tenant: tenantEntity(tenant), By: staffEntity(staff)})
	return err
}

// Triage does what was proposed and confirmed. The ticket, the work to tell the CRM,
// the receipt and the use of the approval commit together, with whatever also does
// in the same transaction; or none of it does.
func (d *Desk) Triage(
	ctx context.Context, o Order, priority string, approved consign.ID, also ...func(ctx context.Context, tx *sql.Tx, run *consign.Run) error,
) (consign.Receipt, error) {
	admission := o.admission(triage, triageInput{priority})
	admission.Approval = approved
	return d.Outbox.Run(ctx, admission, func(ctx context.Context, tx *sql.Tx, run *consign.Run) error {
		ticket := run.Target().ID
		if err := change(ctx, tx, run, "triaged", priority); err != nil {
			return err
		}
		if _, err := Notice.Enqueue(run, "notice", NoticeInput{Ticket: ticket}); err != nil {
			return err
		}
		if err := run.Receipt(map[string]any{"triaged": ticket}); err != nil {
			return err
		}
		for _, more := range also {
			if err := more(ctx, tx, run); err != nil {
				return err
			}
		}
		return nil
	})
}

// CloseTicket closes a ticket, for which nobody is asked, and leaves work to tell the CRM.
func (d *Desk) CloseTicket(ctx context.Context, o Order) (consign.Receipt, error) {
	return d.Outbox.Run(ctx, o.admission(closing, nil), func(ctx context.Context, tx *sql.Tx, run *consign.Run) error {
		if err := change(ctx, tx, run, "closed", "normal"); err != nil {
			return err
		}
		_, err := Closing.Enqueue(run, "closing", NoticeInput{Ticket: run.Target().ID})
		return err
	})
}

// change updates the run's ticket, which the authority has found in the tenant.
func change(ctx context.Context, tx *sql.Tx, run *consign.Run, status, priority string) error {
	_, err := tx.ExecContext(ctx, `
		UPDATE ticket SET status = $1, priority = $2, lock_version = lock_version + 1 WHERE id = $3 AND tenant = $4`,
		status, priority, run.Target().ID, run.Principal().Tenant.ID)
	return err
}
