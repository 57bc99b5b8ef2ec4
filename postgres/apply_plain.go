package postgres

import (
	"github.com/consign-go/consign/internal/lifecycle"
)

// Nearly all transitions are starts and successes, and those set a dozen of the
// columns that applySQL can set. plainSQL is applySQL for them: the same conditions
// and the same bits, a third of the parameters, and nothing to log.
const plainSQL = `
UPDATE {s}delivery d
SET status = (w.bits >> 3 & 7)::smallint,
    terminal = CASE WHEN w.bits & 56 >= 24 THEN (w.bits >> 3 & 7)::smallint END,
    revision = w.revision + 1,
    in_flight = w.bits & 64 <> 0,
    uncertain = w.bits & 128 <> 0,
    attempts = COALESCE(w.attempts, 0),
    crashes = 0,
    digest = COALESCE(w.digest, d.digest),
    code = NULL,
    due_at = CASE WHEN w.bits & 16384 = 0 THEN d.due_at END,
    lease_until = CASE WHEN w.bits & 65536 = 0 THEN d.lease_until END,
    review_at = CASE w.bits & 786432 WHEN 0 THEN d.review_at WHEN 786432 THEN d.lease_until END,
    started_at = CASE WHEN w.bits & 1024 <> 0 THEN clock_timestamp() ELSE d.started_at END,
    last_error = CASE WHEN w.bits & 2048 = 0 THEN d.last_error END,
    updated_at = clock_timestamp()
FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::uuid[], $5::integer[], $6::integer[], $7::bigint[], $8::bytea[])
     WITH ORDINALITY AS w(ref, generation, revision, owner, bits, attempts, need_lease, digest, n)
WHERE d.ref BETWEEN w.ref AND w.ref
  AND d.revision = w.revision
  AND d.generation = w.generation
  AND d.status = (w.bits & 7)::smallint
  AND d.owner IS NOT DISTINCT FROM w.owner
  AND (COALESCE(w.need_lease, 0) = 0
       OR d.lease_until >= clock_timestamp() + w.need_lease * interval '1 microsecond')
  AND (w.bits & 512 = 0 OR d.deadline IS NULL OR d.deadline > clock_timestamp())
RETURNING w.n`

// plain reports whether plainSQL can write t.
func plain(t *lifecycle.Transition) bool {
	s := &t.Set
	stays := func(c lifecycle.Change) bool { return c == lifecycle.Keep || c == lifecycle.Clear }
	return t.Log == nil && s.Generation == t.Fence.Generation && s.Owner == t.Fence.Owner && s.Crashes == 0 &&
		stays(s.Due) && stays(s.Lease) && (stays(s.Review) || s.Review == lifecycle.AtLeaseEnd) &&
		s.Code == "" && s.Error == "" && !s.Erased && !s.SetContract
}

// plainArgs are the parameters of plainSQL.
func (c *changes) plainArgs() []any {
	return []any{
		c.ref, c.generation, c.revision, c.owner, c.bits, array(numbers(c.attempts), len(c.attempts)),
		array(numbers(c.needLease), len(c.needLease)), array(blobs(c.digest), len(c.digest)),
	}
}
