// Package operator is what people do about deliveries that a program cannot decide
// about: look, record what they found out, send again, cancel, pause, prune, erase.
//
// Begin with [Operator.Review], which lists what waits for a person, and
// [Operator.Show], which tells everything that is known about one intent. [Advice]
// says for each code what it means and what to do.
//
// Three rules hold for all of it. An outcome that nobody knows is called unknown: it
// becomes "not delivered" by a person's finding alone ([Operator.Resolve]), with
// evidence from the far side. A status that is an end never changes: to send again
// is to create another intent, linked to the first. And every action is written to
// the audit table in the transaction that makes it: who, when, why, before and after.
//
// Of two people who act at the same time one wins; the other gets [ErrChanged] and
// looks again.
//
// Reasons are kept for ever and survive erasure, so they must not name whose data it
// is. Evidence is erased with its intent.
package operator
