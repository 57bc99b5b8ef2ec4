package memory

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Claim asks lifecycle about each candidate, in the order of the due index.
func (s *Store) Claim(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	var taken []driver.Claimed
	err := s.write(ctx, func(now time.Time) error {
		var change batch
		err := s.candidates(&r, now, func(d *delivery, t lifecycle.Transition) error {
			next, err := change.add(&s.rows, d, &t, now)
			if err != nil {
				return err
			}
			next.program = r.Program
			taken = append(taken, s.rows.claimed(next, now))
			return nil
		})
		if err == nil {
			change.commit(&s.rows)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return taken, nil
}

// Due returns the refs that Claim would take.
func (s *Store) Due(ctx context.Context, r driver.ClaimRequest) ([]driver.ID, error) {
	var refs []driver.ID
	err := s.write(ctx, func(now time.Time) error {
		return s.candidates(&r, now, func(d *delivery, _ lifecycle.Transition) error {
			refs = append(refs, d.ref)
			return nil
		})
	})
	return refs, err
}

// candidates calls fn for each delivery that r may claim, with the claim. The
// order gate is the one before any of them is taken: of one task, taking a lower
// index keeps the gate of a higher one as closed as it was.
func (s *Store) candidates(r *driver.ClaimRequest, now time.Time, fn func(*delivery, lifecycle.Transition) error) error {
	wanted := map[driver.ID]bool{}
	for _, ref := range r.Refs {
		wanted[ref] = true
	}
	for _, step := range r.Next {
		for _, ref := range s.rows.next(step, now) {
			wanted[ref] = true
		}
	}
	all := len(r.Refs)+len(r.Next) == 0
	owner := r.Owner
	if owner == (lifecycle.Token{}) {
		owner = lifecycle.Token{1} // Due needs none
	}
	room := r.Limit
	if room <= 0 {
		room = math.MaxInt
	}
	for _, limit := range r.Routes {
		left := limit.Limit
		for _, d := range sorted(s.rows.open[limit.Route]) {
			if left <= 0 || room <= 0 {
				break
			}
			if !all && !wanted[d.ref] || d.suspect() != r.Suspects || !behind(d, limit.After) ||
				!limit.Until.IsZero() && d.dueAt.After(limit.Until) {
				continue
			}
			event := lifecycle.Event{Kind: lifecycle.EvClaim, Owner: owner, Contract: limit.Contract}
			t := r.Policy.Apply(s.rows.state(d, now), event)
			if t.Answer != lifecycle.Apply {
				continue
			}
			if err := fn(d, t); err != nil {
				return err
			}
			left--
			room--
		}
	}
	return nil
}

// next is what stands next in a task: the lowest index behind p, and one more.
func (t *tables) next(p driver.Step, now time.Time) (refs []driver.ID) {
	var behind []*delivery
	for _, d := range t.tasks[p.Task] {
		if d.taskIndex > p.Index && d.standsBefore(now) {
			behind = append(behind, d)
		}
	}
	slices.SortFunc(behind, func(a, b *delivery) int {
		return cmp.Or(cmp.Compare(a.taskIndex, b.taskIndex), bytes.Compare(a.ref[:], b.ref[:]))
	})
	for _, d := range behind[:min(2, len(behind))] {
		refs = append(refs, d.ref)
	}
	return refs
}

// suspect reports whether d may have taken an owner down before the start: one
// was counted, or a lease is still recorded that nobody started.
func (d *delivery) suspect() bool {
	return d.state.Crashes > 0 || d.state.Status == lifecycle.Leased
}

// sorted returns rows in the order of the due index.
func sorted(rows map[driver.ID]*delivery) []*delivery {
	list := make([]*delivery, 0, len(rows))
	for _, d := range rows {
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b *delivery) int {
		return cmp.Or(a.dueAt.Compare(b.dueAt), bytes.Compare(a.ref[:], b.ref[:]))
	})
	return list
}

// behind reports whether d comes after p in the due index.
func behind(d *delivery, p driver.Position) bool {
	return cmp.Or(d.dueAt.Compare(p.DueAt), bytes.Compare(d.ref[:], p.Ref[:])) > 0
}

// claimed is what is handed out of d.
func (t *tables) claimed(d *delivery, now time.Time) driver.Claimed {
	c := driver.Claimed{State: t.state(d, now), DueAt: d.dueAt}
	if i := t.intents[d.ref]; i != nil {
		c.Intent = *i
		c.Intent.Payload = slices.Clone(i.Payload)
	}
	return c
}

// Held returns what the owner of r holds.
func (s *Store) Held(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	var held []driver.Claimed
	err := s.write(ctx, func(now time.Time) error {
		for _, limit := range r.Routes {
			for _, d := range sorted(s.rows.open[limit.Route]) {
				if d.state.Owner == r.Owner && d.state.Status == lifecycle.Leased && r.Owner != (lifecycle.Token{}) {
					held = append(held, s.rows.claimed(d, now))
				}
			}
		}
		return nil
	})
	return held, err
}

// write runs fn while nobody else reads or writes.
func (s *Store) write(ctx context.Context, fn func(now time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return fn(s.clock.now())
}
