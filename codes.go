package consign

import "github.com/consign-go/consign/internal/lifecycle"

// Code says why a delivery stands where it stands. The set is closed. A code is
// stored with the delivery, unless it says that it is only reported. The codes of
// approvals are no part of it: they are reported with errors.
type Code = lifecycle.Code

// The codes, with what each asks of an operator.
const (
	// CodeRecordChanged: the target was edited after the run. Run the operation
	// again if it is still wanted.
	CodeRecordChanged = lifecycle.RecordChanged
	// CodeRequestChanged: a retry built another request for a bound key. Find out
	// why the handler is not deterministic; run the operation again.
	CodeRequestChanged = lifecycle.RequestChanged
	// CodePostEffectCallbackFailed: delivered; the handler failed afterwards.
	CodePostEffectCallbackFailed = lifecycle.PostEffectCallbackFailed
	// CodeFenced: somebody else holds it by now. Only reported; nothing to do.
	CodeFenced = lifecycle.Fenced
	// CodeAuthorityMissing: the program has no authority. Only reported; configure it.
	CodeAuthorityMissing = lifecycle.AuthorityMissing
	// CodeAuthorityRevoked: the actor lost the authority. Nothing, or run the
	// operation again under another.
	CodeAuthorityRevoked = lifecycle.AuthorityRevoked
	// CodeDeliveryNotPermitted: the grant to deliver was withdrawn. As above.
	CodeDeliveryNotPermitted = lifecycle.DeliveryNotPermitted
	// CodeTargetUnavailable: the target is gone. Nothing.
	CodeTargetUnavailable = lifecycle.TargetUnavailable
	// CodeCancelledByHandler: the handler no longer wanted it. Nothing.
	CodeCancelledByHandler = lifecycle.CancelledByHandler
	// CodeCancelledByOperator: a person cancelled it. Nothing.
	CodeCancelledByOperator = lifecycle.CancelledByOperator
	// CodeRequestInvalid: the handler built a request that may not be sent. Mend
	// the handler; send it again.
	CodeRequestInvalid = lifecycle.RequestInvalid
	// CodeInputUnreadable: the stored input no longer decodes. Mend the kind or
	// add an upgrade; send it again.
	CodeInputUnreadable = lifecycle.InputUnreadable
	// CodeEffectNotCalled: the handler forgot its effect. Mend it; send it again.
	CodeEffectNotCalled = lifecycle.EffectNotCalled
	// CodeEffectCalledTwice: the handler called its effect again and was refused.
	// Only reported, to the handler; mend it.
	CodeEffectCalledTwice = lifecycle.EffectCalledTwice
	// CodeHandlerMissing: no program serves the kind. Deploy one; send it again.
	CodeHandlerMissing = lifecycle.HandlerMissing
	// CodeHandlerChanged: the kind's contract changed. Decide whether the new one
	// may deliver it; send it again.
	CodeHandlerChanged = lifecycle.HandlerChanged
	// CodeChannelMissing: no program serves the channel. Deploy one; send it again.
	CodeChannelMissing = lifecycle.ChannelMissing
	// CodeOutcomeUnknown: it may have happened. Ask the far side under the
	// delivery key, then record what you found.
	CodeOutcomeUnknown = lifecycle.OutcomeUnknown
	// CodeRejected: a definite, final no. Mend the cause; send it again.
	CodeRejected = lifecycle.OutcomeRejected
	// CodeDeadlineExpired: too late. Nothing, or run the operation again.
	CodeDeadlineExpired = lifecycle.DeadlineExpired
	// CodeAttemptsExhausted: every attempt was refused. Mend the cause; send it again.
	CodeAttemptsExhausted = lifecycle.AttemptsExhausted
	// CodePoisoned: it ended program after program before it started. Find out
	// why before sending it again.
	CodePoisoned = lifecycle.Poisoned
	// CodeInterrupted: a shutdown ended the loop between two attempts. Send it again.
	CodeInterrupted = lifecycle.Interrupted
)
