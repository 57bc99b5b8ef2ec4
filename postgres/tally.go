package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Counts look at a bounded part of an index each: of every group one row more than
// is counted, which says whether there are others.
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
SELECT t.route, s.profile, s.terminal, count(*), count(*) FILTER (WHERE t.place > $3::bigint)
FROM unnest($1::smallint[], $2::smallint[]) AS s(profile, terminal)
CROSS JOIN LATERAL (
    SELECT d.route, row_number() OVER () AS place
    FROM (
        SELECT route
        FROM {s}delivery
        WHERE profile = s.profile AND terminal = s.terminal AND erased_at IS NULL
        ORDER BY created_at DESC, ref DESC
        LIMIT $3::bigint + 1
    ) d
) t
GROUP BY t.route, s.profile, s.terminal`

	tallyLoopsSQL = `
SELECT t.route, count(*), count(*) FILTER (WHERE t.place > $1::bigint)
FROM (
    SELECT d.route, row_number() OVER () AS place
    FROM (
        SELECT route
        FROM {s}delivery
        WHERE review_at IS NOT NULL AND status = 2
        ORDER BY review_at, ref
        LIMIT $1::bigint + 1
    ) d
) t
GROUP BY t.route`

	waitingSQL = `
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
	var profiles, ends numbers
	for _, p := range []lifecycle.Profile{lifecycle.Work, lifecycle.Message} {
		for _, s := range lifecycle.Statuses {
			if s.Terminal() {
				profiles, ends = append(profiles, int64(p)), append(ends, int64(s))
			}
		}
	}
	var out []driver.Tally
	capped := map[driver.Tally]bool{} // by what is looked through together
	add := func(t, group driver.Tally, over int64) {
		capped[group] = capped[group] || over > 0
		if t.N -= int(over); t.N > 0 {
			out = append(out, t)
		}
	}
	var route string
	var over int64
	t := driver.Tally{}
	if len(routes) > 0 {
		err = e.read(ctx, "tally open", e.q.tallyOpen, []any{routes, int64(limit)}, func(rows pgx.Rows) error {
			t = driver.Tally{Among: driver.Open}
			err := rows.Scan(&route, (*small[lifecycle.Status])(&t.Status), (*whole)(&t.N), &over)
			t.Profile, t.Kind = driver.KindOf(route)
			add(t, groupOf(&t), over)
			return err
		})
	}
	if err == nil {
		err = e.read(ctx, "tally ended", e.q.tallyEnded, []any{profiles, ends, int64(limit)}, func(rows pgx.Rows) error {
			t = driver.Tally{Among: driver.Ended}
			err := rows.Scan(&route, (*small[lifecycle.Profile])(&t.Profile), (*small[lifecycle.Status])(&t.Status), (*whole)(&t.N), &over)
			_, t.Kind = driver.KindOf(route)
			add(t, groupOf(&t), over)
			return err
		})
	}
	if err == nil {
		err = e.read(ctx, "tally in process", e.q.tallyLoops, []any{int64(limit)}, func(rows pgx.Rows) error {
			t = driver.Tally{Among: driver.InProcess, Status: lifecycle.Delivering}
			err := rows.Scan(&route, (*whole)(&t.N), &over)
			t.Profile, t.Kind = driver.KindOf(route)
			add(t, groupOf(&t), over)
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i].Capped = capped[groupOf(&out[i])]
	}
	return out, nil
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

// Waiting counts what waits for a person.
func (e *engine) Waiting(ctx context.Context, limit int) (driver.Waiting, error) {
	var n int64
	var oldest time.Time
	err := e.read(ctx, "waiting", e.q.waiting, []any{int64(limit)}, func(rows pgx.Rows) error {
		return rows.Scan(&n, (*instant)(&oldest))
	})
	return driver.Waiting{N: min(int(n), limit), Capped: int(n) > limit, Oldest: oldest}, err
}
