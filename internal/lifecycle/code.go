package lifecycle

// Code says why a delivery is where it is. The set is closed: a program may
// branch on it, and each code has one answer to "what do I do about it".
type Code string

const (
	// RecordChanged: the target's version is no longer the one that the run
	// committed, and the contract asks for exactly that one.
	RecordChanged Code = "RECORD_CHANGED"
	// RequestChanged: a later attempt built a different request for a delivery
	// key whose digest is already bound. It was not sent.
	RequestChanged Code = "REQUEST_CHANGED"
	// PostEffectCallbackFailed: the effect succeeded; what the handler did
	// afterwards did not.
	PostEffectCallbackFailed Code = "POST_EFFECT_CALLBACK_FAILED"
	// Fenced: the write's owner, generation or revision is no longer current.
	// It changed nothing. Reported, never stored.
	Fenced Code = "FENCED"
	// AuthorityMissing: the program has no authority configured and refuses to
	// serve work. Reported, never stored.
	AuthorityMissing Code = "AUTHORITY_MISSING"
	// AuthorityRevoked: the principal is gone or no longer equals the run's.
	AuthorityRevoked Code = "AUTHORITY_REVOKED"
	// DeliveryNotPermitted: the grant to deliver this operation and kind is
	// definitely refused.
	DeliveryNotPermitted Code = "DELIVERY_NOT_PERMITTED"
	// TargetUnavailable: the target is gone or out of the principal's scope.
	TargetUnavailable Code = "TARGET_UNAVAILABLE"
	// CancelledByHandler: the handler said that the work is no longer wanted.
	CancelledByHandler Code = "CANCELLED_BY_HANDLER"
	// CancelledByOperator: a person cancelled it before it was started.
	CancelledByOperator Code = "CANCELLED_BY_OPERATOR"
	// RequestInvalid: the request built by the handler is not one that may be
	// sent (type, size, depth, number, text).
	RequestInvalid Code = "REQUEST_INVALID"
	// InputUnreadable: the stored input no longer decodes into the kind's type.
	InputUnreadable Code = "INPUT_UNREADABLE"
	// EffectNotCalled: the handler returned without calling its effect.
	EffectNotCalled Code = "EFFECT_NOT_CALLED"
	// EffectCalledTwice: a handler called its effect again; the second call was
	// refused before its function ran. Reported to the handler, never stored.
	EffectCalledTwice Code = "EFFECT_CALLED_TWICE"
	// HandlerMissing: no live program serves this kind of work.
	HandlerMissing Code = "HANDLER_MISSING"
	// HandlerChanged: the contract of this kind differs from the intent's.
	HandlerChanged Code = "HANDLER_CHANGED"
	// ChannelMissing: no live program serves this channel.
	ChannelMissing Code = "CHANNEL_MISSING"
	// OutcomeUnknown: some effect may have happened, and nobody may try again.
	OutcomeUnknown Code = "OUTCOME_UNKNOWN"
	// OutcomeRejected: the far side gave a definite, final no.
	OutcomeRejected Code = "REJECTED"
	// DeadlineExpired: the delivery deadline passed before a success.
	DeadlineExpired Code = "DEADLINE_EXPIRED"
	// AttemptsExhausted: every allowed attempt ended in a definite no.
	AttemptsExhausted Code = "ATTEMPTS_EXHAUSTED"
	// Poisoned: owner after owner vanished before starting it.
	Poisoned Code = "POISONED"
	// Interrupted: shutdown ended a process-owned loop between two attempts.
	Interrupted Code = "INTERRUPTED"
)

// Codes lists the closed set.
var Codes = []Code{
	RecordChanged, RequestChanged, PostEffectCallbackFailed, Fenced,
	AuthorityMissing, AuthorityRevoked, DeliveryNotPermitted, TargetUnavailable,
	CancelledByHandler, CancelledByOperator, RequestInvalid, InputUnreadable,
	EffectNotCalled, EffectCalledTwice, HandlerMissing, HandlerChanged, ChannelMissing,
	OutcomeUnknown, OutcomeRejected, DeadlineExpired, AttemptsExhausted, Poisoned, Interrupted,
}

// cancels reports whether stopping with c before the effect means that the work
// is simply not wanted any more (cancelled), rather than that a person must
// look at it.
func (c Code) cancels() bool {
	switch c {
	case AuthorityRevoked, DeliveryNotPermitted, TargetUnavailable, CancelledByHandler, CancelledByOperator,
		DeadlineExpired:
		return true
	}
	return false
}

// stopsBeforeStart reports whether c is one of the codes with which a leased
// delivery may be stopped by its owner.
func (c Code) stopsBeforeStart() bool {
	switch c {
	case AuthorityRevoked, DeliveryNotPermitted, TargetUnavailable, CancelledByHandler,
		RecordChanged, RequestChanged, RequestInvalid, InputUnreadable, EffectNotCalled, HandlerChanged:
		return true
	}
	return false
}
