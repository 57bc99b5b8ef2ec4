// Package consigntest helps to test programs that use Consign, without a database
// and without waiting.
//
// [Deliver] runs one piece of work through its handler and says what became of it.
// [NewStore] is a store in memory for an outbox of the test's own: [Enqueued] shows
// what a transaction has enqueued, and [Advance] moves the clock that due times and
// deadlines go by. [NewReceiver] and [Channel] are far sides that record what
// reaches them and answer as they are told; [NewAuthority] permits everything until
// it is told otherwise.
//
// The store keeps every promise but durability. What a test of the program's own
// SQL needs is a real database; deliver there with [consign.Outbox.Drain].
package consigntest
