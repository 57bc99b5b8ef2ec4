// Package tickets shows sqlx and Consign in one transaction: sqlx changes a row,
// Consign enqueues what is to be said about it, and both commit or neither does.
package tickets

import (
	"cmp"
	"context"
	"database/sql"

	"github.com/jmoiron/sqlx"

	"github.com/consign-go/consign"
)

// Ticket is a row of the program's own table.
type Ticket struct {
	ID     int
	Status string
}

// Triage marks a ticket as triaged and enqueues the message that says so, in a
// transaction of its own.
func Triage(ctx context.Context, db *sqlx.DB, outbox *consign.Outbox[*sql.Tx], id int, note string) error {
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := TriageIn(ctx, tx, outbox, id, note); err != nil {
		return err
	}
	return tx.Commit()
}

// TriageIn does the same in the caller's transaction.
func TriageIn(ctx context.Context, tx *sqlx.Tx, outbox *consign.Outbox[*sql.Tx], id int, note string) error {
	change, err := tx.NamedExecContext(ctx, `UPDATE tickets SET status = :status WHERE id = :id`, Ticket{ID: id, Status: "triaged"})
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
}

// On returns a handle of db's kind on a transaction that something else opened
// and will commit: the one that Outbox.Run hands to its function, or consign.Read
// to an Authority. It does not know the driver's name, which sqlx keeps to itself,
// so on PostgreSQL queries with named parameters and Rebind do not work on it.
func On(tx *sql.Tx, db *sqlx.DB) *sqlx.Tx { return &sqlx.Tx{Tx: tx, Mapper: db.Mapper} }
