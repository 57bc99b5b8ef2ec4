// Package lifecycle decides. It is the state machine of one delivery as a pure
// function: [Policy.Apply] takes what a store knows about a delivery and one
// event, and answers with a [Transition]: what the store must compare, what it
// must set, and what to report.
//
// It does no IO, reads no clock and starts no goroutine. Time arrives as
// durations relative to the instant at which the database read the state, and
// leaves as durations that the database adds to its own clock when it writes;
// so the database clock alone decides due times, leases and deadlines, and a
// worker with a wrong clock can be late but never wrong.
//
// Three kinds of caller share it: the engine, for what an owner has done or
// seen; the sweep and operators, for what happens without an owner; and the
// memory store, which runs claims through it and so is the oracle that the SQL
// stores are compared with.
//
// The rules it keeps, whatever it is asked:
//
//   - a terminal status never changes;
//   - an uncertain delivery never becomes cancelled;
//   - generation and revision only rise;
//   - a delivery that is not idempotent is never started again once an outcome
//     is unknown;
//   - a process-owned delivery that was started is never given to another owner;
//   - only an observed success clears the uncertain mark;
//   - the first bound digest never changes.
//
// Apply is total: every status and event has an explicit answer, and the golden
// grid in testdata prints all of them.
package lifecycle
