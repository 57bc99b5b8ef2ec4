// Package consign is a durable outbox: a program commits a change of its own data
// and, in the same transaction, the intent to tell somebody else about it.
//
// An intent commits with your transaction or not at all; a committed intent is
// never silently lost; a stale owner's writes are refused; what is not known is
// called unknown. Consign never claims that the far side executed exactly once:
// that needs the far side to enforce the delivery key.
//
// # The first calls to make
//
// [New] takes an open store (package postgres or sqlite) whose tables package
// migrate has brought up. [Outbox.Enqueue] commits a [Message], a payload that is
// sent as it is, with the caller's transaction. [Outbox.Run] and [Outbox.Join]
// execute an admitted operation, in which [Work.Enqueue] commits typed work
// together with the data that the operation changed. [Work.Handler] makes a handler
// of the function that delivers such work, which calls [Delivery.Effect] once;
// [Options.Handlers] lists them. [Outbox.Serve] delivers.
//
// The transaction type is part of the outbox's type: a pool, a connection or the
// transaction of another kind of store does not compile.
//
// # What stays the program's duty
//
// Payloads hold the minimum that the delivery needs and never a credential: they
// are stored as they are. A handler sends the request that it gave to its effect and
// nothing else, returns nil only for a known success, and writes nothing; the
// [Authority] looks a tenant up through the actor's memberships. docs/handlers.md
// has the whole list. A transaction that was rolled back has no intent, so a
// ref must not be handed out before the commit.
package consign
