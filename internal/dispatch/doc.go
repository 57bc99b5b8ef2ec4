// Package dispatch is the engine that turns committed intents into settled
// outcomes. It orders the steps and decides nothing: what a step may do and what
// becomes of a delivery is the answer of package lifecycle, compared and set by
// the store.
//
//	claim → prepare → start → effect → settle
//
// Every claimed intent is driven by one goroutine, a [Task], from its claim to its
// end; one hung effect delays nobody else. Starts and settles of all tasks go
// through lanes that batch whatever waits. A claim asks for as many intents as
// there are free slots and never for more, so that no lease runs out in a queue of
// this process.
//
// Works and messages take the same path: a served kind or channel is a function
// that calls [Task.Effect] once.
package dispatch
