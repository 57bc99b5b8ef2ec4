package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

var _ driver.Registry = (*engine)(nil)

// registerSQL writes or renews the entry of a program, and removes what it served
// so far together with those who vanished.
const registerSQL = `
WITH entry AS (
    INSERT INTO {s}program AS p (id, name, started_at, heartbeat_at)
    VALUES ($1::uuid, $2::text, clock_timestamp(), clock_timestamp())
    ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name, heartbeat_at = EXCLUDED.heartbeat_at
),
dead AS (
    DELETE FROM {s}program WHERE id <> $1::uuid AND heartbeat_at < clock_timestamp() - interval '1 day'
)
DELETE FROM {s}program_route WHERE program_id = $1::uuid`

// servesSQL writes what the program serves from now on.
const servesSQL = `
INSERT INTO {s}program_route (program_id, profile, kind, version, fingerprint, upgrades,
    retry, idempotent, max_attempts, lease_ms, timeout_ms, max_age_ms)
SELECT $1::uuid, r.profile, r.kind, COALESCE(r.version, ''), r.fingerprint, r.upgrades <> 0,
       r.retry, r.idempotent <> 0, NULLIF(r.max_attempts, 0), NULLIF(r.lease_ms, 0), NULLIF(r.timeout_ms, 0),
       NULLIF(r.max_age_ms, 0)
FROM unnest($2::smallint[], $3::text[], $4::text[], $5::bytea[], $6::smallint[],
            $7::smallint[], $8::smallint[], $9::integer[], $10::integer[], $11::integer[], $12::bigint[])
     AS r(profile, kind, version, fingerprint, upgrades,
          retry, idempotent, max_attempts, lease_ms, timeout_ms, max_age_ms)`

// Register writes or renews the entry of p.
func (e *engine) Register(ctx context.Context, p driver.Program) error {
	n := len(p.Serves)
	profiles, upgrades, kinds := make(numbers, n), make(numbers, n), make(texts, n)
	versions, fingerprints := make(texts, n), make(blobs, n)
	var contracts contractColumns
	contracts.grow(n)
	for i := range p.Serves {
		s := &p.Serves[i]
		profiles[i], kinds[i], versions[i] = int64(s.Profile), s.Kind, s.Version
		if s.Fingerprint != ([32]byte{}) {
			fingerprints[i] = s.Fingerprint[:]
		}
		if s.Upgrade {
			upgrades[i] = 1
		}
		contracts.set(i, &s.Contract)
	}
	return e.inside(ctx, "register", func(tx pgx.Tx) error {
		if err := query(ctx, tx, e.q.register, []any{uuid(p.ID), p.Name}, nothing); err != nil || n == 0 {
			return err
		}
		return query(ctx, tx, e.q.serves, append([]any{uuid(p.ID), profiles, kinds, versions, fingerprints, upgrades}, contracts.args(n)...), nothing)
	})
}

// unregisterSQL removes an entry; what it serves goes with it.
const unregisterSQL = `DELETE FROM {s}program WHERE id = $1::uuid`

// Unregister removes the entry of id.
func (e *engine) Unregister(ctx context.Context, id driver.ID) error {
	return e.write(ctx, "unregister", e.q.unregister, []any{uuid(id)}, nothing)
}

// servingSQL lists what programs serve that gave a sign of life lately.
const servingSQL = `
SELECT DISTINCT r.profile, r.kind, r.version, r.fingerprint, r.upgrades,
       r.retry, r.idempotent, r.max_attempts, r.lease_ms, r.timeout_ms, r.max_age_ms
FROM {s}program p JOIN {s}program_route r ON r.program_id = p.id
WHERE p.heartbeat_at > clock_timestamp() - $1::bigint * interval '1 microsecond'`

// Serving returns what live programs serve.
func (e *engine) Serving(ctx context.Context, within time.Duration) ([]driver.Serves, error) {
	var list []driver.Serves
	err := e.read(ctx, "serving", e.q.serving, []any{within.Microseconds()}, func(rows pgx.Rows) error {
		var s driver.Serves
		c := &s.Contract
		err := rows.Scan((*small[lifecycle.Profile])(&s.Profile), &s.Kind, &s.Version, (*hash)(&s.Fingerprint), &s.Upgrade,
			(*small[lifecycle.RetryOwner])(&c.Retry), &c.Idempotent, (*whole)(&c.MaxAttempts), (*millis)(&c.Lease),
			(*millis)(&c.Timeout), (*millis)(&c.MaxAge))
		list = append(list, s)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}
