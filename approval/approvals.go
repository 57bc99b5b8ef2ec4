package approval

import (
	"context"
	"errors"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
)

// Approvals are the approvals in one database. They are safe for concurrent use,
// hold no connection while idle and run nothing by themselves.
type Approvals[TX any] struct {
	bound  driver.Bound[TX]
	outbox *consign.Outbox[TX] // knows whether the schema fits
}

// New returns the approvals in store. It does no IO.
func New[TX any](store consign.Store[TX]) (*Approvals[TX], error) {
	outbox, err := consign.New(store, nil)
	if err != nil {
		return nil, err
	}
	return &Approvals[TX]{store.Driver(driver.Key{}), outbox}, nil
}

// Find returns an approval, whatever its status. One that does not exist is
// consign.ErrNotFound. Whose it is shown to is the caller's to check.
func (a *Approvals[TX]) Find(ctx context.Context, id consign.ID) (Approval, error) {
	const op = "find approval"
	row, found, err := a.bound.Approval(ctx, driver.ID(id))
	if err != nil {
		return Approval{}, consign.Failure(driver.Key{}, op, err)
	}
	if !found {
		return Approval{}, &consign.Error{Op: op, Err: consign.ErrNotFound}
	}
	return public(&row)
}

// within runs fn in a transaction of its own. A commit whose answer was lost is
// looked up by seen; where that does not settle it the error is
// consign.ErrUnconfirmed.
func (a *Approvals[TX]) within(ctx context.Context, op string, fn func(tx driver.Tx) error, seen func(row *driver.Approval) bool, id driver.ID) error {
	_, tx, err := a.bound.Begin(ctx)
	if err != nil {
		return consign.Failure(driver.Key{}, op, err)
	}
	done := false
	defer func() {
		if !done {
			tx.Rollback(context.WithoutCancel(ctx))
		}
	}()
	if err := a.outbox.Ready(ctx, driver.Key{}, tx); err != nil {
		return consign.Failure(driver.Key{}, op, err)
	}
	if err := fn(tx); err != nil {
		return consign.Failure(driver.Key{}, op, err)
	}
	done = true
	err = tx.Commit(ctx)
	if !errors.Is(err, driver.ErrUnconfirmed) {
		return consign.Failure(driver.Key{}, op, err)
	}
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	row, found, lookErr := a.bound.Approval(look, id)
	if lookErr == nil && found && seen(&row) {
		return nil
	}
	return consign.Unconfirmed(driver.Key{}, op, err)
}
