package dispatch

import (
	"context"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// bounded is a store whose every call ends in time, and whose errors are
// observed. Without a limit a connection that hangs would hold up a lane, and
// with it everybody's outcomes, for as long as the operating system hopes for an
// answer.
type bounded struct {
	driver.Driver
	limit   time.Duration // for what finds its rows by key
	observe func(Observation)
}

// farther is how much more time is given to what may have a long way to go, and to
// claims: one that is given up and takes effect later holds what it took until its
// lease ends.
const farther = 3

// within runs one call. A store that panics has failed.
func within[T any](ctx context.Context, b *bounded, d time.Duration, call func(ctx context.Context) (T, error)) (out T, err error) {
	limited, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err = contain(func() (err error) {
		out, err = call(limited)
		return err
	})
	if err != nil && ctx.Err() == nil {
		b.observe(Observation{Event: "error", Err: err})
	}
	return out, err
}

func (b *bounded) Claim(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	return within(ctx, b, farther*b.limit, func(ctx context.Context) ([]driver.Claimed, error) { return b.Driver.Claim(ctx, r) })
}

func (b *bounded) Held(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	return within(ctx, b, farther*b.limit, func(ctx context.Context) ([]driver.Claimed, error) { return b.Driver.Held(ctx, r) })
}

func (b *bounded) Apply(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
	return within(ctx, b, b.limit, func(ctx context.Context) ([]bool, error) { return b.Driver.Apply(ctx, ts) })
}

func (b *bounded) Append(ctx context.Context, rows []driver.Logged) error {
	_, err := within(ctx, b, b.limit, func(ctx context.Context) (struct{}, error) { return struct{}{}, b.Driver.Append(ctx, rows) })
	return err
}

func (b *bounded) Load(ctx context.Context, refs []driver.ID) ([]driver.Record, error) {
	return within(ctx, b, b.limit, func(ctx context.Context) ([]driver.Record, error) { return b.Driver.Load(ctx, refs) })
}

func (b *bounded) History(ctx context.Context, ref driver.ID) ([]driver.Logged, error) {
	return within(ctx, b, b.limit, func(ctx context.Context) ([]driver.Logged, error) { return b.Driver.History(ctx, ref) })
}

func (b *bounded) Due(ctx context.Context, r driver.ClaimRequest) ([]driver.ID, error) {
	return within(ctx, b, farther*b.limit, func(ctx context.Context) ([]driver.ID, error) { return b.Driver.Due(ctx, r) })
}

func (b *bounded) Overdue(ctx context.Context, r driver.OverdueRequest) ([]driver.Overdue, driver.Cursor, error) {
	var next driver.Cursor
	rows, err := within(ctx, b, farther*b.limit, func(ctx context.Context) (rows []driver.Overdue, err error) {
		rows, next, err = b.Driver.Overdue(ctx, r)
		return rows, err
	})
	return rows, next, err
}

func (b *bounded) Routes(ctx context.Context) ([]driver.Route, error) {
	return within(ctx, b, farther*b.limit, b.Driver.Routes)
}

func (b *bounded) Now(ctx context.Context) (time.Time, error) {
	return within(ctx, b, b.limit, b.Driver.Now)
}
