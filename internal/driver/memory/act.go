package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

var _ driver.Desk = (*Store)(nil)

// Act does all of a in one step, or nothing of it.
func (s *Store) Act(ctx context.Context, a *driver.Action) (done bool, err error) {
	tx := &Tx{store: s, rows: newWritten()}
	defer tx.Rollback() // closed already, where everything was possible
	if a.Successor != nil {
		if err := (joined{tx}).Insert(ctx, []driver.New{*a.Successor}); err != nil {
			if a.Change != nil && !s.holds(ctx, a.Change) {
				return false, nil // somebody else has sent it again
			}
			return false, err
		}
	}
	err = s.write(ctx, func(now time.Time) error {
		var change batch
		if t := a.Change; t != nil {
			d := s.rows.deliveries[t.Ref]
			if d == nil || t.Answer != lifecycle.Apply || !d.holds(t, now) {
				return nil
			}
			if _, err := change.add(&s.rows, d, t, now); err != nil {
				return err
			}
		}
		if err := s.rows.mayResolve(a.Resolution); err != nil || !s.rows.setPauses(a, now) {
			return err
		}
		if err := tx.commit(); err != nil {
			return err
		}
		s.rows.resolve(a.Resolution, now)
		change.commit(&s.rows)
		s.rows.audit(a.Audit, now)
		done = true
		return nil
	})
	return done, err
}

// holds reports whether t would be possible now.
func (s *Store) holds(ctx context.Context, t *lifecycle.Transition) (holds bool) {
	err := s.write(ctx, func(now time.Time) error {
		d := s.rows.deliveries[t.Ref]
		holds = d != nil && d.holds(t, now)
		return nil
	})
	return holds || err != nil
}

// setPauses reports whether the pauses of a could be entered and removed.
func (t *tables) setPauses(a *driver.Action, now time.Time) bool {
	if p := a.Pause; p != nil {
		key := pauseKey{p.Profile, p.Kind}
		if _, there := t.pauses[key]; there {
			return false
		}
		entered := *p
		entered.At = now
		t.pauses[key] = entered
	}
	if p := a.Resume; p != nil {
		key := pauseKey{p.Profile, p.Kind}
		if _, there := t.pauses[key]; !there {
			return false
		}
		delete(t.pauses, key)
	}
	return true
}

// mayResolve makes the checks of the resolution table.
func (t *tables) mayResolve(r *driver.Resolution) error {
	if r == nil {
		return nil
	}
	if r.Finding < driver.FoundDelivered || r.Finding > driver.FoundAbandoned || r.Source < driver.FromPerson || r.Source > driver.FromProof {
		return fmt.Errorf("%w: resolution_shape", errCheck)
	}
	for i := range t.resolutions {
		old := &t.resolutions[i]
		if old.id == r.ID || r.Supersedes != (driver.ID{}) && old.supersedes == r.Supersedes {
			return fmt.Errorf("resolution %s exists, or what it supersedes is superseded", r.ID)
		}
	}
	return nil
}

// resolve adds a finding.
func (t *tables) resolve(r *driver.Resolution, now time.Time) {
	if r == nil {
		return
	}
	t.resolutions = append(t.resolutions, resolution{
		id: r.ID, ref: r.Ref, supersedes: r.Supersedes, at: now, outcome: int(r.Finding), source: int(r.Source),
		madeBy: r.By, evidence: r.Evidence,
	})
}

func (t *tables) audit(a driver.Audited, now time.Time) {
	t.audits = append(t.audits, audit{
		at: now, madeBy: a.By, action: a.Action, ref: a.Ref, run: a.Run, reason: a.Reason, before: a.Before, after: a.After,
	})
}

// auditRemoved writes the audit row of a removal, if it is audited.
func (t *tables) auditRemoved(by *driver.Audited, n int, now time.Time) {
	if by == nil {
		return
	}
	row := *by
	row.After = driver.Removed(n)
	t.audit(row, now)
}

// EraseFor is Erase, audited.
func (s *Store) EraseFor(ctx context.Context, subjects []string, by driver.Audited) (int, error) {
	return s.erase(ctx, subjects, &by)
}

// PruneFor is Prune, audited.
func (s *Store) PruneFor(ctx context.Context, p lifecycle.Profile, before time.Time, limit int, by driver.Audited) (int, error) {
	return s.prune(ctx, p, before, limit, &by)
}
