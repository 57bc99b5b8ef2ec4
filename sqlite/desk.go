package sqlite

import (
	"context"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// What people look at. Each statement names the index that it walks along, and
// reads a bounded part of it.

const reviewSQL = `SELECT d.review_at, d.ref FROM {s}delivery d INDEXED BY {i}delivery_review
WHERE d.review_at IS NOT NULL AND d.review_at <= {now} AND (d.review_at, d.ref) > (?, ?)
ORDER BY d.review_at, d.ref LIMIT ?`

// Review returns what waits for a person.
func (e *engine) Review(ctx context.Context, after driver.Place, limit int) ([]driver.Place, error) {
	var places []driver.Place
	err := e.read(ctx, "review", func(ctx context.Context, s *session) error {
		places = nil
		args := []any{from(after.At), after.Ref[:], int64(limit)}
		return s.query(ctx, reviewSQL, args, 2, func(v []any) (bool, error) {
			places = append(places, driver.Place{At: instant(v[0]), Ref: bytes16(v[1])})
			return true, nil
		})
	})
	return places, err
}

// The ends of all times, as they are stored.
const (
	firstTime = -1 << 62
	lastTime  = 1 << 62
)

func from(t time.Time) int64 {
	if t.IsZero() {
		return firstTime
	}
	return micros(t)
}

func until(t time.Time) int64 {
	if t.IsZero() {
		return lastTime
	}
	return micros(t)
}

// Each walk hands out where a row is and what decides whether it matches.
const (
	walkColumns = `d.ref, d.route, d.status, d.code, d.created_at, d.erased_at IS NOT NULL`

	walkOpenSQL = `SELECT d.due_at, ` + walkColumns + ` FROM {s}delivery d INDEXED BY {i}delivery_due
WHERE d.due_at IS NOT NULL AND d.route < ? AND (d.route, d.due_at, d.ref) > (?, ?, ?)
ORDER BY d.route, d.due_at, d.ref LIMIT ?`

	walkLoopsSQL = `SELECT d.review_at, ` + walkColumns + ` FROM {s}delivery d INDEXED BY {i}delivery_review
WHERE d.review_at IS NOT NULL AND (d.review_at, d.ref) > (?, ?)
ORDER BY d.review_at, d.ref LIMIT ?`

	walkEndedSQL = `SELECT d.created_at, ` + walkColumns + ` FROM {s}delivery d INDEXED BY {i}delivery_terminal
WHERE d.profile = ? AND d.terminal = ? AND d.created_at >= ? AND (d.created_at, d.ref) < (?, ?)
ORDER BY d.created_at DESC, d.ref DESC LIMIT ?`

	walkSubjectSQL = `SELECT NULL, ` + walkColumns + ` FROM {s}intent i INDEXED BY {i}intent_subject
CROSS JOIN {s}delivery d INDEXED BY sqlite_autoindex_{s}delivery_1 ON d.ref = i.ref
WHERE i.subject = ? AND i.ref > ? ORDER BY i.ref LIMIT ?`
)

// walkArgs returns the statement of a walk with its arguments.
func walkArgs(r *driver.WalkRequest) (string, []any) {
	limit := int64(r.Limit) + 1
	after := r.After
	switch r.Among {
	case driver.Open:
		low, high := driver.RouteRange(r.Profile, r.Kind)
		if after == (driver.Place{}) {
			after.Route = low
		}
		return walkOpenSQL, []any{high, after.Route, from(after.At), after.Ref[:], limit}
	case driver.InProcess:
		return walkLoopsSQL, []any{from(after.At), after.Ref[:], limit}
	case driver.OfSubject:
		return walkSubjectSQL, []any{r.Subject, after.Ref[:], limit}
	}
	before, ref := until(r.Before), []byte(nil)
	if after != (driver.Place{}) {
		before, ref = micros(after.At), after.Ref[:]
	}
	if ref == nil {
		ref = []byte{} // less than any: what was created at that very time does not count
	}
	return walkEndedSQL, []any{int64(r.Profile), int64(r.Statuses[0]), from(r.From), before, ref, limit}
}

// Walk looks along one of the indexes.
func (e *engine) Walk(ctx context.Context, r driver.WalkRequest) (found []driver.Place, next driver.Place, err error) {
	err = e.read(ctx, "walk", func(ctx context.Context, s *session) error {
		found, next = nil, driver.Place{}
		var last driver.Place
		looked := 0
		statement, args := walkArgs(&r)
		return s.query(ctx, statement, args, 7, func(v []any) (bool, error) {
			if looked == r.Limit {
				next = last
				return false, nil
			}
			looked++
			last = driver.Place{At: instant(v[0]), Ref: bytes16(v[1])}
			route := text(v[2])
			if r.Among == driver.Open {
				last.Route = route
			}
			status := lifecycle.Status(whole(v[3]))
			if r.Among == driver.InProcess && status != lifecycle.Delivering {
				return true, nil
			}
			if whole(v[6]) == 0 && r.Matches(route, status, lifecycle.Code(text(v[4])), instant(v[5])) {
				found = append(found, last)
			}
			return true, nil
		})
	})
	return found, next, err
}

const (
	chainUpSQL = `WITH RECURSIVE v(ref, predecessor, link) AS (
    SELECT n.ref, n.predecessor, n.link FROM {s}intent n INDEXED BY sqlite_autoindex_{s}intent_1 WHERE n.ref = ?
    UNION ALL
    SELECT n.ref, n.predecessor, n.link
    FROM v CROSS JOIN {s}intent n INDEXED BY sqlite_autoindex_{s}intent_1 ON n.ref = v.predecessor
) SELECT ref, predecessor, link FROM v`

	chainDownSQL = `WITH RECURSIVE v(ref, predecessor, link) AS (
    SELECT n.ref, n.predecessor, n.link FROM {s}intent n INDEXED BY {i}intent_predecessor
    WHERE n.predecessor IS NOT NULL AND n.predecessor = ?
    UNION ALL
    SELECT n.ref, n.predecessor, n.link
    FROM v CROSS JOIN {s}intent n INDEXED BY {i}intent_predecessor ON n.predecessor IS NOT NULL AND n.predecessor = v.ref
) SELECT ref, predecessor, link FROM v`
)

// Chains follows predecessors and successors.
func (e *engine) Chains(ctx context.Context, refs []driver.ID) ([]driver.Chained, error) {
	var out []driver.Chained
	err := e.read(ctx, "chains", func(ctx context.Context, s *session) error {
		out = nil
		for _, ref := range refs {
			for _, statement := range []string{chainUpSQL, chainDownSQL} {
				err := s.query(ctx, statement, []any{ref[:]}, 3, func(v []any) (bool, error) {
					out = append(out, driver.Chained{
						Asked: ref, Ref: bytes16(v[0]), Predecessor: bytes16(v[1]), Link: driver.Link(whole(v[2])),
					})
					return true, nil
				})
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
	return out, err
}

// Logs returns attempt logs.
func (e *engine) Logs(ctx context.Context, refs []driver.ID) ([]driver.Logged, error) {
	var log []driver.Logged
	err := e.read(ctx, "logs", func(ctx context.Context, s *session) error {
		log = nil
		for _, ref := range refs {
			if err := s.history(ctx, ref, &log); err != nil {
				return err
			}
		}
		return nil
	})
	return log, err
}

const resolutionsSQL = `SELECT id, at, outcome, source, supersedes, made_by, evidence
FROM {s}resolution INDEXED BY {i}resolution_ref WHERE ref = ? ORDER BY at, rowid`

// Resolutions returns findings.
func (e *engine) Resolutions(ctx context.Context, refs []driver.ID) ([]driver.Resolution, error) {
	var out []driver.Resolution
	err := e.read(ctx, "resolutions", func(ctx context.Context, s *session) error {
		out = nil
		for _, ref := range refs {
			err := s.query(ctx, resolutionsSQL, []any{ref[:]}, 7, func(v []any) (bool, error) {
				out = append(out, driver.Resolution{
					ID: bytes16(v[0]), Ref: ref, At: instant(v[1]), Finding: driver.Finding(whole(v[2])),
					Source: driver.Source(whole(v[3])), Supersedes: bytes16(v[4]), By: text(v[5]), Evidence: text(v[6]),
				})
				return true, nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

const (
	auditColumns = `SELECT id, at, made_by, action, ref, run_id, reason, before, after FROM {s}audit `
	auditsSQL    = auditColumns + `WHERE id < ? ORDER BY id DESC LIMIT ?`
	auditsOfSQL  = auditColumns + `INDEXED BY {i}audit_ref WHERE ref IS NOT NULL AND id < ? AND ref = ? ORDER BY id DESC LIMIT ?`
)

// Audits returns audit rows, the newest first.
func (e *engine) Audits(ctx context.Context, r driver.AuditRequest) ([]driver.Audited, error) {
	var out []driver.Audited
	before := r.Before
	if before <= 0 {
		before = lastTime
	}
	statement, args := auditsSQL, []any{before, int64(r.Limit)}
	if r.Ref != (driver.ID{}) {
		statement, args = auditsOfSQL, []any{before, r.Ref[:], int64(r.Limit)}
	}
	err := e.read(ctx, "audits", func(ctx context.Context, s *session) error {
		out = nil
		return s.query(ctx, statement, args, 9, func(v []any) (bool, error) {
			out = append(out, driver.Audited{
				ID: whole(v[0]), At: instant(v[1]), By: text(v[2]), Action: text(v[3]), Ref: bytes16(v[4]), Run: bytes16(v[5]),
				Reason: text(v[6]), Before: text(v[7]), After: text(v[8]),
			})
			return true, nil
		})
	})
	return out, err
}

const pausesSQL = `SELECT profile, kind, at, made_by, reason FROM {s}pause ORDER BY profile, kind`

// Pauses returns all pauses.
func (e *engine) Pauses(ctx context.Context) ([]driver.Pause, error) {
	var out []driver.Pause
	err := e.read(ctx, "pauses", func(ctx context.Context, s *session) error {
		out = nil
		return s.query(ctx, pausesSQL, nil, 5, func(v []any) (bool, error) {
			out = append(out, driver.Pause{
				Profile: lifecycle.Profile(whole(v[0])), Kind: text(v[1]), At: instant(v[2]), By: text(v[3]), Reason: text(v[4]),
			})
			return true, nil
		})
	})
	return out, err
}
