package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/consign-go/consign"
)

// triage changes a ticket and notes the message, then ends the transaction.
func (d *desk) triage(ctx context.Context, ticket int, end func(*sql.Tx) error) (consign.Ref, error) {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return consign.Ref{}, err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `UPDATE ticket SET status = 'triaged' WHERE id = ?`, ticket); err != nil {
		return consign.Ref{}, err
	}
	ref, err := d.Outbox.Enqueue(ctx, tx, d.message(ticket))
	if err != nil {
		return consign.Ref{}, err
	}
	return ref, end(tx)
}

func (d *desk) message(ticket int) consign.Message {
	return consign.Message{
		Channel: "crm", To: d.crm.url + "/hooks/tickets", Subject: "acme",
		Payload: map[string]any{"event": "ticket.triaged", "ticket": ticket},
	}
}

func together(ctx context.Context, d *desk) (string, error) {
	ref, err := d.triage(ctx, 41, (*sql.Tx).Commit)
	if err != nil {
		return "", err
	}
	intent, err := d.Outbox.Find(ctx, ref)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("ticket 41 is triaged, intent %s is %s", ref, intent.Status), d.expect(ctx, 41, "triaged", 1)
}

func rolledBack(ctx context.Context, d *desk) (string, error) {
	ref, err := d.triage(ctx, 42, (*sql.Tx).Rollback)
	if err != nil {
		return "", err
	}
	if _, err := d.Outbox.Find(ctx, ref); !errors.Is(err, consign.ErrNotFound) {
		return "", fmt.Errorf("finding the intent of a rolled back transaction: %v", err)
	}
	return "ticket 42 is still new, its ref finds nothing", d.expect(ctx, 42, "new", 1)
}

func refused(ctx context.Context, d *desk) (string, error) {
	bad := d.message(42)
	bad.Payload = map[string]any{"event": "ticket.triaged", "ticket": int64(1) << 53, "note": strings.Repeat("x", 9)}
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return "", err
	}
	defer tx.Rollback()
	_, enqueueErr := d.Outbox.EnqueueAll(ctx, tx, []consign.Message{d.message(42), bad})
	if !errors.Is(enqueueErr, consign.ErrInvalid) {
		return "", fmt.Errorf("a number that JSON readers would round was accepted: %v", enqueueErr)
	}
	if err := tx.Commit(); err != nil {
		return "", err
	}
	return enqueueErr.Error(), d.expect(ctx, 42, "new", 1)
}

func repeated(ctx context.Context, d *desk) (string, error) {
	m := d.message(43)
	m.ID = consign.NewRef()
	first, err := d.Outbox.EnqueueNow(ctx, m)
	if err != nil {
		return "", err
	}
	again, err := d.Outbox.EnqueueNow(ctx, m)
	if err != nil || again != first {
		return "", fmt.Errorf("the repeated call gave %s after %s: %v", again, first, err)
	}
	m.To = "https://elsewhere.example/"
	if _, err := d.Outbox.EnqueueNow(ctx, m); !errors.Is(err, consign.ErrConflict) {
		return "", fmt.Errorf("another recipient under the same ID: %v", err)
	}
	return "one intent under " + first.String() + ", and another recipient under it conflicts", d.expect(ctx, 43, "new", 2)
}
