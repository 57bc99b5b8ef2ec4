// Package tickets shows ent and Consign in one transaction: ent changes a row and
// its edges, Consign enqueues what is to be said about it, and both commit or
// neither does.
//
// Ent never shows the transaction that it opens, so the program opens it and runs
// an ent client on it, through the driver that [On] returns. [Triage] is the
// example; it is built with the tag "generated", because the client that it uses
// is generated while the tests run.
package tickets

import (
	"context"
	"database/sql"
	"errors"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
)

// On returns an ent driver that runs on a transaction which something else opened
// and will commit. The name is dialect.Postgres or dialect.SQLite.
//
// Ent opens a transaction for every update of one row and for every mutation of
// several statements. On this driver such a transaction is a part of tx: its
// commit and its rollback do nothing, as with a transactional client of ent's own.
// So whoever gets an error from ent rolls tx back; and client.Tx must not be called
// on it, because the rollback that it offers would undo nothing.
func On(tx *sql.Tx, name string) dialect.Driver {
	return driver{entsql.NewDriver(name, entsql.Conn{ExecQuerier: tx})}
}

// driver is ent's own but for what needs a database rather than a transaction;
// that would panic.
type driver struct{ *entsql.Driver }

// Tx joins the transaction at hand: there is no other.
func (d driver) Tx(context.Context) (dialect.Tx, error) { return dialect.NopTx(d), nil }

// BeginTx refuses: options, such as an isolation level, come too late.
func (d driver) BeginTx(context.Context, *sql.TxOptions) (dialect.Tx, error) {
	return nil, errors.New("ent runs in a transaction of the program: no other can be opened")
}

// Close does nothing: whoever opened the transaction ends it.
func (d driver) Close() error { return nil }
