package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign/internal/driver"
)

// loadSQL reads records by primary key. An erased one has no intent.
const loadSQL = `
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at)
SELECT ` + stateColumns + `, ` + gateSQL + `, ` + intentColumns + `,
       d.started_at, d.updated_at, d.review_at, d.program, d.last_error
FROM {s}delivery d
LEFT JOIN {s}intent i ON i.ref = d.ref
WHERE d.ref = ANY ($1::uuid[])`

// Load returns the records of refs.
func (e *engine) Load(ctx context.Context, refs []driver.ID) ([]driver.Record, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	var records []driver.Record
	var started, updated, review time.Time
	var program, lastError string
	row := newRow((*instant)(&started), (*instant)(&updated), (*instant)(&review), (*words[string])(&program),
		(*words[string])(&lastError))
	err := e.read(ctx, "load", e.q.load, []any{uuids(refs)}, func(rows pgx.Rows) error {
		if err := row.scan(rows); err != nil {
			return err
		}
		records = append(records, driver.Record{
			Intent: row.intent, State: row.state(), DueAt: row.dueAt, LeaseUntil: row.leaseUntil,
			Deadline: row.deadline, StartedAt: started, UpdatedAt: updated, ReviewAt: review, ErasedAt: row.erasedAt,
			Program: program, LastError: lastError,
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return records, nil
}

// loadRunSQL reads a run by primary key.
const loadRunSQL = `
SELECT operation, actor, tenant, security_version, target, target_version, subject, input_digest, approval_id, receipt, work,
       created_at, sealed_at
FROM {s}run
WHERE id = $1::uuid AND sealed_at IS NOT NULL`

// Run returns a run that was sealed.
func (e *engine) Run(ctx context.Context, run driver.ID) (driver.Run, bool, error) {
	var r driver.Run
	found := false
	err := e.read(ctx, "run", e.q.loadRun, []any{uuid(run)}, func(rows pgx.Rows) error {
		r.ID, found = run, true
		var receipt string
		var work []byte
		err := rows.Scan(&r.Operation, &r.Actor, &r.Tenant, &r.SecurityVersion, &r.Target, &r.TargetVersion,
			(*words[string])(&r.Subject), (*hash)(&r.InputDigest), (*id)(&r.Approval), (*words[string])(&receipt), &work,
			(*instant)(&r.CreatedAt), (*instant)(&r.SealedAt))
		if receipt != "" {
			r.Receipt = []byte(receipt)
		}
		r.ReadWork(work)
		return err
	})
	if err != nil {
		return driver.Run{}, false, err
	}
	return r, found, nil
}

// Now reads the database clock.
func (e *engine) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	err := e.read(ctx, "now", "SELECT clock_timestamp()", nil, func(rows pgx.Rows) error {
		return rows.Scan((*instant)(&now))
	})
	return now, err
}
