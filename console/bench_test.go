package console

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/pgtest"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/postgres"
)

// fill makes deliveries of the last 30 days: of a thousand, 20 are open, 4 wait for a
// person, some failed or were cancelled, and the others were delivered. One in four is
// work of ten kinds; messages go through ten channels. Subjects have 100 each.
const fill = `
WITH made AS (
    SELECT n, gen_random_uuid() AS run, n %% 4 = 0 AS work, 'kind' || n / 4 %% 10 AS kind,
           lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') AS head, at,
           CASE WHEN n %% 1000 < 20 THEN 0
                WHEN n %% 1000 < 24 THEN CASE WHEN n %% 4 = 0 THEN 6 ELSE 4 END
                WHEN n %% 1000 < 60 THEN CASE WHEN n %% 4 = 0 THEN 5 ELSE 4 END
                ELSE 3 END AS status,
           n %% 1000 BETWEEN 20 AND 23 AS unknown
    FROM (SELECT n, now() - interval '30 days' + n::float8 / %[3]d * interval '30 days' AS at
          FROM generate_series(%[1]d::bigint, %[2]d::bigint) n) t
),
named AS MATERIALIZED (
    SELECT *, (substr(head, 1, 8) || '-' || substr(head, 9, 4) || '-7' || substr(md5(n::text), 1, 3) || '-8' || substr(md5(n::text), 4, 3)
               || '-' || substr(md5(n::text), 7, 12))::uuid AS ref,
           CASE WHEN work THEN 'w:' || kind || ':' || substr(encode(sha256(kind::bytea), 'hex'), 1, 16) ELSE 'm:' || kind END AS route
    FROM made
),
intents AS (
    INSERT INTO {s}.intent (ref, created_at, profile, kind, payload_digest, payload, address, subject,
        version, fingerprint, run_id, work_key, operation, actor, tenant, security_version, target, target_version)
    SELECT ref, at, CASE WHEN work THEN 1 ELSE 2 END, kind, sha256(n::text::bytea), '{"n":1}',
           CASE WHEN work THEN NULL ELSE 'a@example.org' END, 'subject ' || n / 100,
           CASE WHEN work THEN '1' END, CASE WHEN work THEN sha256(kind::bytea) END, CASE WHEN work THEN run END,
           CASE WHEN work THEN 'key' END, CASE WHEN work THEN 'op' END, CASE WHEN work THEN 'a' END,
           CASE WHEN work THEN 't' END, CASE WHEN work THEN '1' END, CASE WHEN work THEN 't' END, CASE WHEN work THEN '1' END
    FROM named
),
log AS (
    INSERT INTO {s}.attempt (ref, generation, number, outcome, at, started_at, error)
    SELECT ref, 1, 1, CASE WHEN unknown THEN 4 ELSE 3 END, at, at, 'connection reset' FROM named WHERE status > 3
),
audits AS (
    INSERT INTO {s}.audit (at, made_by, action, ref, reason)
    SELECT at, 'ann', 'redeliver', ref, 'far side is back' FROM named WHERE n %% 20 = 0
)
INSERT INTO {s}.delivery (ref, created_at, route, profile, lease_ms, timeout_ms, max_attempts, max_age_ms,
    retry, idempotent, updated_at, status, terminal, generation, revision, attempts, owner, program, started_at, digest,
    review_at, uncertain, code, due_at)
SELECT ref, at, route, CASE WHEN work THEN 1 ELSE 2 END, 60000, 10000, 8, 86400000, 2, false, at,
       status, NULLIF(status, 0), sign(status), sign(status) * 3, sign(status), CASE WHEN status > 0 THEN gen_random_uuid() END,
       CASE WHEN status > 0 THEN 'worker' END, CASE WHEN status > 0 THEN at END, CASE WHEN status > 0 THEN sha256(n::text::bytea) END,
       CASE WHEN unknown THEN at END, unknown,
       CASE WHEN unknown THEN 'OUTCOME_UNKNOWN' WHEN status = 5 THEN 'TARGET_UNAVAILABLE' WHEN status = 4 THEN 'REJECTED' END,
       CASE WHEN status = 0 THEN at END
FROM named`

// BenchmarkPages measures every page on PostgreSQL, on the server, from the request to
// the last byte: the first, with whatever the database happens to have in memory, then
// the middle and the slowest of 40, with an empty cache of counts each time. CONSIGN_CONSOLE_ROWS says how many intents there are (default 100,000).
func BenchmarkPages(b *testing.B) {
	rows := 100_000
	if s := os.Getenv("CONSIGN_CONSOLE_ROWS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			b.Fatal(err)
		}
		rows = n
	}
	pool, schema := pgtest.Pool(b), pgtest.Schema(b)
	store, err := postgres.New(pool, &postgres.Options{Schema: schema})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := migrate.Up(b.Context(), store); err != nil {
		b.Fatal(err)
	}
	filled(b, pool, schema, rows)
	c, err := New(store, &Options{
		Refresh: time.Nanosecond,
		Host:    func(*http.Request) (Identity, bool) { return Identity{Name: "ann", Role: Admin}, true },
	})
	if err != nil {
		b.Fatal(err)
	}
	unknown, done := refIn(b, pool, schema, "uncertain"), refIn(b, pool, schema, "terminal = 3")
	for _, page := range []string{
		"/", "/live", "/review", "/review/all", "/kinds", "/audit", "/audit?ref=" + done.String(), "/approvals",
		"/intents", "/intents?status=delivered", "/intents?status=failed", "/intents?status=pending", "/intents?kind=kind3",
		"/intents?profile=work&kind=kind3&status=cancelled", "/intents?code=POISONED", "/intents?code=OUTCOME_UNKNOWN",
		"/intents?subject=subject+77", "/intents?age=older-7d", "/intents?age=older-7d&status=delivered", "/intents?age=1h&code=REJECTED",
		"/intents?kind=nothing", "/intents/" + unknown.String(), "/intents/" + done.String(),
	} {
		b.Run(strings.NewReplacer(unknown.String(), "unknown", done.String(), "delivered", "/", "_").Replace(page), func(b *testing.B) {
			for b.Loop() {
				measure(b, c, page)
			}
		})
	}
}

// measure reports the first, the middle and the slowest of some requests.
func measure(b *testing.B, c *Console, page string) {
	times := make([]time.Duration, 41)
	for i := range times {
		c.shared.forget()
		r := httptest.NewRequest("GET", page, nil)
		r.RemoteAddr, r.Host = "127.0.0.1:5", "localhost"
		w := httptest.NewRecorder()
		began := time.Now()
		c.ServeHTTP(w, r)
		times[i] = time.Since(began)
		if w.Code != http.StatusOK {
			b.Fatalf("%s answered %d: %s", page, w.Code, inner(w.Body.String()))
		}
	}
	b.ReportMetric(float64(times[0].Microseconds())/1000, "ms-first")
	times = times[1:]
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "ms-median")
	b.ReportMetric(float64(times[len(times)-1].Microseconds())/1000, "ms-slowest")
}

func filled(b *testing.B, pool *pgxpool.Pool, schema string, rows int) {
	b.Helper()
	ctx := context.Background()
	const part = 100_000
	for from := 0; from < rows; from += part {
		query := strings.ReplaceAll(fmt.Sprintf(fill, from, min(from+part, rows)-1, rows), "{s}", schema)
		if _, err := pool.Exec(ctx, query); err != nil {
			b.Fatal(err)
		}
	}
	for _, table := range []string{"intent", "delivery", "attempt", "audit"} {
		if _, err := pool.Exec(ctx, "VACUUM ANALYZE "+schema+"."+table); err != nil {
			b.Fatal(err)
		}
	}
}

func refIn(b *testing.B, pool *pgxpool.Pool, schema, where string) consign.Ref {
	b.Helper()
	var text string
	if err := pool.QueryRow(b.Context(), "SELECT ref::text FROM "+schema+".delivery WHERE "+where+" LIMIT 1").Scan(&text); err != nil {
		b.Fatal(err)
	}
	ref, err := consign.ParseRef(text)
	if err != nil {
		b.Fatal(err)
	}
	return ref
}
