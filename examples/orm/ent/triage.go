//go:build generated

package tickets

import (
	"context"
	"database/sql"

	"github.com/consign-go/consign"
	ent "github.com/consign-go/consign/examples/orm/ent/client"
)

// Triage marks a ticket as triaged, tags it and enqueues the message that says
// so, in a transaction of its own. The dialect is that of db.
func Triage(ctx context.Context, db *sql.DB, dialect string, outbox *consign.Outbox[*sql.Tx], id, tag int, note string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := TriageIn(ctx, tx, dialect, outbox, id, tag, note); err != nil {
		return err
	}
	return tx.Commit()
}

// TriageIn does the same in the caller's transaction.
func TriageIn(ctx context.Context, tx *sql.Tx, dialect string, outbox *consign.Outbox[*sql.Tx], id, tag int, note string) error {
	client := ent.NewClient(ent.Driver(On(tx, dialect)))
	if err := client.Ticket.UpdateOneID(id).SetStatus("triaged").AddTagIDs(tag).Exec(ctx); err != nil {
		return err
	}
	_, err := outbox.Enqueue(ctx, tx, consign.Message{
		Channel: "crm", Payload: map[string]any{"event": "ticket.triaged", "ticket": id, "note": note},
	})
	return err
}
