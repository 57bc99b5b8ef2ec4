// Package postgres is Consign's store on PostgreSQL 14 and later.
//
// Two constructors, one engine. [New] is for programs whose transaction is a
// pgx.Tx, [NewSQL] for programs whose transaction is a *sql.Tx of any
// database/sql driver for PostgreSQL. Both work through the program's own pool:
// they keep no connection while idle, set nothing on a connection beyond the end
// of a transaction, and need no extension. A program that serves opens one more
// connection beside the pool, with the pool's configuration, for LISTEN.
//
// The tables live in a schema of their own, "consign" unless [Options] say
// otherwise, and package migrate brings them up.
//
// # What the program's connections need
//
// Nothing in particular. Statements are prepared where the pool prepares them,
// and every one of them also runs in the modes without prepared statements
// (pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol) that a transaction
// pooler may ask for. Whatever the role's defaults are, the engine's own
// transactions run read committed and durable: a role with
// synchronous_commit=off is overruled for them, because a start that is lost by
// a crash would be sent twice.
//
// # Wake-ups
//
// Programs hint each other with NOTIFY, on the channel "consign:" and the schema's
// name (a hash of it where that is too long), sent after a commit and never inside
// a caller's transaction: every transaction that notifies waits for a lock of the
// whole database as it commits. Nothing is lost where no hint arrives, because
// every program also polls.
//
// Behind a pooler that hands out connections for single transactions, as PgBouncer
// does with pool_mode=transaction, LISTEN succeeds and nothing is ever heard. The
// store finds that out by notifying itself, at first and after each minute without
// a hint, and then leaves it to polling. To have wake-ups there, give the store a
// pool that goes to the server directly or through a pooler in session mode.
//
// # Errors
//
// What the server says about rows (DETAIL, HINT, CONTEXT) never reaches a caller,
// since it may quote their content. SQLSTATE, constraint and table do: errors of
// the server are *[Error].
package postgres
