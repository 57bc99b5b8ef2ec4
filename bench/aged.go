package bench

import (
	"context"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// agedSQL writes the deliveries number $1 to $2 of $3 as they are after their end,
// in the order in which they were made over the last 30 days. One in four is work of
// ten kinds, among them that of P1; messages went through ten channels. Of a thousand, 960
// were delivered, 36 failed or were cancelled, and the outcome of 4 is unknown:
// people still have to look at those. A subject has 100. One in twenty was redelivered
// by somebody. Where $4 is true they are open instead, and of the last day.
//
// Refs are made of their time as those of a program are, so that indexes grow where
// they grow in use. The runs of the work have no rows of their own, as in P1.
const agedSQL = `
WITH made AS (
    SELECT n, n % 4 = 0 AS work, CASE n / 4 % 10 WHEN 0 THEN 'ticket.notice' ELSE 'kind' || n / 4 % 10 END AS kind,
           at, lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') AS time, md5(n::text) AS tail,
           CASE WHEN $4 THEN 0
                WHEN n % 1000 < 4 THEN CASE WHEN n % 4 = 0 THEN 6 ELSE 4 END
                WHEN n % 1000 < 40 THEN CASE WHEN n % 4 = 0 THEN 5 ELSE 4 END
                ELSE 3 END AS status,
           NOT $4 AND n % 1000 < 4 AS unknown
    FROM (SELECT n, CASE WHEN $4 THEN now() - interval '1 day' * (1 - (n - $3::bigint) * 50.0 / $3)
                    ELSE now() - interval '30 days' * (1 - n::float8 / $3) END AS at
          FROM generate_series($1::bigint, $2::bigint) n) t
),
named AS MATERIALIZED (
    SELECT *, (time || CASE WHEN work THEN '8' ELSE '7' END || substr(tail, 1, 3) || '8' || substr(tail, 4, 15))::uuid AS ref,
           (time || '7' || substr(tail, 1, 3) || '9' || substr(tail, 4, 15))::uuid AS run,
           md5((n / 1000)::text)::uuid AS owner,
           sha256(convert_to(n::text, 'UTF8')) AS digest, sha256(convert_to(kind, 'UTF8')) AS fingerprint,
           '{"n":' || n || ',"text":"' || repeat('x', 84 - length(n::text)) || '"}' AS payload
    FROM made
),
intents AS (
    INSERT INTO consign.intent (ref, created_at, profile, kind, payload_digest, payload, address, subject,
        version, fingerprint, run_id, work_key, operation, actor, tenant, security_version, target, target_version)
    SELECT ref, at, CASE WHEN work THEN 1 ELSE 2 END, kind, sha256(convert_to(payload, 'UTF8')), payload,
           CASE WHEN NOT work THEN 'staff:' || n % 1000 END, 'subject ' || n / 100,
           CASE WHEN work THEN '1' END, CASE WHEN work THEN fingerprint END, CASE WHEN work THEN run END,
           CASE WHEN work THEN 'notice' END, CASE WHEN work THEN 'ticket.triage' END, CASE WHEN work THEN 'staff:' || n % 1000 END,
           CASE WHEN work THEN 'tenant:1' END, CASE WHEN work THEN 'v3' END, CASE WHEN work THEN 'ticket:' || n % 1000 END,
           CASE WHEN work THEN '4' END
    FROM named
),
attempts AS (
    INSERT INTO consign.attempt (ref, generation, number, outcome, at, started_at, error)
    SELECT ref, 1, 1, CASE WHEN unknown THEN 4 ELSE 3 END, at, at, 'connection reset' FROM named WHERE status > 3
),
audits AS (
    INSERT INTO consign.audit (at, made_by, action, ref, reason)
    SELECT at, 'ann', 'redeliver', ref, 'the far side is back' FROM named WHERE n % 20 = 0
)
INSERT INTO consign.delivery (ref, created_at, deadline, max_age_ms, lease_ms, timeout_ms, max_attempts, profile, retry, route,
    program, owner, generation, due_at, revision, updated_at, terminal, status, attempts, started_at, digest, uncertain, review_at, code)
SELECT ref, at, CASE WHEN work THEN at + interval '1 day' END, CASE WHEN work THEN 86400000 END, 60000, 30000,
       CASE WHEN work THEN 3 ELSE 8 END, CASE WHEN work THEN 1 ELSE 2 END, 2,
       CASE WHEN work THEN 'w:' || kind || ':' || substr(encode(fingerprint, 'hex'), 1, 16) ELSE 'm:' || kind END,
       CASE WHEN status > 0 THEN 'bench' END, CASE WHEN status > 0 THEN owner END, sign(status), CASE WHEN status = 0 THEN at END,
       3 * sign(status), at, NULLIF(status, 0), status, sign(status), CASE WHEN status > 0 THEN at END,
       CASE WHEN status > 0 THEN digest END, unknown, CASE WHEN unknown THEN at END,
       CASE WHEN unknown THEN 'OUTCOME_UNKNOWN' WHEN status = 5 THEN 'TARGET_UNAVAILABLE' WHEN status = 4 THEN 'REJECTED' END
FROM named`

// agedSuite returns a suite on a database of its own, on the same server, in which
// Config.Old deliveries have ended. It is made once.
func (s *Suite) agedSuite(ctx context.Context) (*Suite, error) {
	if s.aged != nil {
		return s.aged, nil
	}
	if _, err := s.meter.conn.Exec(ctx, "CREATE DATABASE aged"); err != nil {
		return nil, err
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	u.Path = "/aged"
	aged := &Suite{Config: s.Config, URL: u.String(), Trace: s.Trace}
	if err := aged.Open(ctx); err != nil {
		return nil, err
	}
	s.aged = aged
	return aged, aged.inPool(ctx, func(pool *pgxpool.Pool) error {
		if err := resetConsign(ctx, pool); err != nil {
			return err
		}
		return aged.age(ctx, pool, 0, s.Config.Old, false)
	})
}

// age writes n old deliveries, beginning with number first.
func (s *Suite) age(ctx context.Context, pool *pgxpool.Pool, first, n int, open bool) error {
	const part = 50_000
	write := func(ctx context.Context, i, n int) error {
		_, err := pool.Exec(ctx, agedSQL, first+i, first+i+n-1, s.Config.Old, open)
		return err
	}
	if err := inParts(ctx, n, s.Config.Inserters, part, write); err != nil {
		return err
	}
	if _, err := s.meter.conn.Exec(ctx, "VACUUM (ANALYZE)"); err != nil {
		return err
	}
	_, err := s.meter.conn.Exec(ctx, "CHECKPOINT")
	return err
}

// workAged is the work of P1 where many deliveries have ended already.
type workAged struct {
	work
	n     int
	since time.Time
}

// reset leaves everything where it is.
func (w *workAged) reset(ctx context.Context, pool *pgxpool.Pool) error {
	return pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&w.since)
}

func (w *workAged) left(ctx context.Context, pool *pgxpool.Pool) (n int, err error) {
	err = pool.QueryRow(ctx, "SELECT $1 - count(*) FROM consign.delivery WHERE profile = 1 AND terminal = 3 AND created_at >= $2",
		w.n, w.since).Scan(&n)
	return n, err
}

// onAged runs P8 once.
func (s *Suite) onAged(ctx context.Context, add func(Sample)) error {
	aged, err := s.agedSuite(ctx)
	if err != nil {
		return err
	}
	n := s.Config.N
	sample, err := aged.run(ctx, WorkAged, &workAged{work: work{s.Config, s.Config.Payload}, n: n}, n)
	if err == nil {
		add(sample)
	}
	return err
}
