package bench

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// floor is the subject of P4: the statements that an engine needs and nothing
// else. Two loops, each with one connection at a time, claim a batch, start it and
// settle it. There is no goroutine for a delivery, no authority, no request.
type floor struct {
	work
}

// floorLoops is how many loops there are; one more gains nothing on two cores.
const floorLoops = 2

// cursor is where the claims of all loops have come to, so that neither steps
// over what the other holds.
type cursor struct {
	mu sync.Mutex
	at driver.Position
}

func (c *cursor) get() driver.Position {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *cursor) pass(claimed []driver.Claimed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range claimed {
		p := driver.Position{DueAt: claimed[i].DueAt, Ref: claimed[i].Intent.Ref}
		if cmp.Or(p.DueAt.Compare(c.at.DueAt), bytes.Compare(p.Ref[:], c.at.Ref[:])) > 0 {
			c.at = p
		}
	}
}

func (c *cursor) rewind() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = driver.Position{}
}

func (f floor) drain(ctx context.Context, pool *pgxpool.Pool, n int) (took, stopping time.Duration, err error) {
	store, err := bound(pool)
	if err != nil {
		return 0, 0, err
	}
	count, at := newCountdown(n), &cursor{}
	loops := func(serving context.Context) error {
		ctx := context.WithoutCancel(serving) // what is under way when all is done ends by itself
		var wg sync.WaitGroup
		errs := make([]error, floorLoops)
		for i := range errs {
			wg.Go(func() {
				for errs[i] == nil && serving.Err() == nil && count.left.Load() > 0 {
					errs[i] = f.turn(ctx, store, at, count)
				}
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	}
	return serve(ctx, loops, count)
}

// turn claims, starts and settles one batch.
func (f floor) turn(ctx context.Context, store driver.Driver, at *cursor, count *countdown) error {
	r := driver.ClaimRequest{Program: "bench", Policy: lifecycle.DefaultPolicy, Routes: []driver.RouteLimit{{
		Route: driver.WorkRoute(workKind, workPrint), Limit: f.config.Batch, After: at.get(), Contract: workContract,
	}}}
	rand.Read(r.Owner[:])
	claimed, err := store.Claim(ctx, r)
	if err != nil {
		return err
	}
	if len(claimed) == 0 {
		at.rewind()
		return nil
	}
	at.pass(claimed)
	for _, event := range []lifecycle.EventKind{lifecycle.EvStart, lifecycle.EvSucceeded} {
		ts := make([]lifecycle.Transition, len(claimed))
		for i := range claimed {
			s := &claimed[i].State
			ts[i] = r.Policy.Apply(*s, lifecycle.Event{
				Kind: event, Owner: r.Owner, Generation: s.Generation, Attempt: s.AttemptNo(), Digest: claimed[i].Intent.Digest,
			})
			ts[i].Ref = claimed[i].Intent.Ref
			s.Status, s.InFlight, s.Attempts, s.Digest = ts[i].Set.Status, ts[i].Set.InFlight, ts[i].Set.Attempts, ts[i].Set.Digest
			s.Revision++
		}
		held, err := store.Apply(ctx, ts)
		if err != nil {
			return err
		}
		for _, h := range held {
			if !h {
				return errors.New("a write did not hold")
			}
		}
	}
	count.add(len(claimed))
	return nil
}
