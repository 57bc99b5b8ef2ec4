// Package receive is the receiving end of package webhook, for teams that own both
// ends: it checks who sent a request and when, executes it at most once for each
// delivery key, and signs that it did.
//
// [Receiver.Handler] does all of it: your function gets a transaction of your own
// database, and the key, with your answer, is stored in the same transaction. A
// repeated key gets the stored answer; nothing is executed again. So a sender may
// declare its channel or kind idempotent.
//
// # What stays the program's duty
//
// Everything that the function does, it does in the transaction it is given: what
// it does elsewhere (another database, a call to a third party) is not undone when
// the transaction is, and is not kept from happening twice. A function that returns
// an error has done nothing; the sender is told so and comes back.
//
// Keys are kept for as long as the sender may repeat them, its schedule and the
// time in which a person may send again by hand included; [Receiver.Forget] removes
// older ones.
package receive
