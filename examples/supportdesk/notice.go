package supportdesk

import (
	"context"

	"github.com/consign-go/consign"
)

// NoticeInput is what has to be stored for telling the CRM about a ticket: no more
// than a reference.
type NoticeInput struct {
	Ticket string `json:"ticket" consign:"required,maxlen=64"`
}

var (
	// Notice tells the CRM that a ticket was triaged. It is about the very version of
	// the ticket that the triage has committed: once that is edited, a person decides.
	Notice = consign.Work[NoticeInput]{Kind: "tickets.triaged", Idempotent: true}

	// Closing tells the CRM that a ticket was closed. That stays true whatever else is
	// edited, so it is delivered about newer versions too; and since the request holds
	// nothing of the ticket but its name, an edit between two attempts does not
	// change it.
	Closing = consign.Work[NoticeInput]{Kind: "tickets.closed", Idempotent: true, Record: consign.Current}
)

// DeliverNotice is the handler of [Notice]: it builds the request, and the effect is
// a POST of it to the CRM.
func (d *Desk) DeliverNotice(ctx context.Context, dl *consign.Delivery, in NoticeInput) error {
	return d.crm.Post(ctx, dl, map[string]any{"event": "ticket.triaged", "ticket": in.Ticket, "version": dl.Target.Version})
}

// DeliverClosing is the handler of [Closing].
func (d *Desk) DeliverClosing(ctx context.Context, dl *consign.Delivery, in NoticeInput) error {
	return d.crm.Post(ctx, dl, map[string]any{"event": "ticket.closed", "ticket": in.Ticket})
}
