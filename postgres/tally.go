package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Counts look at a bounded part of an index each: of every group one row more than
// is counted, which says whether there are others. What does not count (what was
// erased, or waits in review and is no loop) is looked at too, or much of it could
// make a count long.
const (
	tallyOpenSQL = `
SELECT r.route, t.status, count(*), count(*) FILTER (WHERE t.place > $2::bigint)
FROM unnest($1::text[]) AS r(route)
CROSS JOIN LATERAL (
    SELECT d.status, row_number() OVER () AS place
    FROM (
        SELECT status
        FROM {s}delivery
        WHERE route = r.route AND due_at IS NOT NULL
        ORDER BY due_at, ref
        LIMIT $2::bigint + 1
    ) d
) t
GROUP BY r.route, t.status`

	tallyEndedSQL = `
SELECT t.route, s.profile, s.terminal, t.counts, count(*), count(*) FILTER (WHERE t.place > $3::bigint)
FROM unnest($1::smallint[], $2::smallint[]) AS s(profile, terminal)
CROSS JOIN LATERAL (
    SELECT d.route, d.counts, row_number() OVER () AS place
    FROM (
        SELECT route, erased_at IS NULL AS counts
        FROM {s}delivery
        WHERE profile = s.profile AND terminal = s.terminal
        ORDER BY created_at DESC, ref DESC
        LIMIT $3::bigint + 1
    ) d
) t
GROUP BY t.route, s.profile, s.terminal, t.counts`

	tallyLoopsSQL = `
SELECT t.route, t.counts, count(*), count(*) FILTER (WHERE t.place > $1::bigint)
FROM (
    SELECT d.route, d.counts, row_number() OVER () AS place
    FROM (
        SELECT route, status = 2 AS counts
        FROM {s}delivery
        WHERE review_at IS NOT NULL
        ORDER BY review_at, ref
        LIMIT $1::bigint + 1
    ) d
) t
GROUP BY t.route, t.counts`

	inReviewSQL = `
SELECT count(*), min(d.review_at)
FROM (
    SELECT review_at
    FROM {s}delivery
    WHERE review_at IS NOT NULL AND review_at <= (SELECT clock_timestamp())
    ORDER BY review_at, ref
    LIMIT $1::bigint + 1
) d`
)

// Tallies counts by part, profile, status and kind.
func (e *engine) Tallies(ctx context.Context, limit int) ([]driver.Tally, error) {
	open, err := e.Routes(ctx)
	if err != nil {
		return nil, err
	}
	routes := make(texts, len(open))
	for i := range open {
		routes[i] = open[i].Route
	}
	profiles, ended := ends()
	c := counting{capped: map[driver.Tally]bool{}}
	var n, over int64
	var route string
	var counts bool
	if len(routes) > 0 {
		err = e.read(ctx, "tally open", e.q.tallyOpen, []any{routes, int64(limit)}, func(rows pgx.Rows) error {
			t := driver.Tally{Among: driver.Open}
			err := rows.Scan(&route, (*small[lifecycle.Status])(&t.Status), &n, &over)
			c.add(t, route, true, n, over)
			return err
		})
	}
	if err == nil {
		err = e.read(ctx, "tally ended", e.q.tallyEnded, []any{profiles, ended, int64(limit)}, func(rows pgx.Rows) error {
			t := driver.Tally{Among: driver.Ended}
			err := rows.Scan(&route, (*small[lifecycle.Profile])(&t.Profile), (*small[lifecycle.Status])(&t.Status), &counts, &n, &over)
			c.add(t, route, counts, n, over)
			return err
		})
	}
	if err == nil {
		err = e.read(ctx, "tally in process", e.q.tallyLoops, []any{int64(limit)}, func(rows pgx.Rows) error {
			err := rows.Scan(&route, &counts, &n, &over)
			c.add(driver.Tally{Among: driver.InProcess, Status: lifecycle.Delivering}, route, counts, n, over)
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	return c.tallies(), nil
}

// counting puts counts together.
type counting struct {
	list   []driver.Tally
	capped map[driver.Tally]bool // by what was looked through together
}

// add adds n deliveries, of which over are beyond the limit.
func (c *counting) add(t driver.Tally, route string, counts bool, n, over int64) {
	t.Profile, t.Kind = driver.KindOf(route)
	group := groupOf(&t)
	c.capped[group] = c.capped[group] || over > 0
	if t.N = int(n - over); t.N > 0 && counts {
		c.list = append(c.list, t)
	}
}

func (c *counting) tallies() []driver.Tally {
	for i := range c.list {
		c.list[i].Capped = c.capped[groupOf(&c.list[i])]
	}
	return c.list
}

// groupOf is what t was looked through together with.
func groupOf(t *driver.Tally) driver.Tally {
	switch t.Among {
	case driver.Open:
		return driver.Tally{Among: t.Among, Profile: t.Profile, Kind: t.Kind}
	case driver.Ended:
		return driver.Tally{Among: t.Among, Profile: t.Profile, Status: t.Status}
	}
	return driver.Tally{Among: t.Among}
}

// InReview counts what waits for a person.
func (e *engine) InReview(ctx context.Context, limit int) (driver.InReview, error) {
	var n int64
	var oldest time.Time
	err := e.read(ctx, "in review", e.q.inReview, []any{int64(limit)}, func(rows pgx.Rows) error {
		return rows.Scan(&n, (*instant)(&oldest))
	})
	return driver.InReview{N: min(int(n), limit), Capped: int(n) > limit, Oldest: oldest}, err
}
