package sqlite

import (
	"fmt"
	"strings"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Drivers pay for each value that they hand over, about as much as SQLite takes to
// find the row. So small numbers travel packed into one (counts stay far below 2^32),
// and texts and digests joined: a row of 44 columns comes in 22 values, in two thirds
// of the time.

// standsSQL is true of a delivery g that higher indexes of its task wait for: one
// that may still be started, be it that its late owner gives it back, or is being
// delivered. ?1 is the database's now.
const standsSQL = `g.terminal IS NULL
      AND (g.status < 2 OR g.lease_until > ?1
        OR g.retry = 2 AND (g.deadline IS NULL OR g.deadline > ?1)
          AND (g.max_attempts IS NULL OR g.attempts + (g.profile = 2 AND g.in_flight) < g.max_attempts))`

// gateSQL is true of a delivery d that no lower index of its task stands before.
const gateSQL = `(d.gate_task IS NULL OR NOT EXISTS (
    SELECT 1 FROM {s}delivery g INDEXED BY {i}delivery_gate
    WHERE g.gate_task = d.gate_task AND g.gate_index < d.gate_index AND ` + standsSQL + `))`

// stateColumns are what a decision about a delivery d needs. ?1 is the database's
// now. In claimColumns the gate is open, because the condition of a claim has asked,
// and there is where the row is.
const (
	stateColumns = stateHead + gateSQL + stateTail
	claimColumns = stateHead + `(1 + 2 * d.rowid)` + stateTail

	stateHead = `d.ref,
    d.profile + d.retry * 4 + d.idempotent * 16 + d.status * 32 + d.in_flight * 256 + d.uncertain * 512
        + (d.erased_at IS NOT NULL) * 1024 + 2048 * `
	stateTail = `,
    d.attempts * 4294967296 + d.crashes, d.generation * 4294967296 + d.revision, d.lease_ms * 4294967296 + d.timeout_ms, d.max_attempts, d.max_age_ms,
    d.due_at, d.lease_until, d.deadline, d.owner, d.digest, d.code`
)

const (
	stateWidth = 13
	dueColumn  = 7 // where due_at is in it
)

// intentColumns are the content of an intent i. Texts that are joined end in NUL,
// which no text may hold: a constraint of the table sees to that.
const intentColumns = `i.created_at, i.task_index * 4 + i.link, CASE i.link WHEN 0 THEN NULL WHEN 1 THEN CAST(i.predecessor || i.delivery_key AS BLOB) ELSE i.predecessor END,
    i.payload, CASE i.profile WHEN 1 THEN CAST(i.payload_digest || i.fingerprint || i.run_id AS BLOB) ELSE i.payload_digest END,
    i.kind || char(0) || CASE i.profile WHEN 1 THEN i.version || char(0) || i.work_key || char(0) || i.operation || char(0)
        || i.actor || char(0) || i.tenant || char(0) || i.security_version || char(0) || i.target || char(0) || i.target_version
        ELSE i.address END || char(0),
    i.task, i.subject, i.trace`

const intentWidth = 9

// stored is what a row says of a delivery's state.
type stored struct {
	ref                           driver.ID
	rowid                         int64           // of claimColumns alone
	state                         lifecycle.State // without what is relative to now, but for the gate
	dueAt, leaseUntil, deadlineAt any
}

// readState reads stateColumns.
func readState(v []any) stored {
	flags, counts, fences, times := whole(v[1]), whole(v[2]), whole(v[3]), whole(v[4])
	r := stored{ref: driver.ID(bytes16(v[0])), rowid: flags >> 12, dueAt: v[dueColumn], leaseUntil: v[8], deadlineAt: v[9]}
	r.state = lifecycle.State{
		Profile: lifecycle.Profile(flags & 3), Status: lifecycle.Status(flags >> 5 & 7),
		InFlight: flags>>8&1 == 1, Uncertain: flags>>9&1 == 1, Erased: flags>>10&1 == 1, GateOpen: flags>>11&1 == 1,
		Attempts: int(counts >> 32), Crashes: int(uint32(counts)), Generation: fences >> 32, Revision: int64(uint32(fences)),
		Owner: bytes16(v[10]), Digest: bytes32(v[11]), Code: lifecycle.Code(text(v[12])),
		Contract: lifecycle.Contract{
			Retry: lifecycle.RetryOwner(flags >> 2 & 3), Idempotent: flags>>4&1 == 1, MaxAttempts: int(whole(v[5])),
			Lease: milliseconds(times >> 32), Timeout: milliseconds(int64(uint32(times))), MaxAge: duration(v[6]),
		},
	}
	return r
}

// at returns the state as it is at now.
func (r *stored) at(now int64) lifecycle.State {
	s := r.state
	s.DeadlineLeft = lifecycle.Never
	if v, ok := r.dueAt.(int64); ok {
		s.DueIn = time.Duration(v-now) * time.Microsecond
	}
	if v, ok := r.leaseUntil.(int64); ok {
		s.LeaseLeft = time.Duration(v-now) * time.Microsecond
	}
	if v, ok := r.deadlineAt.(int64); ok {
		s.DeadlineLeft = time.Duration(v-now) * time.Microsecond
	}
	return s
}

// readIntent reads intentColumns.
func readIntent(v []any, ref driver.ID, p lifecycle.Profile) (driver.Intent, error) {
	place := whole(v[1])
	i := driver.Intent{
		Ref: ref, Key: ref, Profile: p, CreatedAt: instant(v[0]), Link: driver.Link(place & 3), Index: int(place >> 2),
		Payload: []byte(text(v[3])), Task: text(v[6]), Subject: text(v[7]), Trace: text(v[8]),
	}
	if before, _ := v[2].([]byte); len(before) >= 16 {
		i.Predecessor = driver.ID(before[:16])
		if len(before) == 32 {
			i.Key = driver.ID(before[16:])
		}
	}
	digests, _ := v[4].([]byte)
	texts, want := joined{rest: text(v[5])}, 32
	i.Kind = texts.next()
	if p == lifecycle.Work {
		want = 32 + 32 + 16
		i.Version, i.WorkKey, i.Operation, i.Actor = texts.next(), texts.next(), texts.next(), texts.next()
		i.Tenant, i.SecurityVersion, i.Target, i.TargetVersion = texts.next(), texts.next(), texts.next(), texts.next()
	} else {
		i.Address = texts.next()
	}
	if texts.short || texts.rest != "" || len(digests) != want {
		return i, fmt.Errorf("the stored intent %s cannot be read", ref)
	}
	i.Digest = lifecycle.Digest(digests[:32])
	if p == lifecycle.Work {
		i.Fingerprint, i.Run = [32]byte(digests[32:64]), driver.ID(digests[64:])
	}
	return i, nil
}

// joined is texts that each end in NUL.
type joined struct {
	rest  string
	short bool
}

func (j *joined) next() string {
	head, rest, found := strings.Cut(j.rest, "\x00")
	j.rest, j.short = rest, j.short || !found
	return head
}

// Values as drivers hand them over. Absent ones are zero.

func whole(v any) int64 {
	n, _ := v.(int64)
	return n
}

func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte: // older drivers
		return string(v)
	}
	return ""
}

func bytes16(v any) (b [16]byte) {
	raw, _ := v.([]byte)
	copy(b[:], raw)
	return b
}

func bytes32(v any) (b [32]byte) {
	raw, _ := v.([]byte)
	copy(b[:], raw)
	return b
}

// Values as they are stored. Absent ones are NULL.

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func blob(id [16]byte) any {
	if id == ([16]byte{}) {
		return nil
	}
	return id[:]
}

func hash(d [32]byte) any {
	if d == ([32]byte{}) {
		return nil
	}
	return d[:]
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
