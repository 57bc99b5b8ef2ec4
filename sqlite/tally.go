package sqlite

import (
	"context"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Counts look at a bounded part of an index each. One row more than is counted says
// whether there are others. What does not count (what was erased, or waits in review
// and is no loop) is looked at too, or much of it could make a count long.
const (
	tallyOpenSQL = `SELECT t.status, true, count(*), sum(t.place > ?1) FROM (
    SELECT d.status, row_number() OVER () AS place FROM {s}delivery d INDEXED BY {i}delivery_due
    WHERE d.route = ?2 AND d.due_at IS NOT NULL LIMIT ?1 + 1
) t GROUP BY t.status`

	tallyEndedSQL = `SELECT t.route, t.counts, count(*), sum(t.place > ?1) FROM (
    SELECT d.route, d.counts, row_number() OVER () AS place FROM (
        SELECT d.route, d.erased_at IS NULL AS counts FROM {s}delivery d INDEXED BY {i}delivery_terminal
        WHERE d.profile = ?2 AND d.terminal = ?3
        ORDER BY d.created_at DESC, d.ref DESC LIMIT ?1 + 1
    ) d
) t GROUP BY t.route, t.counts`

	tallyLoopsSQL = `SELECT t.route, t.counts, count(*), sum(t.place > ?1) FROM (
    SELECT d.route, d.status = 2 AS counts, row_number() OVER () AS place FROM {s}delivery d INDEXED BY {i}delivery_review
    WHERE d.review_at IS NOT NULL LIMIT ?1 + 1
) t GROUP BY t.route, t.counts`

	inReviewSQL = `SELECT count(*), min(t.review_at) FROM (
    SELECT d.review_at FROM {s}delivery d INDEXED BY {i}delivery_review
    WHERE d.review_at IS NOT NULL AND d.review_at <= {now} ORDER BY d.review_at LIMIT ? + 1
) t`
)

// Tallies counts by part, profile, status and kind.
func (e *engine) Tallies(ctx context.Context, limit int) ([]driver.Tally, error) {
	routes, err := e.Routes(ctx)
	if err != nil {
		return nil, err
	}
	var out []driver.Tally
	err = e.read(ctx, "tallies", func(ctx context.Context, s *session) error {
		out = nil
		for _, r := range routes {
			p, kind := driver.KindOf(r.Route)
			err := s.tally(ctx, &out, tallyOpenSQL, []any{int64(limit), r.Route}, func(v any) driver.Tally {
				return driver.Tally{Among: driver.Open, Profile: p, Kind: kind, Status: lifecycle.Status(whole(v))}
			})
			if err != nil {
				return err
			}
		}
		for _, p := range []lifecycle.Profile{lifecycle.Work, lifecycle.Message} {
			for _, status := range lifecycle.Statuses {
				if !status.Terminal() {
					continue
				}
				err := s.tally(ctx, &out, tallyEndedSQL, []any{int64(limit), int64(p), int64(status)}, func(v any) driver.Tally {
					_, kind := driver.KindOf(text(v))
					return driver.Tally{Among: driver.Ended, Profile: p, Kind: kind, Status: status}
				})
				if err != nil {
					return err
				}
			}
		}
		return s.tally(ctx, &out, tallyLoopsSQL, []any{int64(limit)}, func(v any) driver.Tally {
			p, kind := driver.KindOf(text(v))
			return driver.Tally{Among: driver.InProcess, Profile: p, Kind: kind, Status: lifecycle.Delivering}
		})
	})
	return out, err
}

// tally adds the groups of one statement.
func (s *session) tally(ctx context.Context, out *[]driver.Tally, statement string, args []any, of func(v any) driver.Tally) error {
	var groups []driver.Tally
	capped := false
	err := s.query(ctx, statement, args, 4, func(v []any) (bool, error) {
		t, over := of(v[0]), whole(v[3])
		t.N = int(whole(v[2]) - over)
		capped = capped || over > 0
		if t.N > 0 && whole(v[1]) == 1 {
			groups = append(groups, t)
		}
		return true, nil
	})
	for i := range groups {
		groups[i].Capped = capped
	}
	*out = append(*out, groups...)
	return err
}

// InReview counts what waits for a person.
func (e *engine) InReview(ctx context.Context, limit int) (driver.InReview, error) {
	var w driver.InReview
	err := e.read(ctx, "in review", func(ctx context.Context, s *session) error {
		return s.query(ctx, inReviewSQL, []any{int64(limit)}, 2, func(v []any) (bool, error) {
			n := int(whole(v[0]))
			w = driver.InReview{N: min(n, limit), Capped: n > limit, Oldest: instant(v[1])}
			return false, nil
		})
	})
	return w, err
}
