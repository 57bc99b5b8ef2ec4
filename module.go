package consign

import (
	"context"

	"github.com/consign-go/consign/internal/driver"
)

// What the other packages of this module need from this one. Nobody outside of it
// can name a driver.Key.

// Bind is for this module alone: what is proposed is bound to exactly what a run
// of the admission would be.
func (a Admission) Bind(driver.Key) (run driver.Run, input []byte, wrong []Fault) {
	var fs faults
	run, input = a.bind(&fs)
	return run, input, fs
}

// Ready is for this module alone: it checks that the schema fits this program.
func (o *Outbox[TX]) Ready(ctx context.Context, _ driver.Key, tx driver.Tx) error {
	return o.ready(ctx, tx)
}

// Failure is for this module alone: it makes an [*Error] of what a store returned.
func Failure(_ driver.Key, op string, err error) error { return failure(op, err) }

// Refusal is for this module alone: an error with one of the approval codes, in
// words, that wraps what to branch on.
func Refusal(_ driver.Key, op string, code Code, sentinel error) error {
	return &Error{Op: op, Code: code, Err: wrapped{sentinel, approvalTexts[code]}}
}

// Unconfirmed is for this module alone: an error for a commit without an answer.
func Unconfirmed(_ driver.Key, op string, err error) error {
	return &Error{Op: op, Err: unconfirmed{err}}
}
