package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/consign-go/consign/internal/driver"
)

const (
	approvalColumns = `a.id, a.operation, a.actor, a.tenant, a.target, a.subject, a.input, a.input_digest, a.proposer, a.reason,
    a.other_confirmer, a.status, a.decided_by, a.decision, a.run_id, a.created_at, a.expires_at, a.decided_at, a.consumed_at,
    a.expires_at <= {now}`
	approvalWidth = 20

	approvalSQL = `SELECT ` + approvalColumns + ` FROM {s}approval a INDEXED BY sqlite_autoindex_{s}approval_1 WHERE a.id = ?`
)

func readApproval(v []any) driver.Approval {
	a := driver.Approval{
		ID: bytes16(v[0]), Operation: text(v[1]), Actor: text(v[2]), Tenant: text(v[3]), Target: text(v[4]), Subject: text(v[5]),
		InputDigest: bytes32(v[7]), Proposer: text(v[8]), Reason: text(v[9]), OtherConfirmer: whole(v[10]) == 1,
		Status: driver.ApprovalStatus(whole(v[11])), By: text(v[12]), Decision: text(v[13]), Run: bytes16(v[14]),
		CreatedAt: instant(v[15]), ExpiresAt: instant(v[16]), DecidedAt: instant(v[17]), ConsumedAt: instant(v[18]),
		Expired: whole(v[19]) == 1,
	}
	if v[6] != nil {
		a.Input = []byte(text(v[6]))
	}
	return a
}

// approval reads one approval.
func (s *session) approval(ctx context.Context, id driver.ID) (a driver.Approval, found bool, err error) {
	err = s.query(ctx, approvalSQL, []any{id[:]}, approvalWidth, func(v []any) (bool, error) {
		a, found = readApproval(v), true
		return false, nil
	})
	return a, found, err
}

const (
	proposeSQL = `INSERT INTO {s}approval (id, created_at, expires_at, operation, actor, tenant, target, subject, input, input_digest,
    proposer, reason, other_confirmer) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	auditApprovalSQL = `INSERT INTO {s}audit (at, made_by, action, approval_id) VALUES (?, ?, ?, ?)`
)

// Propose writes an open approval with its audit row.
func (t *tx) Propose(ctx context.Context, a driver.Approval, ttl time.Duration) error {
	return t.within(ctx, "propose", func(s *session) error {
		now, err := s.now(ctx)
		if err != nil {
			return err
		}
		_, err = s.exec(ctx, proposeSQL, a.ID[:], now, now+ttl.Microseconds(), a.Operation, a.Actor, a.Tenant, orNull(a.Target),
			orNull(a.Subject), orNull(string(a.Input)), hash(a.InputDigest), a.Proposer, orNull(a.Reason), flag(a.OtherConfirmer))
		if err != nil {
			return err
		}
		_, err = s.exec(ctx, auditApprovalSQL, now, a.Proposer, "propose", a.ID[:])
		return err
	})
}

// LockApproval reads an approval. There is one writer at a time, so the write lock
// keeps it from others.
func (t *tx) LockApproval(ctx context.Context, id driver.ID) (a driver.Approval, found bool, err error) {
	if err := t.lock(ctx); err != nil {
		return a, false, t.e.fault("approval", err)
	}
	err = t.within(ctx, "approval", func(s *session) (err error) {
		a, found, err = s.approval(ctx, id)
		return err
	})
	return a, found, err
}

const decideSQL = `UPDATE {s}approval INDEXED BY sqlite_autoindex_{s}approval_1
SET status = ?, decided_by = ?, decision = ?, decided_at = ? WHERE id = ? AND status = 0`

// Decide confirms or dismisses an open approval, with its audit row.
func (t *tx) Decide(ctx context.Context, d driver.Decision) (time.Time, error) {
	action := "confirm"
	if d.Status == driver.ApprovalDismissed {
		action = "dismiss"
	}
	var now int64
	err := t.within(ctx, "decide", func(s *session) (err error) {
		if now, err = s.now(ctx); err != nil {
			return err
		}
		n, err := s.exec(ctx, decideSQL, int64(d.Status), d.By, orNull(d.Why), now, d.Approval[:])
		if err != nil {
			return err
		}
		if n != 1 {
			return fmt.Errorf("approval %s is not open", d.Approval)
		}
		_, err = s.exec(ctx, auditApprovalSQL, now, d.By, action, d.Approval[:])
		return err
	})
	return instant(now), err
}

const (
	consumeSQL = `UPDATE {s}approval INDEXED BY sqlite_autoindex_{s}approval_1
SET status = 3, run_id = ?, consumed_at = {now} WHERE id = ? AND status = 1`
	consumedBySQL = `UPDATE {s}run INDEXED BY sqlite_autoindex_{s}run_1 SET approval_id = ?
WHERE id = ? AND sealed_at IS NULL AND approval_id IS NULL`
)

// Consume marks a confirmed approval as consumed by an open run.
func (t *tx) Consume(ctx context.Context, approval, run driver.ID) error {
	return t.within(ctx, "consume", func(s *session) error {
		n, err := s.exec(ctx, consumeSQL, run[:], approval[:])
		if err != nil {
			return err
		}
		if n != 1 {
			return fmt.Errorf("approval %s is not confirmed", approval)
		}
		if n, err = s.exec(ctx, consumedBySQL, approval[:], run[:]); err != nil {
			return err
		}
		if n != 1 {
			return fmt.Errorf("run %s is not open", run)
		}
		return nil
	})
}

// Approval returns an approval.
func (e *engine) Approval(ctx context.Context, id driver.ID) (a driver.Approval, found bool, err error) {
	err = e.read(ctx, "approval", func(ctx context.Context, s *session) (err error) {
		a, found, err = s.approval(ctx, id)
		return err
	})
	return a, found && err == nil, err
}

// openApprovalsSQL walks the index of open approvals from a place that has not
// expired.
const openApprovalsSQL = `SELECT ` + approvalColumns + ` FROM {s}approval a INDEXED BY {i}approval_open
WHERE a.status = 0 AND (a.expires_at, a.id) > (?1, ?2) AND (?3 IS NULL OR a.tenant = ?3)
ORDER BY a.expires_at, a.id LIMIT ?4`

// lastID is behind every approval that expires at the same time.
var lastID = driver.ID{
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
}

// OpenApprovals lists what waits for a person.
func (e *engine) OpenApprovals(ctx context.Context, q driver.OpenApprovals) ([]driver.Approval, error) {
	var list []driver.Approval
	err := e.read(ctx, "open approvals", func(ctx context.Context, s *session) error {
		list = nil
		now, err := s.now(ctx)
		if err != nil {
			return err
		}
		from, id := now, lastID
		if !q.After.ExpiresAt.IsZero() && micros(q.After.ExpiresAt) > now {
			from, id = micros(q.After.ExpiresAt), q.After.ID
		}
		args := []any{from, id[:], orNull(q.Tenant), int64(q.Limit)}
		return s.query(ctx, openApprovalsSQL, args, approvalWidth, func(v []any) (bool, error) {
			list = append(list, readApproval(v))
			return true, nil
		})
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}
