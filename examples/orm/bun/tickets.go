// Package tickets shows bun and Consign in one transaction: bun changes a row,
// Consign enqueues what is to be said about it, and both commit or neither does.
package tickets

import (
	"cmp"
	"context"
	"database/sql"

	"github.com/uptrace/bun"

	"github.com/consign-go/consign"
)

// Ticket is a row of the program's own table.
type Ticket struct {
	ID     int `bun:",pk"`
	Status string
}

// Triage marks a ticket as triaged and enqueues the message that says so. Where
// db is a transaction already, this is a part of it with a savepoint.
func Triage(ctx context.Context, db bun.IDB, outbox *consign.Outbox[*sql.Tx], id int, note string) error {
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		change, err := tx.NewUpdate().Model(&Ticket{ID: id, Status: "triaged"}).Column("status").WherePK().Exec(ctx)
		if err != nil {
			return err
		}
		if n, err := change.RowsAffected(); err != nil || n == 0 {
			return cmp.Or(err, sql.ErrNoRows)
		}
		_, err = outbox.Enqueue(ctx, tx.Tx, consign.Message{
			Channel: "crm", Payload: map[string]any{"event": "ticket.triaged", "ticket": id, "note": note},
		})
		return err
	})
}
