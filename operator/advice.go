package operator

import "github.com/consign-go/consign"

// Advised is what a code means and what to do about it.
type Advised struct {
	Means string
	Do    string
}

// Advice returns what an operator should do about a code. The empty code means that
// there is nothing to say. It speaks of the code alone: where the outcome is unknown
// besides, that comes first ([Entry.Do]).
func Advice(code consign.Code) Advised {
	if a, ok := advice[code]; ok {
		return a
	}
	return Advised{"This version does not know the code.", "Read it with the version of the program that wrote it."}
}

// advice is the one place where codes are explained.
var advice = map[consign.Code]Advised{
	"": {"Nothing is wrong.", "Nothing."},
	consign.CodeRecordChanged: {
		"The target was edited after the run, and the contract asks for exactly the version that the run committed.",
		"Run the operation again if it is still wanted. Sending again cannot help: the version stays different.",
	},
	consign.CodeRequestChanged: {
		"A later attempt built another request for a key whose digest is bound. It was not sent.",
		"Find out why the handler does not build the same request twice and mend it, then run the operation again.",
	},
	consign.CodePostEffectCallbackFailed: {
		"It was delivered; what the handler did afterwards failed.",
		"Mend the handler. The delivery stands: do not send it again.",
	},
	consign.CodeFenced: {
		"Somebody else holds it by now; the write changed nothing.",
		"Nothing. Many of these mean that leases are shorter than the work under them.",
	},
	consign.CodeAuthorityMissing: {
		"The program has no authority configured, so it serves no work.",
		"Configure the authority of that program.",
	},
	consign.CodeAuthorityRevoked: {
		"The actor is gone, or is no longer who the run admitted.",
		"Nothing, or run the operation again under somebody who may. Sending again cannot help.",
	},
	consign.CodeDeliveryNotPermitted: {
		"The grant to deliver this operation and kind was withdrawn.",
		"Nothing, if that was intended. Otherwise grant it, then send again or run the operation again.",
	},
	consign.CodeTargetUnavailable: {
		"The target is gone, or out of the actor's scope.",
		"Nothing, if that was intended. Otherwise bring it back, then send again or run the operation again.",
	},
	consign.CodeCancelledByHandler: {"The handler said that it is no longer wanted.", "Nothing."},
	consign.CodeCancelledByOperator: {
		"A person cancelled it while nothing was in flight. The audit says who and why.",
		"Nothing.",
	},
	consign.CodeRequestInvalid: {
		"The handler built a request that may not be sent.",
		"Mend the handler, then redeliver.",
	},
	consign.CodeInputUnreadable: {
		"The stored input no longer decodes into the kind's type.",
		"Mend the kind or add an upgrade for the old version, then redeliver.",
	},
	consign.CodeEffectNotCalled: {
		"The handler returned without calling its effect.",
		"Mend the handler, then redeliver.",
	},
	consign.CodeEffectCalledTwice: {
		"The handler called its effect a second time and was refused. The first call stands.",
		"Mend the handler.",
	},
	consign.CodeHandlerMissing: {
		"No live program serves this kind of work.",
		"Deploy one that does, then redeliver.",
	},
	consign.CodeHandlerChanged: {
		"The contract of the kind is no longer the one that it was created under.",
		"Decide whether the present contract may deliver it, then redeliver; otherwise run the operation again.",
	},
	consign.CodeChannelMissing: {
		"No live program serves this channel.",
		"Deploy one that does, then redeliver.",
	},
	consign.CodeOutcomeUnknown: {
		"An effect may have happened, and nobody may try again without knowing.",
		"Ask the far side about the delivery key and record what you found. Then reissue what was not delivered, if it is still wanted.",
	},
	consign.CodeRejected: {
		"The far side said a definite, final no.",
		"Read the answer and mend the cause. Redeliver if the same request will do, reissue if it has to be another.",
	},
	consign.CodeDeadlineExpired: {
		"The deadline passed before a success.",
		"Nothing, if it came too late. Otherwise send again, which sets a new deadline.",
	},
	consign.CodeAttemptsExhausted: {
		"Every allowed attempt ended in a definite no.",
		"Mend the cause, then redeliver, which sets a new budget.",
	},
	consign.CodePoisoned: {
		"Program after program ended or panicked with it in hand, before it was started.",
		"Find out why in the programs' own logs before you send it again: it may take the next one down too.",
	},
	consign.CodeInterrupted: {
		"A shutdown, or the end of its lease, ended the loop between two attempts.",
		"Redeliver.",
	},
}

// uncertainFirst goes before the advice of any code where the outcome is unknown.
const uncertainFirst = "The outcome is unknown: an effect may have happened. Ask the far side about the delivery key and record what you found. "

// incurable are codes that sending again does not help with.
var incurable = map[consign.Code]bool{
	consign.CodeRecordChanged: true, consign.CodeRequestChanged: true, consign.CodeAuthorityRevoked: true,
}
