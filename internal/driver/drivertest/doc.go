// Package drivertest is the conformance suite of package driver: what every
// store has to show before the engine trusts it.
//
// Three ways in:
//
//   - [Run] checks each promise of the contract by name, one subtest per promise.
//   - [Histories] runs random histories on two stores and compares every answer
//     and every row. With the memory driver on one side, which decides through
//     package lifecycle alone, it is the proof that a SQL store compares and sets
//     what was decided and nothing else.
//   - [Compare] is one such history, for a program that drives rapid itself.
//
// A store takes part by filling in a [Harness]; [Memory] is the finished example.
//
// # Time
//
// Nothing here sleeps. Where a test needs time to have passed it calls
// [Harness.Shift], always in whole seconds, and with so much room on either side
// of a boundary (a minute and more) that a slow machine decides nothing.
package drivertest
