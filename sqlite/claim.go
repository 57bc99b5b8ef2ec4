package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

const anyClaimableSQL = `SELECT 1` + byDue + ` WHERE ` + claimableSQL + ` LIMIT 1`

// Claim takes what r asks for. After a claim that found nothing the next one looks
// before it takes the write lock, so that an idle program's scanning is in nobody's way.
func (e *engine) Claim(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	if r.Owner == (lifecycle.Token{}) {
		return nil, nil
	}
	if !e.found.Load() {
		if due, err := e.anyDue(ctx, &r); err != nil || !due {
			return nil, err
		}
	}
	var taken []driver.Claimed
	var changes []lifecycle.Transition
	var rows []int64
	var schema int64
	err := e.write(ctx, "claim", func(ctx context.Context, w *writer) error {
		taken = r.Room[:0]
		changes, rows = make([]lifecycle.Transition, 0, expected(&r)), make([]int64, 0, expected(&r))
		err := claims.candidates(ctx, &w.session, &r, w.now, func(c *candidate) error {
			intent, err := readIntent(c.values[stateWidth:], c.ref, c.state.Profile)
			if err != nil {
				return err
			}
			changes, rows = append(changes, c.claim), append(rows, c.rowid)
			taken = append(taken, driver.Claimed{Intent: intent, State: c.after(), DueAt: instant(c.dueAt)})
			return nil
		})
		if err != nil {
			return err
		}
		held, err := w.setAt(ctx, changes, rows, &r.Program)
		if err != nil {
			return err
		}
		for i := range held {
			if !held[i] {
				return errors.New("a row changed under the write lock")
			}
		}
		schema, err = w.schemaVersion(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	e.found.Store(len(taken) > 0)
	e.places.learn(schema, changes, rows)
	return taken, nil
}

// expected is how many rows a busy claim will bring, for the size of slices.
func expected(r *driver.ClaimRequest) int {
	n := 0
	for i := range r.Routes {
		n += min(max(r.Routes[i].Limit, 0), 1000)
	}
	if r.Limit > 0 {
		n = min(n, r.Limit)
	}
	return min(n, 1000)
}

// after is the state that the claim of c leaves behind.
func (c *candidate) after() lifecycle.State {
	s, set := c.before, &c.claim.Set
	s.Status, s.Generation, s.Owner, s.InFlight = set.Status, set.Generation, set.Owner, set.InFlight
	s.Attempts, s.Crashes, s.Uncertain, s.Code = set.Attempts, set.Crashes, set.Uncertain, set.Code
	s.Revision++
	s.LeaseLeft = time.Duration(set.Lease).Truncate(time.Microsecond)
	if set.SetContract {
		s.Contract = set.Contract
		if s.DeadlineLeft == lifecycle.Never && s.Contract.MaxAge > 0 {
			s.DeadlineLeft = s.DueIn + s.Contract.MaxAge
		}
	}
	return s
}

// anyDue reports whether a claim might find something.
func (e *engine) anyDue(ctx context.Context, r *driver.ClaimRequest) (due bool, err error) {
	look := selection{due: anyClaimableSQL, refs: dues.refs, width: 1}
	if len(r.Refs)+len(r.Next) > 0 {
		look.width = dues.width
	}
	err = e.read(ctx, "claim", func(ctx context.Context, s *session) error {
		now, err := s.now(ctx)
		if err != nil {
			return err
		}
		asked, err := s.resolved(ctx, r, now)
		if err != nil {
			return err
		}
		for i := range asked.Routes {
			err := look.rows(ctx, s, asked, &asked.Routes[i], now, func([]any) (bool, error) {
				due = true
				return false, nil
			})
			if err != nil || due {
				return err
			}
		}
		return nil
	})
	return due, err
}

// Due returns the refs that Claim would take.
func (e *engine) Due(ctx context.Context, r driver.ClaimRequest) ([]driver.ID, error) {
	if r.Owner == (lifecycle.Token{}) {
		r.Owner = lifecycle.Token{1} // nobody's: nothing is taken
	}
	var refs []driver.ID
	err := e.read(ctx, "due", func(ctx context.Context, s *session) error {
		refs = nil
		now, err := s.now(ctx)
		if err != nil {
			return err
		}
		return dues.candidates(ctx, s, &r, now, func(c *candidate) error {
			refs = append(refs, c.ref)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return refs, nil
}

const heldSQL = `SELECT ` + stateColumns + `, ` + intentColumns + byDue + withIntent + `
WHERE d.route = ?2 AND d.due_at IS NOT NULL AND d.owner = ?3 AND d.status = 1` + inOrder

// Held returns what the owner of r holds.
func (e *engine) Held(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	if r.Owner == (lifecycle.Token{}) {
		return nil, nil
	}
	var held []driver.Claimed
	err := e.read(ctx, "held", func(ctx context.Context, s *session) error {
		held = nil
		now, err := s.now(ctx)
		if err != nil {
			return err
		}
		for i := range r.Routes {
			args := []any{now, r.Routes[i].Route, r.Owner[:]}
			err := s.query(ctx, heldSQL, args, stateWidth+intentWidth, func(v []any) (bool, error) {
				row := readState(v)
				intent, err := readIntent(v[stateWidth:], row.ref, row.state.Profile)
				held = append(held, driver.Claimed{Intent: intent, State: row.at(now), DueAt: instant(row.dueAt)})
				return true, err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return held, nil
}
