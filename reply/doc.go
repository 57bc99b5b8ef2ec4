// Package reply drives messages by hand: it records outgoing replies, and leaves
// sending them to its caller. It is for programs whose answer exists before anybody
// is there to take it, and that want a durable record of every reply and of each
// attempt to deliver it, with their own code around the call.
//
// A reply is a message of package consign: [Outbox.Create] commits it, in a
// transaction of its own or in the caller's. Whoever wins [Outbox.Claim], and nobody
// else, sends it and says on the [Claim] what became of it:
//
//	claim, won, err := replies.Claim(ctx, id)
//	if err != nil || !won {
//		return err // somebody else has it, or it has ended
//	}
//	for range 3 {
//		err := post(ctx, claim.Record().To, claim.Attempt())
//		if err == nil {
//			_, err = claim.MarkDelivered(ctx)
//			return err
//		}
//		if _, err := claim.RecordAttempt(ctx, err); err != nil {
//			return err
//		}
//	}
//	_, err = claim.MarkFailed(ctx, nil)
//	return err
//
// # What is certain
//
// A claim is made durable before anything is sent, and is made once: a program that
// dies with it loses the reply rather than sending it twice. Such a reply keeps
// showing "delivering", nobody sends it again, and it is in review as stranded once
// the claim's lease is over. [Outbox.Pending] therefore lists only what nobody has
// ever started.
//
// What is said of an attempt counts as in a channel: errors made by consign.NotSent,
// consign.Refused and consign.Rejected are definite; any other error, such as a
// timeout, means that the reply may have arrived. One that may have arrived and was
// not seen to is uncertain: it fails with OUTCOME_UNKNOWN, stays in review until a
// person has resolved it, and retention keeps it for so long.
//
// Sending by hand and through a channel can be mixed: a message that a program with
// a channel has claimed is not to be had here, and the other way round.
package reply
