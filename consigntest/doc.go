// Package consigntest helps to test programs that use Consign, without waiting, and
// without a database or on the program's own.
//
// [Deliver] runs one piece of work through its handler and says what became of it.
// [NewStore] is a store in memory for an outbox of the test's own, and [On] makes
// the same of a real database: [Enqueued] shows what a transaction has enqueued,
// [Advance] lets time pass, for due times, deadlines, leases and approvals, and
// [Drive] delivers one intent to its end, [DeliverOn] new work. [NewReceiver] and
// [Channel] are far sides that record what reaches them and answer as they are told;
// [NewAuthority] permits everything until it is told otherwise.
//
// The store in memory keeps every promise but durability. What a test of the
// program's own SQL needs is a real database:
//
//	store := consigntest.On(pg) // what postgres.New or sqlite.New returned
//	desk := open(store)         // the program under test
//	// … it changes a ticket in tx …
//	consigntest.Enqueued(t, store, tx)
//	consigntest.Drive(t, store, desk.outbox, ref, 0)
package consigntest
