package sqlite

import (
	"context"
	"fmt"
	"strings"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

const (
	intentInto = `INSERT INTO {s}intent (ref, created_at, delivery_key, run_id, predecessor, profile, link, task_index, kind,
    payload_digest, payload, version, fingerprint, work_key, operation, actor, tenant, security_version, target, target_version,
    address, task, subject, trace) VALUES `
	intentRow = `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	deliveryInto = `INSERT INTO {s}delivery (ref, created_at, updated_at, route, profile, gate_index, gate_task, deadline, due_at,
    retry, idempotent, uncertain, digest, lease_ms, timeout_ms, max_attempts, max_age_ms) VALUES `
	deliveryRow = `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	ifAbsent = ` ON CONFLICT (ref) DO NOTHING`
)

// rowsPerInsert is how many rows one statement writes.
const rowsPerInsert = 20

// Insert writes rows in the caller's transaction, all of them or none.
func (t *tx) Insert(ctx context.Context, rows []driver.New) error {
	return t.within(ctx, "insert", func(s *session) error {
		// One time for all. Reading the clock looks at no table, so the first thing
		// that the transaction does to the database is still a write.
		now, err := s.now(ctx)
		if err != nil {
			return err
		}
		for i := 0; i < len(rows); {
			if rows[i].Given {
				if err := s.insertGiven(ctx, &rows[i], i, now); err != nil {
					return err
				}
				i++
				continue
			}
			n := 1
			for n < rowsPerInsert && i+n < len(rows) && !rows[i+n].Given {
				n++
			}
			if err := s.insertFresh(ctx, rows[i:i+n], now); err != nil {
				return err
			}
			i += n
		}
		return nil
	})
}

// insertFresh writes rows whose refs are new: whole statements, or row by row, so
// that few texts are prepared.
func (s *session) insertFresh(ctx context.Context, rows []driver.New, now int64) error {
	for len(rows) > 0 {
		n := 1
		if len(rows) == rowsPerInsert {
			n = rowsPerInsert
		}
		var intents, deliveries []any
		for i := range rows[:n] {
			intents = append(intents, intentArgs(&rows[i], now)...)
			deliveries = append(deliveries, deliveryArgs(&rows[i], now)...)
		}
		if _, err := s.exec(ctx, intentInto+repeated(intentRow, n), intents...); err != nil {
			return err
		}
		if _, err := s.exec(ctx, deliveryInto+repeated(deliveryRow, n), deliveries...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func repeated(row string, n int) string { return row + strings.Repeat(", "+row, n-1) }

// insertGiven writes a row whose ref the caller chose, or leaves an equal one as it
// is. The delivery goes first: it is what stays of an erased intent.
func (s *session) insertGiven(ctx context.Context, n *driver.New, index int, now int64) error {
	written, err := s.exec(ctx, deliveryInto+deliveryRow+ifAbsent, deliveryArgs(n, now)...)
	if err != nil {
		return err
	}
	if written == 1 {
		_, err := s.exec(ctx, intentInto+intentRow, intentArgs(n, now)...)
		return err
	}
	same := false
	err = s.query(ctx, sameContentSQL, sameArgs(n), 1, func(v []any) (bool, error) {
		same = whole(v[0]) == 1
		return false, nil
	})
	if err == nil && !same {
		err = &driver.ConflictError{Index: index}
	}
	return err
}

// sameContentSQL compares what a repeated enqueue has to give again.
const sameContentSQL = `SELECT profile = ? AND kind = ? AND address IS ? AND payload = ? AND task IS ? AND task_index = ? AND subject IS ?
FROM {s}intent WHERE ref = ?`

func sameArgs(n *driver.New) []any {
	return []any{
		int64(n.Profile), n.Kind, n.Address, string(n.Payload), orNull(n.Task), int64(n.Index), orNull(n.Subject), n.Ref[:],
	}
}

func intentArgs(n *driver.New, now int64) []any {
	args := []any{
		n.Ref[:], now, blob(n.CarriedKey()), blob(n.Run), blob(n.Predecessor), int64(n.Profile), int64(n.Link), int64(n.Index), n.Kind,
		n.Digest[:], string(n.Payload), nil, nil, nil, nil, nil, nil, nil, nil, nil,
		nil, orNull(n.Task), orNull(n.Subject), orNull(n.Trace),
	}
	if n.Profile != lifecycle.Work {
		args[20] = n.Address
		return args
	}
	copy(args[11:], []any{
		n.Version, n.Fingerprint[:], n.WorkKey, n.Operation, n.Actor, n.Tenant, n.SecurityVersion, n.Target, n.TargetVersion,
	})
	if n.Address != "" {
		args[20] = n.Address // work has none: the table will say so
	}
	return args
}

func deliveryArgs(n *driver.New, now int64) []any {
	due := now
	if !n.NotBefore.IsZero() {
		due = max(now, micros(n.NotBefore))
	}
	var gateIndex, gateTask, deadline any
	if n.Gated() {
		gateIndex, gateTask = int64(n.Index), n.Task
	}
	if n.Contract.MaxAge > 0 {
		deadline = due + n.Contract.MaxAge.Microseconds()
	}
	args := []any{
		n.Ref[:], now, now, n.Route(), int64(n.Profile), gateIndex, gateTask, deadline, due,
		int64(n.Contract.Retry), flag(n.Contract.Idempotent), flag(n.Uncertain), hash(n.Bound),
	}
	for _, c := range contractColumns(&n.Contract) {
		args = append(args, c.value)
	}
	return args
}

const openRunSQL = `INSERT INTO {s}run
    (id, created_at, operation, actor, tenant, target, subject, input_digest)
VALUES (?, {now}, ?, ?, ?, ?, ?, ?)`

// OpenRun writes the run, unsealed.
func (t *tx) OpenRun(ctx context.Context, r driver.Run) error {
	return t.within(ctx, "open run", func(s *session) error {
		_, err := s.exec(ctx, openRunSQL, r.ID[:], r.Operation, r.Actor, r.Tenant, orNull(r.Target), orNull(r.Subject),
			hash(r.InputDigest))
		return err
	})
}

const sealRunSQL = `UPDATE {s}run SET security_version = ?, target = ?, target_version = ?, receipt = ?, work = ?, sealed_at = {now}
WHERE id = ? AND sealed_at IS NULL`

const auditRunSQL = `INSERT INTO {s}audit (at, made_by, action, run_id, approval_id)
SELECT sealed_at, actor, 'run', id, approval_id FROM {s}run WHERE id = ?`

// SealRun completes a run that is open.
func (t *tx) SealRun(ctx context.Context, r driver.Run) error {
	return t.within(ctx, "seal run", func(s *session) error {
		n, err := s.exec(ctx, sealRunSQL, r.SecurityVersion, r.Target, r.TargetVersion, orNull(string(r.Receipt)),
			r.WorkBytes(), r.ID[:])
		if err != nil {
			return err
		}
		if n != 1 {
			return fmt.Errorf("run %s is not open", r.ID)
		}
		_, err = s.exec(ctx, auditRunSQL, r.ID[:])
		return err
	})
}
