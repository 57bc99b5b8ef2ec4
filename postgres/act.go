package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

var _ driver.Desk = (*engine)(nil)

// What people do is rare, so each part is a statement of its own, one after the
// other in one transaction. The first one locks the delivery that it is about:
// whoever comes second waits for it and finds the revision changed.
const (
	resolveSQL = `
INSERT INTO {s}resolution (id, ref, at, outcome, source, supersedes, made_by, evidence)
VALUES ($1::uuid, $2::uuid, clock_timestamp(), $3::smallint, $4::smallint, $5::uuid, $6::text, $7::text)`

	pauseSQL = `
INSERT INTO {s}pause (profile, kind, at, made_by, reason)
VALUES ($1::smallint, $2::text, clock_timestamp(), $3::text, $4::text)
ON CONFLICT DO NOTHING
RETURNING profile`

	resumeSQL = `DELETE FROM {s}pause WHERE profile = $1::smallint AND kind = $2::text RETURNING profile`

	auditSQL = `
INSERT INTO {s}audit (at, made_by, action, ref, run_id, reason, before, after)
VALUES (clock_timestamp(), $1::text, $2::text, $3::uuid, $4::uuid, $5::text, $6::text, $7::text)`
)

// Act does all of a in one transaction, or nothing of it.
func (e *engine) Act(ctx context.Context, a *driver.Action) (bool, error) {
	tx, err := e.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginWrite})
	if err != nil {
		return false, clean("act", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) // closed already, where it was committed
	if _, err := tx.Exec(ctx, pinSQL); err != nil {
		return false, clean("act", err)
	}
	possible, err := e.act(ctx, tx, a)
	if err != nil || !possible {
		return false, clean("act", err)
	}
	err = (&transaction{e, pgxSession{tx}}).Commit(ctx)
	return err == nil, err
}

// act reports whether all of a is possible. Where it is not, tx is to be undone.
func (e *engine) act(ctx context.Context, tx pgx.Tx, a *driver.Action) (bool, error) {
	if a.Change != nil {
		held, err := e.set(ctx, tx, []lifecycle.Transition{*a.Change})
		if err != nil || !held[0] {
			return false, err
		}
	}
	if p := a.Pause; p != nil {
		held, err := e.oneRow(ctx, tx, e.q.pause, int64(p.Profile), p.Kind, p.By, text(p.Reason))
		if err != nil || !held {
			return false, err
		}
	}
	if p := a.Resume; p != nil {
		held, err := e.oneRow(ctx, tx, e.q.resume, int64(p.Profile), p.Kind)
		if err != nil || !held {
			return false, err
		}
	}
	if r := a.Resolution; r != nil {
		args := []any{uuid(r.ID), uuid(r.Ref), int64(r.Finding), int64(r.Source), uuid(r.Supersedes), r.By, text(r.Evidence)}
		if err := query(ctx, tx, e.q.resolve, args, nothing); err != nil {
			return false, err
		}
	}
	if n := a.Successor; n != nil {
		if err := query(ctx, tx, e.q.insert, insertArgs([]*driver.New{n}), nothing); err != nil {
			return false, err
		}
	}
	return true, e.audit(ctx, tx, &a.Audit)
}

// oneRow runs a statement and reports whether it returned a row.
func (e *engine) oneRow(ctx context.Context, tx pgx.Tx, sql string, args ...any) (found bool, err error) {
	err = query(ctx, tx, sql, args, func(pgx.Rows) error {
		found = true
		return nil
	})
	return found, err
}

func (e *engine) audit(ctx context.Context, tx pgx.Tx, a *driver.Audited) error {
	args := []any{a.By, a.Action, uuid(a.Ref), uuid(a.Run), text(a.Reason), text(a.Before), text(a.After)}
	return query(ctx, tx, e.q.audit, args, nothing)
}

// auditRemoved writes the audit row of a removal, if it is audited.
func (e *engine) auditRemoved(ctx context.Context, tx pgx.Tx, by *driver.Audited, n int) error {
	if by == nil {
		return nil
	}
	row := *by
	row.After = driver.Removed(n)
	return e.audit(ctx, tx, &row)
}

// EraseFor is Erase, audited.
func (e *engine) EraseFor(ctx context.Context, subjects []string, by driver.Audited) (int, error) {
	return e.erase(ctx, subjects, &by)
}

// PruneFor is Prune, audited.
func (e *engine) PruneFor(ctx context.Context, p lifecycle.Profile, before time.Time, limit int, by driver.Audited) (int, error) {
	return e.prune(ctx, p, before, limit, &by)
}
