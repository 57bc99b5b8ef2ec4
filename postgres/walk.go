package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// overdueSQL looks at a bounded stretch of the due index, across all routes, and
// returns of it what is over, and the last row if there is more to look at. That
// one may not be over; it says where to go on. Of all others it reads three columns.
const overdueSQL = `
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at),
walk AS MATERIALIZED (
    SELECT ref, deadline <= (SELECT at FROM clock) OR lease_until <= (SELECT at FROM clock) AS over
    FROM {s}delivery
    WHERE due_at IS NOT NULL
      AND (route, due_at, ref) > ($1::text, $2::timestamptz, $3::uuid)
    ORDER BY route, due_at, ref
    LIMIT $4::bigint + 1
),
beyond AS MATERIALIZED (SELECT ref FROM walk OFFSET $4::bigint),
last AS MATERIALIZED (SELECT ref FROM walk WHERE EXISTS (SELECT FROM beyond) OFFSET $4::bigint - 1 LIMIT 1)
SELECT ` + stateColumns + `, ` + gateSQL + `, d.route, d.ref IS NOT DISTINCT FROM (SELECT ref FROM last)
FROM walk w
JOIN {s}delivery d ON d.ref BETWEEN w.ref AND w.ref
WHERE (w.over OR w.ref = (SELECT ref FROM last))
  AND w.ref IS DISTINCT FROM (SELECT ref FROM beyond)
ORDER BY d.route, d.due_at, d.ref`

// Overdue walks the open deliveries.
func (e *engine) Overdue(ctx context.Context, r driver.OverdueRequest) ([]driver.Overdue, driver.Cursor, error) {
	limit := int64(r.Limit)
	if limit <= 0 {
		limit = 1000
	}
	after := any("-infinity")
	if !r.After.DueAt.IsZero() {
		after = moment(r.After.DueAt)
	}
	var over []driver.Overdue
	var next driver.Cursor
	var route string
	var last bool
	row := newStateRow(&route, &last)
	args := []any{r.After.Route, after, r.After.Ref.String(), limit}
	err := e.read(ctx, "overdue", e.q.overdue, args, func(rows pgx.Rows) error {
		if err := row.scan(rows); err != nil {
			return err
		}
		if s := row.state(); s.DeadlineLeft <= 0 || !row.leaseUntil.IsZero() && s.LeaseLeft <= 0 {
			over = append(over, driver.Overdue{Ref: row.ref, Route: route, State: s})
		}
		if last {
			next = driver.Cursor{Route: route, Position: driver.Position{DueAt: row.dueAt, Ref: row.ref}}
		}
		return nil
	})
	if err != nil {
		return nil, driver.Cursor{}, err
	}
	return over, next, nil
}

// routesSQL jumps from route to route in the due index, one look each, instead of
// reading every open delivery to find a handful of names.
const routesSQL = `
WITH RECURSIVE first AS (
    (SELECT route, due_at, ref
     FROM {s}delivery
     WHERE due_at IS NOT NULL
     ORDER BY route, due_at, ref
     LIMIT 1)
    UNION ALL
    SELECT n.route, n.due_at, n.ref
    FROM first f CROSS JOIN LATERAL (
        SELECT route, due_at, ref
        FROM {s}delivery
        WHERE due_at IS NOT NULL AND route > f.route
        ORDER BY route, due_at, ref
        LIMIT 1
    ) n
)
SELECT f.route, f.due_at, i.profile, i.kind, i.version, i.fingerprint
FROM first f CROSS JOIN LATERAL (SELECT * FROM {s}intent i WHERE i.ref = f.ref OFFSET 0) i`

// Routes returns every route with open deliveries.
func (e *engine) Routes(ctx context.Context) ([]driver.Route, error) {
	var routes []driver.Route
	err := e.read(ctx, "routes", e.q.routes, nil, func(rows pgx.Rows) error {
		var r driver.Route
		err := rows.Scan(&r.Route, (*instant)(&r.OldestDue), (*small[lifecycle.Profile])(&r.Profile),
			&r.Kind, (*words[string])(&r.Version), (*hash)(&r.Fingerprint))
		routes = append(routes, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	return routes, nil
}
