package postgres

import (
	"slices"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Nearly all transitions are starts and successes, and those set a dozen of the
// columns that applySQL can set. plainSQL is applySQL for them: the same conditions
// and the same bits, a fraction of the parameters, and nothing to log. What is the
// same for many rows, as the owner is, travels once, and its number in the list
// with the bits.
const plainSQL = `
UPDATE {s}delivery d
SET status = (w.bits >> 3 & 7)::smallint,
    terminal = CASE WHEN w.bits & 56 >= 24 THEN (w.bits >> 3 & 7)::smallint END,
    revision = w.revision + 1,
    in_flight = w.bits & 64 <> 0,
    uncertain = w.bits & 128 <> 0,
    attempts = (w.bits >> 42)::integer,
    crashes = 0,
    digest = COALESCE(w.digest, d.digest),
    code = NULL,
    due_at = CASE WHEN w.bits & 16384 = 0 THEN d.due_at END,
    lease_until = CASE WHEN w.bits & 65536 = 0 THEN d.lease_until END,
    review_at = CASE w.bits & 786432 WHEN 0 THEN d.review_at WHEN 786432 THEN d.lease_until END,
    started_at = CASE WHEN w.bits & 1024 <> 0 THEN clock_timestamp() ELSE d.started_at END,
    last_error = CASE WHEN w.bits & 2048 = 0 THEN d.last_error END,
    updated_at = clock_timestamp()
FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[])
     WITH ORDINALITY AS w(ref, generation, revision, bits, digest, n)
WHERE d.ref BETWEEN w.ref AND w.ref
  AND d.revision = w.revision
  AND d.generation = w.generation
  AND d.status = (w.bits & 7)::smallint
  AND d.owner IS NOT DISTINCT FROM ($6::uuid[])[(w.bits >> 20 & 2047)::integer]
  AND (w.bits >> 31 & 2047 = 0
       OR d.lease_until >= clock_timestamp() + ($7::bigint[])[(w.bits >> 31 & 2047)::integer] * interval '1 microsecond')
  AND (w.bits & 512 = 0 OR d.deadline IS NULL OR d.deadline > clock_timestamp())
RETURNING w.n`

// What the bits of plainSQL hold above those of applySQL.
const (
	bitOwner    = 20 // eleven bits: which of the owners, from 1; 0: nobody
	bitLeases   = 31 // eleven bits: which of the times that must remain of a lease, from 1; 0: none
	bitAttempts = 42

	mostListed   = 1<<(bitLeases-bitOwner) - 1
	mostAttempts = 1<<(63-bitAttempts) - 1
)

// plain reports whether plainSQL can write t.
func plain(t *lifecycle.Transition) bool {
	s := &t.Set
	stays := func(c lifecycle.Change) bool { return c == lifecycle.Keep || c == lifecycle.Clear }
	return t.Log == nil && s.Generation == t.Fence.Generation && s.Owner == t.Fence.Owner && s.Crashes == 0 &&
		stays(s.Due) && stays(s.Lease) && (stays(s.Review) || s.Review == lifecycle.AtLeaseEnd) &&
		s.Code == "" && s.Error == "" && !s.Erased && !s.SetContract && s.Attempts <= mostAttempts
}

// plainChanges are transitions as the parameters of plainSQL.
type plainChanges struct {
	ref                        uuids
	generation, revision, bits numbers
	digest                     sparse[[]byte]

	owners uuids
	leases numbers
}

// plainColumns are the transitions at some places of ts, at most mostListed, as the
// columns of plainSQL.
func plainColumns(ts []lifecycle.Transition, order []int) *plainChanges {
	n := len(order)
	c := plainChanges{ref: make(uuids, n), generation: make(numbers, n), revision: make(numbers, n), bits: make(numbers, n)}
	for row, i := range order {
		t := &ts[i]
		s := &t.Set
		c.ref[row], c.generation[row], c.revision[row] = t.Ref, t.Fence.Generation, t.Fence.Revision
		bits := flags(t) | kindOf(s.Due)<<bitDue | kindOf(s.Lease)<<bitLease | kindOf(s.Review)<<bitReview |
			int64(s.Attempts)<<bitAttempts
		if owner := driver.ID(t.Fence.Owner); owner != (driver.ID{}) {
			bits |= listed(&c.owners, owner) << bitOwner
		}
		if left := microseconds(t.Require.LeaseLeft); left != 0 {
			bits |= listed(&c.leases, left) << bitLeases
		}
		c.bits[row] = bits
		if binds(t) {
			c.digest.at(row, n, s.Digest[:])
		}
	}
	return &c
}

// listed is the number of v in a list, from 1; what is not in it yet is appended.
func listed[S ~[]T, T comparable](list *S, v T) int64 {
	at := slices.Index(*list, v)
	if at < 0 {
		at = len(*list)
		*list = append(*list, v)
	}
	return int64(at) + 1
}

func (c *plainChanges) args() []any {
	return []any{
		c.ref, c.generation, c.revision, c.bits, array(blobs(c.digest), len(c.digest)),
		array(c.owners, len(c.owners)), array(c.leases, len(c.leases)),
	}
}
