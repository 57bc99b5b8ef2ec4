package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// What people look at. Each statement walks along the index that it was written
// for and reads a bounded part of it, whatever the tables hold.

const reviewSQL = `
SELECT d.review_at, d.ref
FROM {s}delivery d
WHERE d.review_at IS NOT NULL AND d.review_at <= (SELECT clock_timestamp())
  AND (d.review_at, d.ref) > ($1::timestamptz, $2::uuid)
ORDER BY d.review_at, d.ref
LIMIT $3::bigint`

// Review returns what waits for a person.
func (e *engine) Review(ctx context.Context, after driver.Place, limit int) ([]driver.Place, error) {
	var places []driver.Place
	args := []any{since(after.At), after.Ref.String(), int64(limit)}
	err := e.read(ctx, "review", e.q.review, args, func(rows pgx.Rows) error {
		var p driver.Place
		err := rows.Scan((*instant)(&p.At), (*id)(&p.Ref))
		places = append(places, p)
		return err
	})
	return places, err
}

// since is t as a parameter; the zero time is before all others.
func since(t time.Time) any {
	if t.IsZero() {
		return "-infinity"
	}
	return moment(t)
}

// Each walk hands out where a row is and what decides whether it matches.
const (
	walkColumns = `d.ref, d.route, d.status, d.code, d.created_at, d.erased_at IS NOT NULL`

	walkOpenSQL = `
SELECT d.due_at, ` + walkColumns + `
FROM {s}delivery d
WHERE d.due_at IS NOT NULL AND d.route < $1::text AND (d.route, d.due_at, d.ref) > ($2::text, $3::timestamptz, $4::uuid)
ORDER BY d.route, d.due_at, d.ref
LIMIT $5::bigint`

	walkLoopsSQL = `
SELECT d.review_at, ` + walkColumns + `
FROM {s}delivery d
WHERE d.review_at IS NOT NULL AND (d.review_at, d.ref) > ($1::timestamptz, $2::uuid)
ORDER BY d.review_at, d.ref
LIMIT $3::bigint`

	walkEndedSQL = `
SELECT d.created_at, ` + walkColumns + `
FROM {s}delivery d
WHERE d.profile = $1::smallint AND d.terminal = $2::smallint AND d.created_at >= $3::timestamptz
  AND (d.created_at, d.ref) < ($4::timestamptz, $5::uuid)
ORDER BY d.created_at DESC, d.ref DESC
LIMIT $6::bigint`

	// The refs of a subject are collected first. With a limit right there, the planner
	// would walk the primary key in the wanted order and look through all of it.
	walkSubjectSQL = `
SELECT NULL::timestamptz, ` + walkColumns + `
FROM (
    SELECT u.ref
    FROM unnest(ARRAY(SELECT i.ref FROM {s}intent i WHERE i.subject = $1::text)) AS u(ref)
    WHERE u.ref > $2::uuid
    ORDER BY u.ref
    LIMIT $3::bigint
) u
JOIN {s}delivery d ON d.ref BETWEEN u.ref AND u.ref`
)

// walkArgs returns the statement of a walk with its arguments.
func (e *engine) walkArgs(r *driver.WalkRequest) (string, []any) {
	limit := int64(r.Limit) + 1
	after := r.After
	switch r.Among {
	case driver.Open:
		low, high := driver.RouteRange(r.Profile, r.Kind)
		if after == (driver.Place{}) {
			after.Route = low
		}
		return e.q.walkOpen, []any{high, after.Route, since(after.At), after.Ref.String(), limit}
	case driver.InProcess:
		return e.q.walkLoops, []any{since(after.At), after.Ref.String(), limit}
	case driver.OfSubject:
		return e.q.walkSubject, []any{r.Subject, after.Ref.String(), limit}
	}
	before := any("infinity")
	switch {
	case after != (driver.Place{}):
		before = moment(after.At)
	case !r.Before.IsZero():
		before = moment(r.Before) // with the smallest ref: what was created at that very time does not count
	}
	return e.q.walkEnded, []any{int64(r.Profile), int64(r.Statuses[0]), since(r.From), before, after.Ref.String(), limit}
}

// Walk looks along one of the indexes.
func (e *engine) Walk(ctx context.Context, r driver.WalkRequest) (found []driver.Place, next driver.Place, err error) {
	var last driver.Place
	looked := 0
	sql, args := e.walkArgs(&r)
	err = e.read(ctx, "walk", sql, args, func(rows pgx.Rows) error {
		if looked == r.Limit {
			next = last
			return nil
		}
		looked++
		last = driver.Place{}
		var route string
		var status lifecycle.Status
		var code lifecycle.Code
		var created time.Time
		var erased bool
		err := rows.Scan((*instant)(&last.At), (*id)(&last.Ref), &route, (*small[lifecycle.Status])(&status),
			(*words[lifecycle.Code])(&code), (*instant)(&created), &erased)
		if r.Among == driver.Open {
			last.Route = route
		}
		if erased || r.Among == driver.InProcess && status != lifecycle.Delivering {
			return err
		}
		if r.Matches(route, status, code, created) {
			found = append(found, last)
		}
		return err
	})
	if err != nil {
		return nil, driver.Place{}, err
	}
	return found, next, nil
}

// chainsSQL follows predecessors by primary key and successors by their index. The
// second half leaves the intent itself to the first.
const chainsSQL = `
WITH RECURSIVE up AS (
    SELECT a.ref AS asked, i.ref, i.predecessor, i.link
    FROM unnest($1::uuid[]) AS a(ref) JOIN {s}intent i ON i.ref BETWEEN a.ref AND a.ref
    UNION ALL
    SELECT up.asked, i.ref, i.predecessor, i.link
    FROM up JOIN {s}intent i ON i.ref BETWEEN up.predecessor AND up.predecessor
),
down AS (
    SELECT a.ref AS asked, i.ref, i.predecessor, i.link
    FROM unnest($1::uuid[]) AS a(ref)
    CROSS JOIN LATERAL (SELECT * FROM {s}intent p WHERE p.predecessor = a.ref LIMIT 1) i
    UNION ALL
    SELECT down.asked, i.ref, i.predecessor, i.link
    FROM down CROSS JOIN LATERAL (SELECT * FROM {s}intent p WHERE p.predecessor = down.ref LIMIT 1) i
)
SELECT asked, ref, predecessor, link FROM up
UNION ALL
SELECT asked, ref, predecessor, link FROM down`

// Chains follows predecessors and successors.
func (e *engine) Chains(ctx context.Context, refs []driver.ID) ([]driver.Chained, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	var out []driver.Chained
	err := e.read(ctx, "chains", e.q.chains, []any{uuids(refs)}, func(rows pgx.Rows) error {
		var c driver.Chained
		err := rows.Scan((*id)(&c.Asked), (*id)(&c.Ref), (*id)(&c.Predecessor), (*small[driver.Link])(&c.Link))
		out = append(out, c)
		return err
	})
	return out, err
}

// logsSQL reads the logs of some deliveries by the head of the primary key.
const logsSQL = `
SELECT ref, generation, number, late, outcome, http_status, wait_ms, started_at, at, code, error, proof
FROM {s}attempt
WHERE ref = ANY ($1::uuid[])
ORDER BY at, generation, number, late`

// Logs returns attempt logs.
func (e *engine) Logs(ctx context.Context, refs []driver.ID) ([]driver.Logged, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	var log []driver.Logged
	err := e.read(ctx, "logs", e.q.logs, []any{uuids(refs)}, func(rows pgx.Rows) error {
		var l driver.Logged
		err := rows.Scan((*id)(&l.Ref), &l.Generation, (*whole)(&l.Number), &l.Late, (*small[lifecycle.Outcome])(&l.Outcome),
			(*whole)(&l.HTTPStatus), (*millis)(&l.Wait), (*instant)(&l.StartedAt), (*instant)(&l.At),
			(*words[lifecycle.Code])(&l.Code), (*words[string])(&l.Error), (*words[string])(&l.Proof))
		log = append(log, l)
		return err
	})
	return log, err
}

// resolutionsSQL reads findings by ref. Two of one ref are never made at the same
// instant: each changes the delivery's revision.
const resolutionsSQL = `
SELECT r.id, r.ref, r.at, r.outcome, r.source, r.supersedes, r.made_by, r.evidence
FROM unnest($1::uuid[]) AS a(ref)
CROSS JOIN LATERAL (SELECT * FROM {s}resolution WHERE ref = a.ref ORDER BY ref, at) r`

// Resolutions returns findings.
func (e *engine) Resolutions(ctx context.Context, refs []driver.ID) ([]driver.Resolution, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	var out []driver.Resolution
	err := e.read(ctx, "resolutions", e.q.resolutions, []any{uuids(refs)}, func(rows pgx.Rows) error {
		var r driver.Resolution
		err := rows.Scan((*id)(&r.ID), (*id)(&r.Ref), (*instant)(&r.At), (*small[driver.Finding])(&r.Finding),
			(*small[driver.Source])(&r.Source), (*id)(&r.Supersedes), &r.By, (*words[string])(&r.Evidence))
		out = append(out, r)
		return err
	})
	return out, err
}

const (
	auditColumns = `
SELECT id, at, made_by, action, ref, run_id, reason, before, after
FROM {s}audit`

	auditsSQL = auditColumns + `
WHERE id < $1::bigint
ORDER BY id DESC
LIMIT $2::bigint`

	auditsOfSQL = auditColumns + `
WHERE ref = $1::uuid AND id < $2::bigint
ORDER BY ref DESC, id DESC
LIMIT $3::bigint`
)

// Audits returns audit rows, the newest first.
func (e *engine) Audits(ctx context.Context, r driver.AuditRequest) ([]driver.Audited, error) {
	before := r.Before
	if before <= 0 {
		before = 1<<63 - 1
	}
	sql, args := e.q.audits, []any{before, int64(r.Limit)}
	if r.Ref != (driver.ID{}) {
		sql, args = e.q.auditsOf, []any{uuid(r.Ref), before, int64(r.Limit)}
	}
	var out []driver.Audited
	err := e.read(ctx, "audits", sql, args, func(rows pgx.Rows) error {
		var a driver.Audited
		err := rows.Scan(&a.ID, (*instant)(&a.At), &a.By, &a.Action, (*id)(&a.Ref), (*id)(&a.Run),
			(*words[string])(&a.Reason), (*words[string])(&a.Before), (*words[string])(&a.After))
		out = append(out, a)
		return err
	})
	return out, err
}

const pausesSQL = `SELECT profile, kind, at, made_by, reason FROM {s}pause ORDER BY profile, kind`

// Pauses returns all pauses.
func (e *engine) Pauses(ctx context.Context) ([]driver.Pause, error) {
	var out []driver.Pause
	err := e.read(ctx, "pauses", e.q.pauses, nil, func(rows pgx.Rows) error {
		var p driver.Pause
		err := rows.Scan((*small[lifecycle.Profile])(&p.Profile), &p.Kind, (*instant)(&p.At), &p.By, (*words[string])(&p.Reason))
		out = append(out, p)
		return err
	})
	return out, err
}
