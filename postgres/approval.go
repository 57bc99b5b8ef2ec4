package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign/internal/driver"
)

// approvalColumns are the whole approval a, with whether its time is over. They
// are read through either client library, so they are of types that both know.
const approvalColumns = `a.id::text, a.operation, a.actor, a.tenant, a.target, a.subject, a.input, a.input_digest, a.proposer, a.reason,
       a.other_confirmer, a.status, a.decided_by, a.decision, a.run_id::text, a.created_at, a.expires_at, a.decided_at,
       a.consumed_at, a.expires_at <= clock_timestamp()`

// scanApproval reads approvalColumns.
func scanApproval(scan scanFunc) (driver.Approval, error) {
	var a driver.Approval
	var id string
	var status int64
	var digest []byte
	var target, subject, input, reason, by, decision, run sql.NullString
	var decided, consumed sql.NullTime
	err := scan(&id, &a.Operation, &a.Actor, &a.Tenant, &target, &subject, &input, &digest, &a.Proposer, &reason,
		&a.OtherConfirmer, &status, &by, &decision, &run, &a.CreatedAt, &a.ExpiresAt, &decided, &consumed, &a.Expired)
	if err != nil {
		return a, err
	}
	if a.ID, err = driver.ParseID(id); err == nil && run.Valid {
		a.Run, err = driver.ParseID(run.String)
	}
	copy(a.InputDigest[:], digest)
	a.Target, a.Subject, a.Reason, a.By, a.Decision = target.String, subject.String, reason.String, by.String, decision.String
	if input.Valid {
		a.Input = []byte(input.String)
	}
	a.Status = driver.ApprovalStatus(status)
	a.CreatedAt, a.ExpiresAt = a.CreatedAt.UTC(), a.ExpiresAt.UTC()
	if decided.Valid {
		a.DecidedAt = decided.Time.UTC()
	}
	if consumed.Valid {
		a.ConsumedAt = consumed.Time.UTC()
	}
	return a, err
}

// proposeSQL writes an open approval with its audit row.
const proposeSQL = `
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at),
proposed AS (
    INSERT INTO {s}approval (id, created_at, expires_at, operation, actor, tenant, target, subject, input, input_digest,
        proposer, reason, other_confirmer)
    SELECT $1::uuid, at, at + $2::bigint * interval '1 microsecond', $3::text, $4::text, $5::text, $6::text, $7::text, $8::text,
           $9::bytea, $10::text, $11::text, $12::boolean
    FROM clock
    RETURNING id, proposer, created_at
)
INSERT INTO {s}audit (at, made_by, action, approval_id)
SELECT created_at, proposer, 'propose', id FROM proposed`

// Propose writes an open approval.
func (t *transaction) Propose(ctx context.Context, a driver.Approval, ttl time.Duration) error {
	return clean("propose", t.on.exec(ctx, t.e.q.propose, []any{
		uuid(a.ID), ttl.Microseconds(), a.Operation, a.Actor, a.Tenant, text(a.Target), text(a.Subject), text(string(a.Input)),
		digest(a.InputDigest), a.Proposer, text(a.Reason), a.OtherConfirmer,
	}))
}

// lockApprovalSQL reads an approval in its newest version, once nobody else is
// changing it. A statement that locks computes its columns before it waits, so the
// clock is looked at outside of the part that does.
const lockApprovalSQL = `
WITH held AS MATERIALIZED (SELECT * FROM {s}approval WHERE id = $1::uuid FOR NO KEY UPDATE)
SELECT ` + approvalColumns + ` FROM held a`

// LockApproval reads an approval and keeps it from others.
func (t *transaction) LockApproval(ctx context.Context, id driver.ID) (a driver.Approval, found bool, err error) {
	err = t.on.query(ctx, t.e.q.lockApproval, []any{uuid(id)}, func(scan scanFunc) (err error) {
		found = true
		a, err = scanApproval(scan)
		return err
	})
	return a, found, clean("approval", err)
}

// decideSQL confirms or dismisses an open approval, with its audit row.
const decideSQL = `
WITH decided AS (
    UPDATE {s}approval
    SET status = $2::smallint, decided_by = $3::text, decision = $4::text, decided_at = clock_timestamp()
    WHERE id = $1::uuid AND status = 0
    RETURNING id, decided_by, decided_at
)
INSERT INTO {s}audit (at, made_by, action, approval_id)
SELECT decided_at, decided_by, $5::text, id FROM decided
RETURNING at`

// Decide confirms or dismisses an open approval.
func (t *transaction) Decide(ctx context.Context, d driver.Decision) (at time.Time, err error) {
	action := "confirm"
	if d.Status == driver.ApprovalDismissed {
		action = "dismiss"
	}
	decided := false
	args := []any{uuid(d.Approval), int64(d.Status), d.By, text(d.Why), action}
	err = t.on.query(ctx, t.e.q.decide, args, func(scan scanFunc) error {
		decided = true
		return scan(&at)
	})
	if err == nil && !decided {
		err = fmt.Errorf("approval %s is not open", d.Approval)
	}
	return at.UTC(), clean("decide", err)
}

// consumeSQL ties a confirmed approval and the run that consumes it together.
const consumeSQL = `
WITH consumed AS (
    UPDATE {s}approval SET status = 3, run_id = $2::uuid, consumed_at = clock_timestamp()
    WHERE id = $1::uuid AND status = 1
    RETURNING id
)
UPDATE {s}run r SET approval_id = consumed.id
FROM consumed
WHERE r.id = $2::uuid AND r.sealed_at IS NULL AND r.approval_id IS NULL
RETURNING true`

// Consume marks a confirmed approval as consumed by an open run.
func (t *transaction) Consume(ctx context.Context, approval, run driver.ID) error {
	consumed := false
	err := t.on.query(ctx, t.e.q.consume, []any{uuid(approval), uuid(run)}, func(scan scanFunc) error { return scan(&consumed) })
	if err == nil && !consumed {
		err = fmt.Errorf("approval %s is not confirmed, or run %s is not open", approval, run)
	}
	return clean("consume", err)
}

const approvalSQL = `SELECT ` + approvalColumns + ` FROM {s}approval a WHERE a.id = $1::uuid`

// Approval returns an approval.
func (e *engine) Approval(ctx context.Context, id driver.ID) (a driver.Approval, found bool, err error) {
	err = e.read(ctx, "approval", e.q.approval, []any{uuid(id)}, func(rows pgx.Rows) (err error) {
		found = true
		a, err = scanApproval(rows.Scan)
		return err
	})
	return a, found && err == nil, err
}

// openApprovalsSQL walks the index of open approvals from now on, or from behind
// the cursor: what has expired is not looked at.
const openApprovalsSQL = `
SELECT ` + approvalColumns + `
FROM {s}approval a
WHERE a.status = 0
  AND (a.expires_at, a.id) > ($2::timestamptz, $3::uuid)
  AND a.expires_at > (SELECT clock_timestamp())
  AND ($1::text IS NULL OR a.tenant = $1::text)
ORDER BY a.expires_at, a.id
LIMIT $4::bigint`

// OpenApprovals lists what waits for a person.
func (e *engine) OpenApprovals(ctx context.Context, q driver.OpenApprovals) ([]driver.Approval, error) {
	after := any("-infinity")
	if !q.After.ExpiresAt.IsZero() {
		after = moment(q.After.ExpiresAt)
	}
	var list []driver.Approval
	args := []any{text(q.Tenant), after, q.After.ID.String(), int64(q.Limit)}
	err := e.read(ctx, "open approvals", e.q.undecided, args, func(rows pgx.Rows) error {
		a, err := scanApproval(rows.Scan)
		list = append(list, a)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}
