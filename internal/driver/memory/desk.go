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

// Review returns what waits for a person.
func (s *Store) Review(ctx context.Context, after driver.Place, limit int) ([]driver.Place, error) {
	var places []driver.Place
	err := s.write(ctx, func(now time.Time) error {
		for _, p := range s.rows.reviews() {
			if !p.At.After(now) && beyond(p, after) && len(places) < limit {
				places = append(places, p)
			}
		}
		return nil
	})
	return places, err
}

// reviews is the review index.
func (t *tables) reviews() []driver.Place {
	var places []driver.Place
	for _, d := range t.deliveries {
		if !d.reviewAt.IsZero() {
			places = append(places, driver.Place{At: d.reviewAt, Ref: d.ref})
		}
	}
	slices.SortFunc(places, compare)
	return places
}

// compare orders places from the front to the end.
func compare(a, b driver.Place) int {
	return cmp.Or(cmp.Compare(a.Route, b.Route), a.At.Compare(b.At), bytes.Compare(a.Ref[:], b.Ref[:]))
}

func beyond(p, after driver.Place) bool { return after == (driver.Place{}) || compare(p, after) > 0 }

// Walk looks along one of the indexes.
func (s *Store) Walk(ctx context.Context, r driver.WalkRequest) (found []driver.Place, next driver.Place, err error) {
	err = s.write(ctx, func(time.Time) error {
		looked := 0
		var last driver.Place
		for _, p := range s.rows.walk(&r) {
			if looked == r.Limit {
				next = last
				return nil
			}
			looked, last = looked+1, p
			d := s.rows.deliveries[p.Ref]
			if !d.state.Erased && r.Matches(d.route, d.state.Status, d.state.Code, d.createdAt) {
				found = append(found, p)
			}
		}
		return nil
	})
	return found, next, err
}

// walk is the part of an index that r asks for, from where it goes on.
func (t *tables) walk(r *driver.WalkRequest) []driver.Place {
	var places []driver.Place
	add := func(p driver.Place) { places = append(places, p) }
	low, high := driver.RouteRange(r.Profile, r.Kind)
	for _, d := range t.deliveries {
		switch i := t.intents[d.ref]; {
		case r.Among == driver.Open && !d.dueAt.IsZero() && d.route >= low && d.route < high:
			add(driver.Place{Route: d.route, At: d.dueAt, Ref: d.ref})
		case r.Among == driver.InProcess && !d.reviewAt.IsZero() && d.state.Status == lifecycle.Delivering:
			add(driver.Place{At: d.reviewAt, Ref: d.ref})
		case r.Among == driver.Ended && d.state.Profile == r.Profile && d.state.Status == r.Statuses[0] && d.state.Status.Terminal():
			add(driver.Place{At: d.createdAt, Ref: d.ref})
		case r.Among == driver.OfSubject && i != nil && i.Subject == r.Subject && r.Subject != "":
			add(driver.Place{Ref: d.ref})
		}
	}
	order := compare
	if r.Among == driver.Ended {
		order = func(a, b driver.Place) int { return compare(b, a) }
	}
	slices.SortFunc(places, order)
	return slices.DeleteFunc(places, func(p driver.Place) bool {
		return r.After != (driver.Place{}) && order(p, r.After) <= 0
	})
}

// Tallies counts by part, profile, status and kind.
func (s *Store) Tallies(ctx context.Context, limit int) ([]driver.Tally, error) {
	var out []driver.Tally
	err := s.write(ctx, func(time.Time) error {
		for _, route := range slices.Sorted(maps.Keys(s.rows.open)) {
			rows := sorted(s.rows.open[route])
			out = append(out, tallied(driver.Open, rows, limit)...)
		}
		ends := map[lifecycle.State][]*delivery{}
		var review []*delivery
		for _, d := range s.rows.deliveries {
			if d.state.Status.Terminal() {
				key := lifecycle.State{Profile: d.state.Profile, Status: d.state.Status}
				ends[key] = append(ends[key], d)
			}
		}
		for _, rows := range ends {
			slices.SortFunc(rows, func(a, b *delivery) int {
				return cmp.Or(b.createdAt.Compare(a.createdAt), bytes.Compare(b.ref[:], a.ref[:]))
			})
			out = append(out, tallied(driver.Ended, rows, limit)...)
		}
		for _, p := range s.rows.reviews() {
			review = append(review, s.rows.deliveries[p.Ref])
		}
		out = append(out, tallied(driver.InProcess, review, limit)...)
		return nil
	})
	return out, err
}

// tallied counts the first limit of rows.
func tallied(among driver.Among, rows []*delivery, limit int) []driver.Tally {
	counts := map[driver.Tally]int{}
	capped := len(rows) > limit
	for _, d := range rows[:min(limit, len(rows))] {
		if d.state.Erased || among == driver.InProcess && d.state.Status != lifecycle.Delivering {
			continue
		}
		p, kind := driver.KindOf(d.route)
		counts[driver.Tally{Among: among, Profile: p, Status: d.state.Status, Kind: kind, Capped: capped}]++
	}
	var out []driver.Tally
	for t, n := range counts {
		t.N = n
		out = append(out, t)
	}
	return out
}

// InReview counts what waits for a person.
func (s *Store) InReview(ctx context.Context, limit int) (driver.InReview, error) {
	places, err := s.Review(ctx, driver.Place{}, limit+1)
	w := driver.InReview{N: min(len(places), limit), Capped: len(places) > limit}
	if w.N > 0 {
		w.Oldest = places[0].At
	}
	return w, err
}

// Chains follows predecessors and successors.
func (s *Store) Chains(ctx context.Context, refs []driver.ID) ([]driver.Chained, error) {
	var out []driver.Chained
	err := s.write(ctx, func(time.Time) error {
		next := map[driver.ID]*driver.Intent{}
		for _, i := range s.rows.intents {
			if i.Predecessor != (driver.ID{}) {
				next[i.Predecessor] = i
			}
		}
		for _, ref := range refs {
			add := func(i *driver.Intent) {
				out = append(out, driver.Chained{Asked: ref, Ref: i.Ref, Predecessor: i.Predecessor, Link: i.Link})
			}
			for i := s.rows.intents[ref]; i != nil; i = s.rows.intents[i.Predecessor] {
				add(i)
			}
			for i := next[ref]; i != nil; i = next[i.Ref] {
				add(i)
			}
		}
		return nil
	})
	return out, err
}

// Logs returns attempt logs.
func (s *Store) Logs(ctx context.Context, refs []driver.ID) ([]driver.Logged, error) {
	var out []driver.Logged
	err := s.write(ctx, func(time.Time) error {
		for _, ref := range refs {
			out = append(out, s.rows.attempts[ref]...)
		}
		return nil
	})
	return out, err
}

// Resolutions returns findings.
func (s *Store) Resolutions(ctx context.Context, refs []driver.ID) ([]driver.Resolution, error) {
	var out []driver.Resolution
	err := s.write(ctx, func(time.Time) error {
		for i := range s.rows.resolutions {
			if r := &s.rows.resolutions[i]; slices.Contains(refs, r.ref) {
				out = append(out, driver.Resolution{
					ID: r.id, Ref: r.ref, At: r.at, Finding: driver.Finding(r.outcome), Source: driver.Source(r.source),
					Supersedes: r.supersedes, By: r.madeBy, Evidence: r.evidence,
				})
			}
		}
		return nil
	})
	return out, err
}

// Audits returns audit rows, the newest first.
func (s *Store) Audits(ctx context.Context, r driver.AuditRequest) ([]driver.Audited, error) {
	var out []driver.Audited
	err := s.write(ctx, func(time.Time) error {
		for i := len(s.rows.audits) - 1; i >= 0 && len(out) < r.Limit; i-- {
			a, id := &s.rows.audits[i], int64(i+1)
			if r.Before > 0 && id >= r.Before || r.Ref != (driver.ID{}) && a.ref != r.Ref {
				continue
			}
			out = append(out, driver.Audited{
				ID: id, At: a.at, By: a.madeBy, Action: a.action, Ref: a.ref, Run: a.run,
				Reason: a.reason, Before: a.before, After: a.after,
			})
		}
		return nil
	})
	return out, err
}

// Pauses returns all pauses.
func (s *Store) Pauses(ctx context.Context) ([]driver.Pause, error) {
	var out []driver.Pause
	err := s.write(ctx, func(time.Time) error {
		out = slices.Collect(maps.Values(s.rows.pauses))
		return nil
	})
	slices.SortFunc(out, func(a, b driver.Pause) int {
		return cmp.Or(cmp.Compare(a.Profile, b.Profile), cmp.Compare(a.Kind, b.Kind))
	})
	return out, err
}
