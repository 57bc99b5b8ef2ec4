package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

var _ driver.Desk = (*engine)(nil)

const (
	resolveSQL = `INSERT INTO {s}resolution (id, ref, at, outcome, source, supersedes, made_by, evidence) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	pauseSQL   = `INSERT INTO {s}pause (profile, kind, at, made_by, reason) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
	resumeSQL  = `DELETE FROM {s}pause WHERE profile = ? AND kind = ?`
	auditSQL   = `INSERT INTO {s}audit (at, made_by, action, ref, run_id, reason, before, after) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
)

// errNotPossible: a part of an action does not hold, so nothing of it is written.
var errNotPossible = errors.New("not possible")

// Act does all of a in one transaction, or nothing of it.
func (e *engine) Act(ctx context.Context, a *driver.Action) (bool, error) {
	err := e.write(ctx, "act", func(ctx context.Context, w *writer) error { return w.act(ctx, a) })
	if errors.Is(err, errNotPossible) {
		return false, nil
	}
	return err == nil, err
}

func (w *writer) act(ctx context.Context, a *driver.Action) error {
	if a.Change != nil {
		held, err := w.set(ctx, []lifecycle.Transition{*a.Change})
		if err != nil {
			return err
		}
		if !held[0] {
			return errNotPossible
		}
	}
	if p := a.Pause; p != nil {
		if err := w.one(ctx, pauseSQL, int64(p.Profile), p.Kind, w.now, p.By, orNull(p.Reason)); err != nil {
			return err
		}
	}
	if p := a.Resume; p != nil {
		if err := w.one(ctx, resumeSQL, int64(p.Profile), p.Kind); err != nil {
			return err
		}
	}
	if r := a.Resolution; r != nil {
		args := []any{r.ID[:], r.Ref[:], w.now, int64(r.Finding), int64(r.Source), blob(r.Supersedes), r.By, orNull(r.Evidence)}
		if _, err := w.exec(ctx, resolveSQL, args...); err != nil {
			return err
		}
	}
	if a.Successor != nil {
		if err := w.insertFresh(ctx, []driver.New{*a.Successor}, w.now); err != nil {
			return err
		}
	}
	return w.audit(ctx, a.Audit)
}

// one runs a statement that has to change a row.
func (w *writer) one(ctx context.Context, text string, args ...any) error {
	n, err := w.exec(ctx, text, args...)
	if err == nil && n == 0 {
		err = errNotPossible
	}
	return err
}

func (w *writer) audit(ctx context.Context, a driver.Audited) error {
	_, err := w.exec(ctx, auditSQL, w.now, a.By, a.Action, blob(a.Ref), blob(a.Run), orNull(a.Reason), orNull(a.Before), orNull(a.After))
	return err
}

// auditRemoved writes the audit row of a removal, if it is audited.
func (w *writer) auditRemoved(ctx context.Context, by *driver.Audited, n int) error {
	if by == nil {
		return nil
	}
	row := *by
	row.After = driver.Removed(n)
	return w.audit(ctx, row)
}

// EraseFor is Erase, audited.
func (e *engine) EraseFor(ctx context.Context, subjects []string, by driver.Audited) (int, error) {
	return e.erase(ctx, subjects, &by)
}

// PruneFor is Prune, audited.
func (e *engine) PruneFor(ctx context.Context, p lifecycle.Profile, before time.Time, limit int, by driver.Audited) (int, error) {
	return e.prune(ctx, p, before, limit, &by)
}
