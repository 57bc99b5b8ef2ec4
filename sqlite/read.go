package sqlite

import (
	"context"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// ofContent joins what an erasure may have removed.
const ofContent = ` LEFT JOIN {s}intent i INDEXED BY sqlite_autoindex_{s}intent_1 ON i.ref = d.ref`

// loadSQL reads everything about some deliveries.
const loadSQL = `SELECT ` + stateColumns + `, ` + intentColumns + `, d.started_at, d.updated_at, d.review_at, d.erased_at, d.program, d.last_error,
    i.ref IS NULL` + byRef + ofContent + ` WHERE true` + ofRefs

const loadWidth = stateWidth + intentWidth + 7

// Load returns the records of refs that exist.
func (e *engine) Load(ctx context.Context, refs []driver.ID) ([]driver.Record, error) {
	var records []driver.Record
	err := e.read(ctx, "load", func(ctx context.Context, s *session) error {
		records = nil
		now, err := s.now(ctx)
		if err != nil {
			return err
		}
		return s.queryRefs(ctx, loadSQL, []any{now}, refs, loadWidth, func(v []any) error {
			row, rest := readState(v), v[stateWidth+intentWidth:]
			r := driver.Record{
				Intent: driver.Intent{Ref: row.ref}, State: row.at(now),
				DueAt: instant(row.dueAt), LeaseUntil: instant(row.leaseUntil), Deadline: instant(row.deadlineAt),
				StartedAt: instant(rest[0]), UpdatedAt: instant(rest[1]), ReviewAt: instant(rest[2]), ErasedAt: instant(rest[3]),
				Program: text(rest[4]), LastError: text(rest[5]),
			}
			var err error
			if whole(rest[6]) == 0 {
				r.Intent, err = readIntent(v[stateWidth:], row.ref, row.state.Profile)
			}
			records = append(records, r)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return records, nil
}

const historySQL = `SELECT generation, number, late, outcome, http_status, wait_ms, started_at, at, code, error, proof
FROM {s}attempt WHERE ref = ? ORDER BY at, generation, number, late`

// History returns the attempt log of ref, oldest first.
func (e *engine) History(ctx context.Context, ref driver.ID) ([]driver.Logged, error) {
	var log []driver.Logged
	err := e.read(ctx, "history", func(ctx context.Context, s *session) error {
		log = nil
		return s.history(ctx, ref, &log)
	})
	if err != nil {
		return nil, err
	}
	return log, nil
}

// history adds the attempt log of ref.
func (s *session) history(ctx context.Context, ref driver.ID, log *[]driver.Logged) error {
	return s.query(ctx, historySQL, []any{ref[:]}, 11, func(v []any) (bool, error) {
		*log = append(*log, driver.Logged{
			Ref: ref, StartedAt: instant(v[6]), At: instant(v[7]),
			Attempt: lifecycle.Attempt{
				Generation: whole(v[0]), Number: int(whole(v[1])), Late: whole(v[2]) == 1,
				Outcome: lifecycle.Outcome(whole(v[3])), HTTPStatus: int(whole(v[4])), Wait: duration(v[5]),
				Code: lifecycle.Code(text(v[8])), Error: text(v[9]), Proof: text(v[10]),
			},
		})
		return true, nil
	})
}

// routesSQL steps from route to route through the due index, and looks up the first
// row of each.
const routesSQL = `WITH RECURSIVE r(route) AS (
    SELECT min(d.route) FROM {s}delivery d INDEXED BY {i}delivery_due WHERE d.due_at IS NOT NULL
    UNION ALL
    SELECT (SELECT min(d.route) FROM {s}delivery d INDEXED BY {i}delivery_due WHERE d.due_at IS NOT NULL AND d.route > r.route)
    FROM r WHERE r.route IS NOT NULL
)
SELECT r.route, d.profile, d.due_at, i.kind, i.version, i.fingerprint
FROM r CROSS JOIN {s}delivery d INDEXED BY sqlite_autoindex_{s}delivery_1
    ON d.ref = (SELECT f.ref FROM {s}delivery f INDEXED BY {i}delivery_due
                WHERE f.route = r.route AND f.due_at IS NOT NULL ORDER BY f.due_at, f.ref LIMIT 1)` + ofContent + `
WHERE r.route IS NOT NULL`

// Routes returns the routes of the due index, by name.
func (e *engine) Routes(ctx context.Context) ([]driver.Route, error) {
	var routes []driver.Route
	err := e.read(ctx, "routes", func(ctx context.Context, s *session) error {
		routes = nil
		return s.query(ctx, routesSQL, nil, 6, func(v []any) (bool, error) {
			routes = append(routes, driver.Route{
				Route: text(v[0]), Profile: lifecycle.Profile(whole(v[1])), OldestDue: instant(v[2]),
				Kind: text(v[3]), Version: text(v[4]), Fingerprint: bytes32(v[5]),
			})
			return true, nil
		})
	})
	if err != nil {
		return nil, err
	}
	return routes, nil
}

const runSQL = `SELECT operation, actor, tenant, security_version, target, target_version, subject, input_digest, approval_id,
    receipt, work, created_at, sealed_at
FROM {s}run INDEXED BY sqlite_autoindex_{s}run_1 WHERE id = ? AND sealed_at IS NOT NULL`

// Run returns a run that was sealed.
func (e *engine) Run(ctx context.Context, id driver.ID) (driver.Run, bool, error) {
	var r driver.Run
	found := false
	err := e.read(ctx, "run", func(ctx context.Context, s *session) error {
		return s.query(ctx, runSQL, []any{id[:]}, 13, func(v []any) (bool, error) {
			found = true
			r = driver.Run{
				ID: id, Operation: text(v[0]), Actor: text(v[1]), Tenant: text(v[2]), SecurityVersion: text(v[3]),
				Target: text(v[4]), TargetVersion: text(v[5]), Subject: text(v[6]), InputDigest: bytes32(v[7]),
				Approval: bytes16(v[8]), CreatedAt: instant(v[11]), SealedAt: instant(v[12]),
			}
			if v[9] != nil {
				r.Receipt = []byte(text(v[9]))
			}
			work, _ := v[10].([]byte)
			r.ReadWork(work)
			return false, nil
		})
	})
	if err != nil {
		return driver.Run{}, false, err
	}
	return r, found, nil
}
