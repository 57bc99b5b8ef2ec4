package consign

import (
	"time"

	"github.com/consign-go/consign/internal/dispatch"
	"github.com/consign-go/consign/internal/lifecycle"
)

// NotSent says that it is certain that the far side has seen no complete request:
// the address was refused by policy, the connection was never made. It asks to be
// tried again. Do not use it for anything that happened after a byte was written.
//
// A definite class counts only along a chain of single wraps (%w): inside
// errors.Join it is one statement among several, and the outcome is unknown.
func NotSent(err error) error { return &dispatch.Definite{Event: lifecycle.EvNotSent, Err: err} }

// Refused says that the far side answered with a definite no that asks to be
// tried again: too many requests, not now. wait is what it asked for, at most
// 24 h; 0 if it did not say.
func Refused(err error, wait time.Duration) error {
	return &dispatch.Definite{Event: lifecycle.EvRefused, Err: err, Wait: wait}
}

// Rejected says that the far side answered with a definite, final no: the request
// is not valid, the recipient does not exist. On schedule it ends the message, unless
// [Channel.Rejections] lets it be tried again. An in-process loop uses its other
// attempts all the same, since receivers answer like that during their own deploys.
func Rejected(err error) error { return &dispatch.Definite{Event: lifecycle.EvRejected, Err: err} }
