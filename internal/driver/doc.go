// Package driver is the storage contract: what the engine and the public API
// ask of a database, as a handful of batched calls, and the rows that pass
// between them.
//
// A driver reports facts. It never retries, never decides what a delivery
// becomes, and never reads the program's clock for due times, leases or
// deadlines: package lifecycle decides, and the database's clock counts. The
// three drivers (memory, SQLite, PostgreSQL) pass one conformance suite in
// package drivertest, where the memory driver, which runs every decision
// through lifecycle, is the oracle.
//
// # What every driver promises
//
//   - What [Tx.Insert] writes commits with the caller's transaction or not at all.
//   - [Driver.Claim] returns only after its writes are durable, so that no start
//     can overtake its own claim.
//   - [Driver.Apply] changes a row only if generation, revision, owner and status
//     are exactly the expected ones and the required lease and deadline hold on
//     the database clock at that instant; it adds one to the revision of each row
//     that it changes, and changes nothing of any other.
//   - Content is immutable: nothing updates an intent.
package driver
