package supportdesk

import (
	"context"
	"database/sql"
	"errors"

	"github.com/consign-go/consign"
)

// Mail is the channel that answers take.
const Mail = "mail"

// ErrNoTicket says that the tenant has no such ticket.
var ErrNoTicket = errors.New("supportdesk: no such ticket")

// Answer writes an answer down and sends it to the customer: the row and the message
// commit together or not at all. A message is sent as it is, on nobody's behalf; so
// whoever calls this has made sure that it may be sent.
func (d *Desk) Answer(ctx context.Context, tenant, ticket, body string) (consign.Ref, error) {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return consign.Ref{}, err
	}
	defer tx.Rollback()
	var customer string
	err = tx.QueryRowContext(ctx, `
		UPDATE ticket SET status = 'answered', lock_version = lock_version + 1
		WHERE id = $1 AND tenant = $2 RETURNING customer`, ticket, tenant).Scan(&customer)
	if errors.Is(err, sql.ErrNoRows) {
		return consign.Ref{}, ErrNoTicket
	}
	if err != nil {
		return consign.Ref{}, err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO answer (ticket, body) VALUES ($1, $2)`, ticket, body); err != nil {
		return consign.Ref{}, err
	}
	ref, err := d.Outbox.Enqueue(ctx, tx, consign.Message{
		Channel: Mail, Subject: customer, // what an erasure of the customer's data will name
		Payload: map[string]any{"to": customer, "ticket": ticket, "body": body},
	})
	if err != nil {
		return consign.Ref{}, err
	}
	return ref, tx.Commit()
}
