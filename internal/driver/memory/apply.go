package memory

import (
	"context"
	"slices"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// batch collects changes until all of them are known to be allowed.
type batch struct {
	deliveries []*delivery
	log        []driver.Logged
}

// add makes the change t of d a part of the batch.
func (b *batch) add(rows *tables, d *delivery, t *lifecycle.Transition, now time.Time) (*delivery, error) {
	next := d.after(t, now)
	if err := next.check(); err != nil {
		return nil, err
	}
	if t.Log != nil {
		if err := checkAttempt(t.Log); err != nil {
			return nil, err
		}
		b.log = append(b.log, d.logged(t, now))
	}
	b.deliveries = append(b.deliveries, next)
	return next, nil
}

// commit writes the whole batch. The caller holds mu.
func (b *batch) commit(rows *tables) {
	for _, d := range b.deliveries {
		rows.put(d)
		if d.state.Erased {
			rows.forget(d)
		}
	}
	for _, l := range b.log {
		rows.attempts[l.Ref] = append(rows.attempts[l.Ref], l)
	}
}

// Apply compares and sets. A row that a check refuses fails the whole call, with
// nothing changed.
func (s *Store) Apply(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
	held := make([]bool, len(ts))
	err := s.write(ctx, func(now time.Time) error {
		var change batch
		for i := range ts {
			d := s.rows.deliveries[ts[i].Ref]
			if d == nil || ts[i].Answer != lifecycle.Apply || !d.holds(&ts[i], now) {
				continue
			}
			if _, err := change.add(&s.rows, d, &ts[i], now); err != nil {
				return err
			}
			held[i] = true
		}
		change.commit(&s.rows)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return held, nil
}

// Append keeps late evidence. Of what was erased meanwhile only the bare outcome
// is kept, of what was pruned nothing.
func (s *Store) Append(ctx context.Context, rows []driver.Logged) error {
	return s.write(ctx, func(now time.Time) error {
		for i := range rows {
			if err := checkAttempt(&rows[i].Attempt); err != nil {
				return err
			}
		}
		for _, l := range rows {
			d := s.rows.deliveries[l.Ref]
			if d == nil || s.rows.hasAttempt(&l) {
				continue
			}
			if d.state.Erased {
				l.Error, l.Proof = "", ""
			}
			l.At = now
			s.rows.attempts[l.Ref] = append(s.rows.attempts[l.Ref], l)
		}
		return nil
	})
}

// hasAttempt reports whether the log has a row under the key of l.
func (t *tables) hasAttempt(l *driver.Logged) bool {
	return slices.ContainsFunc(t.attempts[l.Ref], func(o driver.Logged) bool {
		return o.Generation == l.Generation && o.Number == l.Number && o.Late == l.Late
	})
}

// forget removes what an erasure removes beside the delivery's own columns.
func (t *tables) forget(d *delivery) {
	if i := t.intents[d.ref]; i != nil {
		if d.state.Digest == (lifecycle.Digest{}) {
			d.state.Digest = i.Digest // d was made by this very write
		}
		for _, key := range uniqueKeys(i)[1:] {
			delete(t.keys, key)
		}
		delete(t.intents, d.ref)
	}
	for i := range t.attempts[d.ref] {
		t.attempts[d.ref][i].Error, t.attempts[d.ref][i].Proof = "", ""
	}
	for i := range t.resolutions {
		if t.resolutions[i].ref == d.ref {
			t.resolutions[i].evidence = ""
		}
	}
}
