package memory

import (
	"errors"
	"fmt"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// errImmutable: the rows of this table are never updated.
var errImmutable = errors.New("rows of this table are never changed")

// Put inserts a row of the table resolution or approval, past the contract. It
// is for tests, until the engine writes those tables itself.
func (s *Store) Put(table string, row map[string]any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.now()
	switch table {
	case "resolution":
		s.rows.resolutions = append(s.rows.resolutions, resolution{
			id: value[driver.ID](row, "id"), ref: value[driver.ID](row, "ref"), at: now, source: 1,
			outcome: value[int](row, "outcome"), madeBy: value[string](row, "made_by"), evidence: value[string](row, "evidence"),
		})
	case "approval":
		a := driver.Approval{
			ID: value[driver.ID](row, "id"), CreatedAt: now, ExpiresAt: value[time.Time](row, "expires_at"),
			Operation: value[string](row, "operation"), Actor: value[string](row, "actor"), Tenant: value[string](row, "tenant"),
			Target: value[string](row, "target"), Subject: value[string](row, "subject"), Proposer: value[string](row, "proposer"),
		}
		copy(a.InputDigest[:], value[[]byte](row, "input_digest"))
		s.rows.approvals[a.ID] = &approval{Approval: a}
	default:
		return fmt.Errorf("no row of table %q can be put", table)
	}
	return nil
}

// value returns a column as a T; NULL and absent are its zero value.
func value[T any](row map[string]any, column string) T {
	v, _ := row[column].(T)
	return v
}

// Set updates columns of one row of the table intent or delivery, past the
// contract and not past the checks. It is for tests that show that the checks
// hold, so it knows the columns that they are about.
func (s *Store) Set(table string, ref driver.ID, columns map[string]any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if table != "delivery" {
		return errImmutable
	}
	d := s.rows.deliveries[ref]
	if d == nil {
		return fmt.Errorf("no delivery %s", ref)
	}
	next := *d
	for column := range columns {
		if err := next.set(column, columns); err != nil {
			return err
		}
	}
	if err := next.check(); err != nil {
		return err
	}
	s.rows.put(&next)
	return nil
}

// set changes one column to the value it has in columns.
func (d *delivery) set(column string, columns map[string]any) error {
	s := &d.state
	whole, yes := value[int](columns, column), value[bool](columns, column)
	at := value[time.Time](columns, column)
	switch column {
	case "profile":
		s.Profile = lifecycle.Profile(whole)
	case "retry":
		s.Contract.Retry = lifecycle.RetryOwner(whole)
	case "max_attempts":
		s.Contract.MaxAttempts = whole
	case "status":
		s.Status = lifecycle.Status(whole)
	case "in_flight":
		s.InFlight = yes
	case "uncertain":
		s.Uncertain = yes
	case "attempts":
		s.Attempts = whole
	case "crashes":
		s.Crashes = whole
	case "generation":
		s.Generation = int64(whole)
	case "revision":
		s.Revision = int64(whole)
	case "owner":
		s.Owner = lifecycle.Token(value[driver.ID](columns, column))
	case "due_at":
		d.dueAt = at
	case "lease_until":
		d.leaseUntil = at
	case "review_at":
		d.reviewAt = at
	case "erased_at":
		d.erasedAt, s.Erased = at, !at.IsZero()
	case "code":
		s.Code = lifecycle.Code(value[string](columns, column))
	case "last_error":
		d.lastError = value[string](columns, column)
	default:
		return fmt.Errorf("column %q cannot be set", column)
	}
	return nil
}
