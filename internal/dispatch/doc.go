// Package dispatch is the engine that turns committed intents into settled
// outcomes. It orders the steps and decides nothing: what a step may do and what
// becomes of a delivery is the answer of package lifecycle, compared and set by
// the store.
//
//	claim → prepare → start → effect → settle
//
// Every claimed intent is driven by one goroutine, a [Task], from its claim to its
// end; one hung effect delays nobody else. Starts and settles of all tasks go
// through a lane that batches whatever waits. A claim asks for as many intents as
// there are free slots and never for more, so that no lease runs out in a queue of
// this process.
//
// Every call of the store may fail, hang, or take effect after it seemed to have
// failed. So each has a limit; what was not answered is looked up before anything
// is concluded from it; and what cannot be written down is tried until it holds, is
// fenced, or the engine has been stopped for longer than it may take. Nothing that
// this package keeps in memory is needed for what comes after a crash.
//
// Works and messages take the same path: a served kind or channel is a function
// that calls [Task.Effect] once.
package dispatch
