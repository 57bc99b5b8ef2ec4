package dispatch

import (
	"context"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// claim takes up to n deliveries, no suspects, while so many are held already. more
// reports that there may be others: the claim came back full, or was made behind the
// last one. whole: it shall begin at the front whenever there is nothing behind,
// however long that takes.
func (e *Engine) claim(n, held int, life lives, patience time.Duration, whole bool) (tasks []*Task, more bool, err error) {
	if err := e.heed(life.stop); err != nil {
		return nil, false, err
	}
	e.mu.Lock()
	if whole {
		e.routes.rest = time.Time{}
	}
	front := e.routes.begin(held)
	limits, behind := e.routes.limits(n, front)
	e.mu.Unlock()
	began := time.Now()
	tasks, err = e.take(&driver.ClaimRequest{Routes: limits, Limit: n}, life, patience)
	if err != nil {
		return nil, false, err
	}
	l := look{behind: behind, full: len(tasks) >= n, took: time.Since(began) - time.Duration(len(tasks))*perRow}
	if l.slow() && !l.full {
		l.upTo = e.lookedUpTo(life, time.Since(began))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.routes.learn(&l, tasks)
	return tasks, l.full || behind && (whole || !e.routes.rests()), nil
}

// resting reports whether claims do not begin at the front, because that takes long.
func (e *Engine) resting() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.routes.rests()
}

// fromFront has the engine look from the front, however long that takes.
func (e *Engine) fromFront() {
	e.mu.Lock()
	e.routes.rest = time.Time{}
	e.mu.Unlock()
	e.Wake()
}

// lookedUpTo is the due time up to which a look that took d and came to the end has
// seen everything; zero: not known.
func (e *Engine) lookedUpTo(life lives, d time.Duration) time.Time {
	now, err := e.store.Now(life.hard)
	if err != nil {
		return time.Time{}
	}
	return now.Add(-d - late)
}

// claimSuspect takes one delivery that crashed an owner before its start, one of
// refs if there are any; nil: there is none. The caller has filled e.suspect, which
// is emptied once the delivery can take no other one down any more.
func (e *Engine) claimSuspect(refs []driver.ID, life lives, patience time.Duration) (*Task, error) {
	ask := e.routes.passed
	if len(refs) > 0 {
		ask = e.routes.fronts
	}
	routes, err := e.routing(life.stop, 1, ask)
	var tasks []*Task
	if err == nil {
		tasks, err = e.take(&driver.ClaimRequest{Routes: routes, Limit: 1, Refs: refs, Suspects: true}, life, patience)
	}
	if len(tasks) == 0 {
		<-e.suspect
		return nil, err
	}
	tasks[0].alone = func() {
		<-e.suspect
		e.Wake() // there may be another
	}
	return tasks[0], nil
}

// claimRef takes one delivery, where it is due and served here; nil: it is not to
// be had.
func (e *Engine) claimRef(ref driver.ID, life lives) (*Task, error) {
	refs := []driver.ID{ref}
	routes, err := e.fronts(life.stop, 1)
	if err != nil {
		return nil, err
	}
	tasks, err := e.take(&driver.ClaimRequest{Routes: routes, Limit: 1, Refs: refs}, life, e.Patience)
	if err != nil || len(routes) == 0 {
		return nil, err
	}
	if len(tasks) == 1 {
		return tasks[0], nil
	}
	// What is merely not due must not wait for another suspect's start.
	due, err := e.store.Due(life.stop, driver.ClaimRequest{Routes: routes, Limit: 1, Refs: refs, Suspects: true, Policy: e.Policy})
	if err != nil || len(due) == 0 {
		return nil, err
	}
	if err := e.awaitSuspects(life.stop); err != nil {
		return nil, err
	}
	return e.claimSuspect(refs, life, e.Patience)
}

// awaitSuspects fills e.suspect as soon as no other suspect is in hand.
func (e *Engine) awaitSuspects(ctx context.Context) error {
	select {
	case e.suspect <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fronts asks every route that is not paused for n, from its front.
func (e *Engine) fronts(ctx context.Context, n int) ([]driver.RouteLimit, error) {
	return e.routing(ctx, n, e.routes.fronts)
}

// routing is what is asked of the routes that are not paused.
func (e *Engine) routing(ctx context.Context, n int, ask func(n int) []driver.RouteLimit) ([]driver.RouteLimit, error) {
	if err := e.heed(ctx); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return ask(n), nil
}

// take claims what r asks for under a fresh token. It is not cut short when the
// engine stops: a claim that happened all the same would hold its deliveries until
// their leases end. Where the answer was lost, it is asked for what the claim has
// taken for as long as patience allows; after that the leases end by themselves.
func (e *Engine) take(r *driver.ClaimRequest, life lives, patience time.Duration) ([]*Task, error) {
	if len(r.Routes) == 0 {
		return nil, nil
	}
	r.Owner, r.Program, r.Policy, r.Room = newToken(), e.Program, e.Policy, e.rooms.take()
	began := time.Now()
	claimed, err := e.store.Claim(life.hard, *r)
	answered := err == nil
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
	tasks := e.tasks(claimed, r.Owner, began, life)
	if answered { // else the store may still be writing there
		clear(claimed)
		if cap(claimed) < cap(r.Room) {
			claimed = r.Room
		}
		e.rooms.give(claimed[:0])
	}
	for n := len(tasks); n > r.Limit; n-- { // the store handed out more than was asked for
		tasks[n-1].tell(lifecycle.EvReleased)
	}
	return tasks[:min(len(tasks), r.Limit)], nil
}

// tasks is what a claim handed out, with what delivers it. It copies the answer,
// whose memory the next claim has again.
func (e *Engine) tasks(claimed []driver.Claimed, owner lifecycle.Token, began time.Time, life lives) []*Task {
	e.mu.Lock()
	defer e.mu.Unlock()
	tasks := make([]*Task, len(claimed))
	for i := range claimed {
		tasks[i] = newTask(e, &claimed[i], owner, began, &life)
		if known := e.routes.of(&claimed[i].Intent); known != nil {
			tasks[i].served = known.served
		}
	}
	return tasks
}

// longestLease is when, after a claim, all that it may have taken is free again.
func (e *Engine) longestLease() time.Duration {
	d := e.Patience
	for _, s := range e.Served {
		d = max(d, s.Contract.Lease)
	}
	return d
}
