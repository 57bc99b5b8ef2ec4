package sqlite

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// ofSubjectSQL reads the deliveries of a subject. ?1 is the database's now.
const ofSubjectSQL = `SELECT ` + stateColumns + ` FROM {s}intent i INDEXED BY {i}intent_subject
CROSS JOIN {s}delivery d INDEXED BY sqlite_autoindex_{s}delivery_1 ON d.ref = i.ref
WHERE i.subject = ?2`

const (
	forgetRunsSQL = `UPDATE {s}run INDEXED BY {i}run_subject SET subject = NULL, receipt = NULL WHERE subject = ?`

	// The time of an approval that was not consumed is over: without its target it
	// would fit a run that creates one.
	forgetApprovalsSQL = `UPDATE {s}approval INDEXED BY {i}approval_subject
SET subject = NULL, target = NULL, input = NULL, reason = NULL, decision = NULL,
    expires_at = CASE WHEN status < 2 THEN min(expires_at, {now}) ELSE expires_at END
WHERE subject = ?`
)

// Erase removes the content of what belongs to subjects and leaves tombstones. That
// a run or an approval took place stays on record.
func (e *engine) Erase(ctx context.Context, subjects []string) (int, error) {
	return e.erase(ctx, subjects, nil)
}

// erase is Erase with an audit row, if there is one.
func (e *engine) erase(ctx context.Context, subjects []string, by *driver.Audited) (int, error) {
	subjects = slices.DeleteFunc(slices.Clone(subjects), func(s string) bool { return strings.TrimSpace(s) == "" })
	if len(subjects) == 0 {
		return 0, ctx.Err()
	}
	erased := 0
	err := e.write(ctx, "erase", func(ctx context.Context, w *writer) error {
		for _, subject := range subjects {
			var marks []lifecycle.Transition
			err := w.query(ctx, ofSubjectSQL, []any{w.now, subject}, stateWidth, func(v []any) (bool, error) {
				row := readState(v)
				t := lifecycle.DefaultPolicy.Apply(row.at(w.now), lifecycle.Event{Kind: lifecycle.EvErase})
				t.Ref = row.ref
				marks = append(marks, t)
				return true, nil
			})
			if err != nil {
				return err
			}
			if _, err := w.set(ctx, marks); err != nil {
				return err
			}
			erased += len(marks)
			for _, statement := range []string{forgetRunsSQL, forgetApprovalsSQL} {
				if _, err := w.exec(ctx, statement, subject); err != nil {
					return err
				}
			}
		}
		return w.auditRemoved(ctx, by, erased)
	})
	if err != nil {
		return 0, err
	}
	return erased, nil
}

// forgotten is what goes with an erasure beside the delivery's own columns.
var forgotten = []string{
	`UPDATE {s}attempt SET error = NULL, proof = NULL WHERE ref = ? AND (error IS NOT NULL OR proof IS NOT NULL)`,
	`UPDATE {s}resolution INDEXED BY {i}resolution_ref SET evidence = NULL WHERE ref = ? AND evidence IS NOT NULL`,
	`DELETE FROM {s}intent WHERE ref = ?`,
}

func (w *writer) forget(ctx context.Context, ref driver.ID) error {
	for _, statement := range forgotten {
		if _, err := w.exec(ctx, statement, ref[:]); err != nil {
			return err
		}
	}
	return nil
}

// oldestEndedSQL finds the oldest records of one profile that ended with one status.
const oldestEndedSQL = `SELECT d.ref, d.created_at FROM {s}delivery d INDEXED BY {i}delivery_terminal
WHERE d.profile = ? AND d.terminal = ? AND d.created_at < ? AND d.review_at IS NULL AND d.erased_at IS NULL
ORDER BY d.created_at, d.ref LIMIT ?`

// pruned is where a record is removed from.
var pruned = []string{
	`DELETE FROM {s}attempt WHERE ref = ?`,
	`DELETE FROM {s}resolution INDEXED BY {i}resolution_ref WHERE ref = ?`,
	`DELETE FROM {s}intent WHERE ref = ?`,
	`DELETE FROM {s}delivery INDEXED BY sqlite_autoindex_{s}delivery_1 WHERE ref = ?`,
}

const countPrunedSQL = `INSERT INTO {s}setting (name, value) VALUES ('pruned', CAST(?1 AS TEXT))
ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(value AS INTEGER) + ?1 AS TEXT)`

// Prune removes the oldest ended records.
func (e *engine) Prune(ctx context.Context, p lifecycle.Profile, before time.Time, limit int) (int, error) {
	return e.prune(ctx, p, before, limit, nil)
}

// prune is Prune with an audit row, if there is one.
func (e *engine) prune(ctx context.Context, p lifecycle.Profile, before time.Time, limit int, by *driver.Audited) (int, error) {
	if limit <= 0 {
		return 0, ctx.Err()
	}
	n := 0
	err := e.write(ctx, "prune", func(ctx context.Context, w *writer) error {
		old, err := w.oldestEnded(ctx, p, before, limit)
		if err != nil || len(old) == 0 {
			return err
		}
		for _, ref := range old {
			for _, statement := range pruned {
				if _, err := w.exec(ctx, statement, ref[:]); err != nil {
					return err
				}
			}
		}
		n = len(old)
		if _, err := w.exec(ctx, countPrunedSQL, int64(n)); err != nil {
			return err
		}
		return w.auditRemoved(ctx, by, n)
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// oldestEnded returns up to limit refs. The index keeps each status apart.
func (w *writer) oldestEnded(ctx context.Context, p lifecycle.Profile, before time.Time, limit int) ([]driver.ID, error) {
	type ended struct {
		at  int64
		ref driver.ID
	}
	var old []ended
	for _, status := range lifecycle.Statuses {
		if !status.Terminal() {
			continue
		}
		args := []any{int64(p), int64(status), microsUp(before), int64(limit)}
		err := w.query(ctx, oldestEndedSQL, args, 2, func(v []any) (bool, error) {
			old = append(old, ended{whole(v[1]), bytes16(v[0])})
			return true, nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(old, func(a, b ended) int {
		if a.at != b.at {
			return int(min(max(a.at-b.at, -1), 1))
		}
		return bytes.Compare(a.ref[:], b.ref[:])
	})
	refs := make([]driver.ID, min(limit, len(old)))
	for i := range refs {
		refs[i] = old[i].ref
	}
	return refs, nil
}
