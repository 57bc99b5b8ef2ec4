package dispatch

import (
	"time"

	"github.com/consign-go/consign/internal/driver"
)

// claim takes up to n deliveries. more reports that there may be others: the
// claim came back full, or was made behind the last one.
func (e *Engine) claim(n int, life lives, patience time.Duration) (tasks []*Task, more bool, err error) {
	e.mu.Lock()
	limits, behind := e.routes.limits(n, false)
	e.mu.Unlock()
	tasks, err = e.take(&driver.ClaimRequest{Routes: limits, Limit: n}, life, patience)
	if err != nil {
		return nil, false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(tasks) == 0 && behind {
		e.routes.rewind()
	}
	for _, t := range tasks {
		if r := e.routes.of(&t.Intent); r != nil {
			r.pass(driver.Position{DueAt: t.dueAt, Ref: t.Intent.Ref})
		}
	}
	return tasks, len(tasks) >= n || behind, nil
}

// claimSuspect takes one delivery that crashed an owner before its start.
func (e *Engine) claimSuspect(life lives, patience time.Duration) ([]*Task, error) {
	return e.take(&driver.ClaimRequest{Routes: e.fronts(1), Limit: 1, Suspects: true}, life, patience)
}

// claimRef takes one delivery, where it is due and served here.
func (e *Engine) claimRef(ref driver.ID, suspect bool, life lives) (*Task, error) {
	r := &driver.ClaimRequest{Routes: e.fronts(1), Limit: 1, Refs: []driver.ID{ref}, Suspects: suspect}
	tasks, err := e.take(r, life, e.Patience)
	if len(tasks) == 0 {
		return nil, err
	}
	return tasks[0], nil
}

// fronts is every route from its front.
func (e *Engine) fronts(n int) []driver.RouteLimit {
	e.mu.Lock()
	defer e.mu.Unlock()
	limits, _ := e.routes.limits(n, true)
	return limits
}

// take claims what r asks for under a fresh token. It is not cut short when the
// engine stops: a claim that happened all the same would hold its deliveries until
// their leases end. Where the answer was lost, it is asked for what the claim has
// taken for as long as patience allows; after that the leases end by themselves.
func (e *Engine) take(r *driver.ClaimRequest, life lives, patience time.Duration) ([]*Task, error) {
	if len(r.Routes) == 0 {
		return nil, nil
	}
	r.Owner, r.Program, r.Policy = newToken(), e.Program, e.Policy
	began := time.Now()
	claimed, err := e.store.Claim(life.hard, *r)
	for pause := firstPause; err != nil; {
		if !(limit{life.hard, began.Add(patience)}).sleep(&pause) {
			return nil, err
		}
		held, unanswered := e.store.Held(life.hard, *r)
		if unanswered == nil && len(held) == 0 {
			return nil, err
		}
		claimed, err = held, unanswered
	}
	if len(claimed) > 0 {
		e.observe(Observation{Event: "claim", Count: len(claimed), Duration: time.Since(began)})
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	tasks := make([]*Task, len(claimed))
	for i := range claimed {
		tasks[i] = newTask(e, &claimed[i], r.Owner, began, life)
		if known := e.routes.of(&claimed[i].Intent); known != nil {
			tasks[i].served = known.served
		}
	}
	return tasks, nil
}

// longestLease is when, after a claim, all that it may have taken is free again.
func (e *Engine) longestLease() time.Duration {
	d := e.Patience
	for _, s := range e.Served {
		d = max(d, s.Contract.Lease)
	}
	return d
}
