package memory

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Load returns the records of refs that exist.
func (s *Store) Load(ctx context.Context, refs []driver.ID) ([]driver.Record, error) {
	var records []driver.Record
	err := s.write(ctx, func(now time.Time) error {
		for _, ref := range refs {
			d := s.rows.deliveries[ref]
			if d == nil {
				continue
			}
			r := driver.Record{
				Intent: driver.Intent{Ref: ref}, State: s.rows.state(d, now),
				DueAt: d.dueAt, LeaseUntil: d.leaseUntil, Deadline: d.deadline, StartedAt: d.startedAt,
				UpdatedAt: d.updatedAt, ReviewAt: d.reviewAt, ErasedAt: d.erasedAt,
				Program: d.program, LastError: d.lastError,
			}
			if i := s.rows.intents[ref]; i != nil {
				r.Intent = *i
				r.Intent.Payload = slices.Clone(i.Payload)
			}
			records = append(records, r)
		}
		return nil
	})
	return records, err
}

// History returns the attempt log of ref in the order in which it was written.
func (s *Store) History(ctx context.Context, ref driver.ID) ([]driver.Logged, error) {
	var rows []driver.Logged
	err := s.write(ctx, func(time.Time) error {
		rows = slices.Clone(s.rows.attempts[ref])
		return nil
	})
	return rows, err
}

// Overdue walks the due index over all routes.
func (s *Store) Overdue(ctx context.Context, r driver.OverdueRequest) ([]driver.Overdue, driver.Cursor, error) {
	limit := r.Limit
	if limit <= 0 {
		limit = 1000
	}
	var found []driver.Overdue
	var at driver.Cursor
	err := s.write(ctx, func(now time.Time) error {
		seen := 0
		for _, route := range slices.Sorted(maps.Keys(s.rows.open)) {
			if route < r.After.Route {
				continue
			}
			for _, d := range sorted(s.rows.open[route]) {
				if route == r.After.Route && !behind(d, r.After.Position) {
					continue
				}
				if seen == limit {
					return nil // at stays on the last row that was looked at
				}
				seen++
				at = driver.Cursor{Route: route, Position: driver.Position{DueAt: d.dueAt, Ref: d.ref}}
				if d.overdue(now) {
					found = append(found, driver.Overdue{Ref: d.ref, Route: route, State: s.rows.state(d, now)})
				}
			}
		}
		at = driver.Cursor{}
		return nil
	})
	return found, at, err
}

// overdue reports whether the deadline or the lease of d is over.
func (d *delivery) overdue(now time.Time) bool {
	return !d.deadline.IsZero() && !d.deadline.After(now) || !d.leaseUntil.IsZero() && !d.leaseUntil.After(now)
}

// Routes returns the routes of the due index, by name, each with its oldest
// delivery's contract.
func (s *Store) Routes(ctx context.Context) ([]driver.Route, error) {
	var routes []driver.Route
	err := s.write(ctx, func(time.Time) error {
		for route, rows := range s.rows.open {
			oldest := sorted(rows)[0]
			r := driver.Route{Route: route, Profile: oldest.state.Profile, OldestDue: oldest.dueAt}
			if i := s.rows.intents[oldest.ref]; i != nil {
				r.Kind, r.Version, r.Fingerprint = i.Kind, i.Version, i.Fingerprint
			}
			routes = append(routes, r)
		}
		return nil
	})
	slices.SortFunc(routes, func(a, b driver.Route) int { return cmp.Compare(a.Route, b.Route) })
	return routes, err
}

// Erase removes the content of what belongs to subjects and leaves tombstones.
func (s *Store) Erase(ctx context.Context, subjects []string) (int, error) {
	return s.erase(ctx, subjects, nil)
}

// erase is Erase with an audit row, if there is one.
func (s *Store) erase(ctx context.Context, subjects []string, by *driver.Audited) (int, error) {
	gone := map[string]bool{}
	for _, subject := range subjects {
		if !blank(subject) {
			gone[subject] = true
		}
	}
	if len(gone) == 0 {
		return 0, ctx.Err()
	}
	erased := 0
	err := s.write(ctx, func(now time.Time) error {
		var change batch
		for ref, i := range s.rows.intents {
			d := s.rows.deliveries[ref]
			if !gone[i.Subject] || d == nil {
				continue
			}
			t := lifecycle.DefaultPolicy.Apply(s.rows.state(d, now), lifecycle.Event{Kind: lifecycle.EvErase})
			if _, err := change.add(&s.rows, d, &t, now); err != nil {
				return err
			}
			erased++
		}
		change.commit(&s.rows)
		s.rows.forgetPeople(gone, now)
		s.rows.auditRemoved(by, erased, now)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return erased, nil
}

func blank(subject string) bool { return len(bytes.TrimSpace([]byte(subject))) == 0 }

// forgetPeople removes the content of runs and approvals; that they took place
// stays on record.
func (t *tables) forgetPeople(gone map[string]bool, now time.Time) {
	for id, r := range t.runs {
		if gone[r.Subject] {
			bare := *r
			bare.Subject, bare.Receipt = "", nil
			t.runs[id] = &bare
		}
	}
	for id, a := range t.approvals {
		if gone[a.Subject] {
			t.approvals[id] = a.bare(now)
		}
	}
}

// Prune removes the oldest ended records.
func (s *Store) Prune(ctx context.Context, p lifecycle.Profile, before time.Time, limit int) (int, error) {
	return s.prune(ctx, p, before, limit, nil)
}

// prune is Prune with an audit row, if there is one.
func (s *Store) prune(ctx context.Context, p lifecycle.Profile, before time.Time, limit int, by *driver.Audited) (int, error) {
	pruned := 0
	err := s.write(ctx, func(now time.Time) error {
		var old []*delivery
		for _, d := range s.rows.deliveries {
			ended := d.state.Status.Terminal() && d.reviewAt.IsZero() && d.erasedAt.IsZero()
			if ended && d.state.Profile == p && d.createdAt.Before(before) {
				old = append(old, d)
			}
		}
		slices.SortFunc(old, func(a, b *delivery) int {
			return cmp.Or(a.createdAt.Compare(b.createdAt), bytes.Compare(a.ref[:], b.ref[:]))
		})
		for _, d := range old[:min(len(old), max(limit, 0))] {
			s.rows.remove(d)
			pruned++
		}
		s.rows.pruned += pruned
		if pruned > 0 {
			s.rows.auditRemoved(by, pruned, now)
		}
		return nil
	})
	return pruned, err
}

// remove takes d and all that hangs on it out of the tables.
func (t *tables) remove(d *delivery) {
	keys := []string{refKey(d.ref)}
	if i := t.intents[d.ref]; i != nil {
		keys = uniqueKeys(i)
	}
	for _, key := range keys {
		delete(t.keys, key)
	}
	t.drop(d)
	delete(t.intents, d.ref)
	delete(t.attempts, d.ref)
	t.resolutions = slices.DeleteFunc(t.resolutions, func(r resolution) bool { return r.ref == d.ref })
}
