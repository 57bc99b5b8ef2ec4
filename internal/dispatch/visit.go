package dispatch

import (
	"context"
	"sync"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// DefaultLimit is how many intents a drain visits and a scan pushes.
const DefaultLimit = 100

// Visit drives one intent through whatever it is due for and returns where it
// stands. Losing the claim is no error: the result says what somebody else, or
// the time, has made of it. found is false where there is no such intent.
func (e *Engine) Visit(ctx context.Context, ref driver.ID) (r Result, found bool, err error) {
	life, cancel := lifetimes(ctx, 0, e.Policy.SettleMargin)
	defer cancel()
	task, err := e.claimRef(ref, life)
	if err != nil {
		return Result{}, false, err
	}
	if task == nil {
		rows, err := e.load(ctx, []driver.ID{ref})
		if err != nil || rows[0] == nil || rows[0].State.Erased {
			return Result{}, false, err
		}
		if i := &rows[0].Intent; e.adopt(i.Profile, i.Kind, i.Version, i.Fingerprint) {
			if task, err = e.claimRef(ref, life); err != nil {
				return Result{}, false, err
			}
		}
	}
	if task != nil {
		return task.drive(newSlots(0)), true, nil
	}
	if err := e.sweepRef(ctx, ref); err != nil {
		return Result{}, false, err
	}
	return e.stands(ctx, ref)
}

// stands reads where an intent stands.
func (e *Engine) stands(ctx context.Context, ref driver.ID) (r Result, found bool, err error) {
	rows, err := e.load(ctx, []driver.ID{ref})
	if err != nil || rows[0] == nil || rows[0].State.Erased {
		return Result{}, false, err
	}
	s := &rows[0].State
	return Result{Ref: ref, Profile: s.Profile, Status: s.Status, Code: s.Code}, true, nil
}

// Drain sweeps, then visits up to limit due or expired intents, as many at once
// as there are workers, and returns what became of each. 0 means DefaultLimit.
func (e *Engine) Drain(ctx context.Context, limit int) ([]Result, error) {
	if limit <= 0 {
		limit = DefaultLimit
	}
	if err := e.tidy(ctx); err != nil {
		return nil, err
	}
	life, cancel := lifetimes(ctx, 0, e.Policy.SettleMargin)
	defer cancel()
	var results []Result
	for more := true; more && len(results) < limit && ctx.Err() == nil; {
		var tasks []*Task
		var err error
		tasks, more, err = e.claim(min(limit-len(results), e.Workers, e.Batch), 0, life, e.Patience, true)
		if err != nil {
			return results, err
		}
		results = append(results, driveAll(tasks)...)
	}
	for len(results) < limit && ctx.Err() == nil {
		if err := e.awaitSuspects(ctx); err != nil {
			return results, err
		}
		task, err := e.claimSuspect(nil, life, e.Patience)
		if err != nil {
			return results, err
		}
		if task == nil {
			break
		}
		results = append(results, task.drive(newSlots(0)))
	}
	return results, ctx.Err()
}

func driveAll(tasks []*Task) []Result {
	out := make([]Result, len(tasks))
	s := newSlots(0)
	var wg sync.WaitGroup
	for i, t := range tasks {
		wg.Go(func() { out[i] = t.drive(s) })
	}
	wg.Wait()
	return out
}

// Scan sweeps, then hands up to limit refs of due or expired intents to push. 0
// means DefaultLimit. Whoever takes them from there calls Visit.
func (e *Engine) Scan(ctx context.Context, limit int, push func(ctx context.Context, refs []driver.ID) error) (int, error) {
	if limit <= 0 {
		limit = DefaultLimit
	}
	if err := e.tidy(ctx); err != nil {
		return 0, err
	}
	var refs []driver.ID
	for _, suspects := range []bool{false, true} {
		left := limit - len(refs)
		routes, err := e.fronts(ctx, left)
		if err != nil {
			return 0, err
		}
		if left == 0 || len(routes) == 0 {
			break
		}
		due, err := e.store.Due(ctx, driver.ClaimRequest{Policy: e.Policy, Suspects: suspects, Limit: left, Routes: routes})
		if err != nil {
			return 0, err
		}
		refs = append(refs, due[:min(len(due), left)]...)
	}
	if len(refs) == 0 {
		return 0, nil
	}
	return len(refs), push(ctx, refs)
}

// tidy is what a drain or a scan does first: what no claim can do.
func (e *Engine) tidy(ctx context.Context) error {
	if _, err := e.SweepOnce(ctx); err != nil {
		return err
	}
	return e.attendAtTimes(ctx)
}

// sweepRef ends one delivery, if nobody may claim it any more.
func (e *Engine) sweepRef(ctx context.Context, ref driver.ID) error {
	records, err := e.store.Load(ctx, []driver.ID{ref})
	if err != nil {
		return err
	}
	_, err = e.applyAll(ctx, overdue(records), lifecycle.Event{Kind: lifecycle.EvSweep})
	return err
}
