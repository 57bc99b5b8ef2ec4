// Package tickets shows GORM and Consign in one transaction: GORM changes a row,
// Consign enqueues what is to be said about it, and both commit or neither does.
package tickets

import (
	"context"
	"database/sql"
	"fmt"

	"gorm.io/gorm"

	"github.com/consign-go/consign"
)

// Ticket is a row of the program's own table.
type Ticket struct {
	ID     int
	Status string
}

// Triage marks a ticket as triaged and enqueues the message that says so. Where
// db is in a transaction already, this is a part of it with a savepoint; under
// DisableNestedTransaction there is none, and an error must end the whole of it.
func Triage(ctx context.Context, db *gorm.DB, outbox *consign.Outbox[*sql.Tx], id int, note string) error {
	return db.WithContext(ctx).Transaction(func(db *gorm.DB) error {
		change := db.Model(&Ticket{ID: id}).Update("status", "triaged")
		if change.Error != nil {
			return change.Error
		}
		if change.RowsAffected == 0 {
			return gorm.ErrRecordNotFound
		}
		tx, err := SQLTx(db)
		if err != nil {
			return err
		}
		_, err = outbox.Enqueue(ctx, tx, consign.Message{
			Channel: "crm", Payload: map[string]any{"event": "ticket.triaged", "ticket": id, "note": note},
		})
		return err
	})
}

// SQLTx returns the transaction that db runs on: the handle that
// [gorm.DB.Transaction] gives to its function, or that [gorm.DB.Begin] returned.
// It is an error if db is not in a transaction, or its Begin has failed.
func SQLTx(db *gorm.DB) (*sql.Tx, error) {
	if db.Error != nil { // a failed Begin leaves a nil *sql.Tx behind
		return nil, fmt.Errorf("no transaction: %w", db.Error)
	}
	pool := db.Statement.ConnPool
	for { // PrepareStmt wraps the transaction; a session that sets it again, again
		prepared, ok := pool.(*gorm.PreparedStmtTX)
		if !ok {
			break
		}
		pool = prepared.Tx
	}
	tx, ok := pool.(*sql.Tx)
	if !ok {
		return nil, fmt.Errorf("no transaction: GORM runs on a %T; pass the handle that Transaction gives to its function", pool)
	}
	return tx, nil
}

// On returns db on a transaction that something else opened and will commit: the
// one that Outbox.Run hands to its function, or consign.Read to an Authority.
func On(ctx context.Context, db *gorm.DB, tx *sql.Tx) *gorm.DB {
	db = db.Session(&gorm.Session{NewDB: true, Context: ctx})
	db.Statement.ConnPool = tx
	return db
}
