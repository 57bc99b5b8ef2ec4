package postgres

import (
	"bytes"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// stateColumns are what lifecycle needs to know of a delivery d, with the instant
// that it is relative to. A statement that selects them has a clock, and puts
// whether the gate is open behind them.
const stateColumns = `d.ref, d.profile, d.retry, d.idempotent, d.max_attempts, d.lease_ms, d.timeout_ms, d.max_age_ms,
          d.status, d.generation, d.revision, d.owner, d.in_flight, d.attempts, d.crashes, d.uncertain,
          d.digest, d.code, d.due_at, d.lease_until, d.deadline, d.erased_at, (SELECT at FROM clock)`

// claimedColumns are stateColumns without what every claim sets alike.
const claimedColumns = `d.ref, d.profile, d.retry, d.idempotent, d.max_attempts, d.lease_ms, d.timeout_ms, d.max_age_ms,
          d.generation, d.revision, d.attempts, d.crashes, d.uncertain,
          d.digest, d.code, d.due_at, d.lease_until, d.deadline, (SELECT at FROM clock)`

// intentColumns are the whole intent i.
const intentColumns = `i.kind, i.delivery_key, i.payload, i.payload_digest, i.created_at,
          i.version, i.fingerprint, i.run_id, i.work_key, i.operation, i.actor, i.tenant, i.security_version,
          i.target, i.target_version, i.address, i.task, i.task_index, i.subject, i.predecessor, i.link, i.trace`

// row is one delivery with its intent, as it is read. It is used for every row of
// a result in turn.
type row struct {
	intent driver.Intent
	s      lifecycle.State
	ref    driver.ID
	now    time.Time

	dueAt, leaseUntil, deadline, erasedAt time.Time

	targets []any // of the columns, in their order
}

// newRow returns a row that reads stateColumns, the gate, intentColumns and then
// further columns.
func newRow(further ...any) *row {
	r := &row{}
	r.targets = append(append(r.stateTargets(), r.intentTargets()...), further...)
	return r
}

// newStateRow returns a row that reads stateColumns, the gate and further columns.
func newStateRow(further ...any) *row {
	r := &row{}
	r.targets = append(r.stateTargets(), further...)
	return r
}

// newClaimedRow returns a row that reads claimedColumns and intentColumns of what
// owner has just claimed.
func newClaimedRow(owner lifecycle.Token) *row {
	r := &row{s: lifecycle.State{Status: lifecycle.Leased, Owner: owner, GateOpen: true}}
	s, c := &r.s, &r.s.Contract
	r.targets = append([]any{
		(*id)(&r.ref), (*small[lifecycle.Profile])(&s.Profile), (*small[lifecycle.RetryOwner])(&c.Retry), &c.Idempotent,
		(*whole)(&c.MaxAttempts), (*millis)(&c.Lease), (*millis)(&c.Timeout), (*millis)(&c.MaxAge),
		&s.Generation, &s.Revision, (*whole)(&s.Attempts), (*whole)(&s.Crashes), &s.Uncertain,
		(*hash)(&s.Digest), (*words[lifecycle.Code])(&s.Code), (*instant)(&r.dueAt), (*instant)(&r.leaseUntil),
		(*instant)(&r.deadline), (*instant)(&r.now),
	}, r.intentTargets()...)
	return r
}

// scan reads a row. NULL is read as the zero value, and what was erased as an
// intent without content.
func (r *row) scan(rows pgx.Rows) error {
	r.intent.Payload = nil // the last row's was handed out
	if err := rows.Scan(r.targets...); err != nil {
		return err
	}
	i := &r.intent
	if i.Kind == "" {
		*i = driver.Intent{Ref: r.ref}
		return nil
	}
	i.Ref, i.Profile = r.ref, r.s.Profile
	if i.Key == (driver.ID{}) {
		i.Key = r.ref
	}
	return nil
}

func (r *row) stateTargets() []any {
	s, c := &r.s, &r.s.Contract
	return []any{
		(*id)(&r.ref), (*small[lifecycle.Profile])(&s.Profile), (*small[lifecycle.RetryOwner])(&c.Retry), &c.Idempotent,
		(*whole)(&c.MaxAttempts), (*millis)(&c.Lease), (*millis)(&c.Timeout), (*millis)(&c.MaxAge),
		(*small[lifecycle.Status])(&s.Status), &s.Generation, &s.Revision, (*id)(&s.Owner), &s.InFlight,
		(*whole)(&s.Attempts), (*whole)(&s.Crashes), &s.Uncertain,
		(*hash)(&s.Digest), (*words[lifecycle.Code])(&s.Code), (*instant)(&r.dueAt), (*instant)(&r.leaseUntil),
		(*instant)(&r.deadline), (*instant)(&r.erasedAt), (*instant)(&r.now), &s.GateOpen,
	}
}

func (r *row) intentTargets() []any {
	i := &r.intent
	return []any{
		(*words[string])(&i.Kind), (*id)(&i.Key), (*body)(&i.Payload), (*hash)(&i.Digest), (*instant)(&i.CreatedAt),
		(*words[string])(&i.Version), (*hash)(&i.Fingerprint), (*id)(&i.Run), (*words[string])(&i.WorkKey),
		(*words[string])(&i.Operation), (*words[string])(&i.Actor), (*words[string])(&i.Tenant),
		(*words[string])(&i.SecurityVersion), (*words[string])(&i.Target), (*words[string])(&i.TargetVersion),
		(*words[string])(&i.Address), (*words[string])(&i.Task), (*whole)(&i.Index), (*words[string])(&i.Subject),
		(*id)(&i.Predecessor), (*small[driver.Link])(&i.Link), (*words[string])(&i.Trace),
	}
}

// state is what was read, relative to the instant at which it was.
func (r *row) state() lifecycle.State {
	s := r.s
	s.Erased = !r.erasedAt.IsZero()
	s.DueIn, s.LeaseLeft, s.DeadlineLeft = 0, 0, lifecycle.Never
	if !r.dueAt.IsZero() {
		s.DueIn = r.dueAt.Sub(r.now)
	}
	if !r.leaseUntil.IsZero() {
		s.LeaseLeft = r.leaseUntil.Sub(r.now)
	}
	if !r.deadline.IsZero() {
		s.DeadlineLeft = r.deadline.Sub(r.now)
	}
	return s
}

// The targets below read NULL as the zero value, and spare pgx the reflection it
// uses for named types.

type id driver.ID

// ScanUUID is for pgx.
func (v *id) ScanUUID(u pgtype.UUID) error { *v = id(u.Bytes); return nil } // zero where NULL

// words are a text that is often the same in the next row, and then not copied again.
type words[T ~string] string

// ScanBytes is for pgx.
func (v *words[T]) ScanBytes(b []byte) error {
	if string(*v) != string(b) {
		*v = words[T](b)
	}
	return nil
}

type body []byte

// ScanBytes is for pgx.
func (v *body) ScanBytes(b []byte) error { *v = body(bytes.Clone(b)); return nil }

type hash [32]byte

// ScanBytes is for pgx.
func (v *hash) ScanBytes(b []byte) error { *v = hash{}; copy(v[:], b); return nil }

type whole int

// ScanInt64 is for pgx.
func (v *whole) ScanInt64(n pgtype.Int8) error { *v = whole(n.Int64); return nil }

type small[T ~uint8] uint8

// ScanInt64 is for pgx.
func (v *small[T]) ScanInt64(n pgtype.Int8) error { *v = small[T](n.Int64); return nil }

type millis time.Duration

// ScanInt64 is for pgx.
func (v *millis) ScanInt64(n pgtype.Int8) error {
	*v = millis(time.Duration(n.Int64) * time.Millisecond)
	return nil
}

type instant time.Time

// ScanTimestamptz is for pgx.
func (v *instant) ScanTimestamptz(t pgtype.Timestamptz) error {
	*v = instant{}
	if t.Valid {
		*v = instant(t.Time.UTC())
	}
	return nil
}
