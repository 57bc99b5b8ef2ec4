package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// check mirrors the constraint approval_shape of the SQL schema.
func (a *approval) check() error {
	decided, consumed := !a.DecidedAt.IsZero(), a.Status == driver.ApprovalConsumed
	confirmed := a.Status == driver.ApprovalConfirmed || consumed
	return broken("approval_shape", []rule{
		{"known status", a.Status <= driver.ApprovalConsumed},
		{"has a digest", a.InputDigest != lifecycle.Digest{}},
		{"input of at most 16384 bytes", len(a.Input) <= 16<<10},
		{"the proposer does not confirm it", !a.OtherConfirmer || !confirmed || a.By != a.Proposer},
		{"open or decided", (a.Status == driver.ApprovalOpen) == !decided && decided == (a.By != "")},
		{"consumed by a run", consumed == !a.ConsumedAt.IsZero() && consumed == (a.Run != driver.ID{})},
	})
}

// bare is what an erasure leaves of a.
func (a *approval) bare(now time.Time) *approval {
	b := *a
	b.Target, b.Subject, b.Input, b.Reason, b.Decision = "", "", nil, "", ""
	if b.Status <= driver.ApprovalConfirmed && b.ExpiresAt.After(now) {
		b.ExpiresAt = now
	}
	b.erased = true
	return &b
}

// after is a as it is committed over what was stored before. What was erased while
// the transaction had it locked stays erased.
func (a *approval) after(stored *approval) *approval {
	if stored == nil || !stored.erased || a.erased {
		return a
	}
	return a.bare(stored.ExpiresAt)
}

// at is a copy of a as it is read at now.
func (a *approval) at(now time.Time) driver.Approval {
	r := a.Approval
	r.Input = slices.Clone(r.Input)
	r.Expired = !r.ExpiresAt.After(now)
	return r
}

// Propose writes an open approval.
func (j joined) Propose(ctx context.Context, p driver.Approval, ttl time.Duration) error {
	tx := j.tx
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	key := approvalKey(p.ID)
	if err := tx.await(ctx, []string{key}); err != nil {
		return err
	}
	if _, exists := tx.taken(key); exists {
		return fmt.Errorf("approval %s exists", p.ID)
	}
	now := tx.store.clock.now()
	a := &approval{Approval: driver.Approval{
		ID: p.ID, Operation: p.Operation, Actor: p.Actor, Tenant: p.Tenant, Target: p.Target, Subject: p.Subject,
		Input: slices.Clone(p.Input), InputDigest: p.InputDigest, Proposer: p.Proposer, Reason: p.Reason,
		OtherConfirmer: p.OtherConfirmer, CreatedAt: now, ExpiresAt: now.Add(ttl.Truncate(time.Microsecond)),
	}}
	if err := a.check(); err != nil {
		return err
	}
	tx.take(key, p.ID)
	tx.rows.approvals[p.ID] = a
	tx.rows.audits = append(tx.rows.audits, audit{at: now, madeBy: p.Proposer, action: "propose", approval: p.ID})
	return nil
}

func approvalKey(id driver.ID) string { return "approval/" + id.String() }

// LockApproval reads an approval and keeps it from other transactions.
func (j joined) LockApproval(ctx context.Context, id driver.ID) (driver.Approval, bool, error) {
	tx := j.tx
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	key := approvalKey(id)
	if err := tx.await(ctx, []string{key}); err != nil {
		return driver.Approval{}, false, err
	}
	a := tx.approval(id)
	if a == nil {
		return driver.Approval{}, false, nil
	}
	tx.take(key, id)
	return a.at(tx.store.clock.now()), true, nil
}

// approval returns an approval as tx sees it; nil: there is none.
func (tx *Tx) approval(id driver.ID) *approval {
	if a := tx.rows.approvals[id]; a != nil {
		return a
	}
	return tx.store.rows.approvals[id]
}

// change stores what set makes of an approval that has the status from.
func (tx *Tx) change(ctx context.Context, id driver.ID, from driver.ApprovalStatus, set func(a *driver.Approval, now time.Time)) error {
	if err := tx.await(ctx, []string{approvalKey(id)}); err != nil {
		return err
	}
	a := tx.approval(id)
	if a == nil || a.Status != from {
		return fmt.Errorf("approval %s has not the status %d", id, from)
	}
	next := *a
	set(&next.Approval, tx.store.clock.now())
	if err := next.check(); err != nil {
		return err
	}
	tx.take(approvalKey(id), id)
	tx.rows.approvals[id] = &next
	return nil
}

// Decide confirms or dismisses an open approval.
func (j joined) Decide(ctx context.Context, d driver.Decision) (at time.Time, err error) {
	tx := j.tx
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	err = tx.change(ctx, d.Approval, driver.ApprovalOpen, func(a *driver.Approval, now time.Time) {
		a.Status, a.By, a.Decision, a.DecidedAt = d.Status, d.By, d.Why, now
		at = now
	})
	if err != nil {
		return time.Time{}, err
	}
	action := "confirm"
	if d.Status == driver.ApprovalDismissed {
		action = "dismiss"
	}
	tx.rows.audits = append(tx.rows.audits, audit{at: at, madeBy: d.By, action: action, approval: d.Approval})
	return at, nil
}

// Consume marks a confirmed approval as consumed by an open run.
func (j joined) Consume(ctx context.Context, id, by driver.ID) error {
	tx := j.tx
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	if err := tx.mayWrite(); err != nil {
		return err
	}
	opened := tx.rows.runs[by]
	if opened == nil || !opened.SealedAt.IsZero() || opened.Approval != (driver.ID{}) {
		return fmt.Errorf("run %s is not open in this transaction", by)
	}
	err := tx.change(ctx, id, driver.ApprovalConfirmed, func(a *driver.Approval, now time.Time) {
		a.Status, a.Run, a.ConsumedAt = driver.ApprovalConsumed, by, now
	})
	if err != nil {
		return err
	}
	consumer := *opened
	consumer.Approval = id
	tx.rows.runs[by] = &consumer
	return nil
}

// Approval returns an approval.
func (s *Store) Approval(ctx context.Context, id driver.ID) (found driver.Approval, ok bool, err error) {
	err = s.write(ctx, func(now time.Time) error {
		if a := s.rows.approvals[id]; a != nil {
			found, ok = a.at(now), true
		}
		return nil
	})
	return found, ok, err
}

// OpenApprovals lists what waits for a person.
func (s *Store) OpenApprovals(ctx context.Context, q driver.OpenApprovals) ([]driver.Approval, error) {
	var list []driver.Approval
	err := s.write(ctx, func(now time.Time) error {
		for _, a := range s.rows.approvals {
			behind := cmp.Or(a.ExpiresAt.Compare(q.After.ExpiresAt), bytes.Compare(a.ID[:], q.After.ID[:])) > 0
			if a.Status == driver.ApprovalOpen && a.ExpiresAt.After(now) && behind && (q.Tenant == "" || q.Tenant == a.Tenant) {
				list = append(list, a.at(now))
			}
		}
		return nil
	})
	slices.SortFunc(list, func(a, b driver.Approval) int {
		return cmp.Or(a.ExpiresAt.Compare(b.ExpiresAt), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return list[:min(len(list), q.Limit)], err
}

// Run returns a run that was sealed.
func (s *Store) Run(ctx context.Context, id driver.ID) (found driver.Run, ok bool, err error) {
	err = s.write(ctx, func(time.Time) error {
		if r := s.rows.runs[id]; r != nil && !r.SealedAt.IsZero() {
			found, ok = r.Run, true
			found.Receipt, found.Work = slices.Clone(r.Receipt), slices.Clone(r.Work)
		}
		return nil
	})
	return found, ok, err
}
