package operator

import (
	"context"
	"encoding/json"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
)

// Audited is one row of the audit: an action, never edited and never removed.
type Audited struct {
	ID     int64
	At     time.Time
	By     string
	Action string      // "resolve", "redeliver", "reissue", "cancel", "pause", "resume", "prune", "erase", "read"; "run" of a program
	Ref    consign.Ref // zero where it is about none
	Run    consign.ID  // zero where it is about none
	Why    string
	Before json.RawMessage // without content; nil: nothing to say
	After  json.RawMessage
}

// AuditFilter says which part of the audit is wanted.
type AuditFilter struct {
	Ref    consign.Ref // Default: everything
	Limit  int         // 1 to 1,000. Default: 100
	Before int64       // rows older than the one with this ID. Default: from the newest
}

// Audit lists what was done, the newest first. Errors: consign.ErrInvalid,
// consign.ErrSchema, or the database's own.
func (o *Operator) Audit(ctx context.Context, f AuditFilter) ([]Audited, error) {
	const op = "audit"
	var fs faults
	limit := fs.limit(f.Limit, 100, 1000)
	if f.Before < 0 {
		fs.add("before", "is negative")
	}
	if err := fs.err(op); err != nil {
		return nil, err
	}
	if err := o.ready(ctx, op); err != nil {
		return nil, err
	}
	rows, err := o.desk.Audits(ctx, driver.AuditRequest{Ref: driver.ID(f.Ref.ID), Before: f.Before, Limit: limit})
	if err != nil {
		return nil, failure(op, err)
	}
	out := make([]Audited, len(rows))
	for i := range rows {
		r := &rows[i]
		out[i] = Audited{
			ID: r.ID, At: r.At, By: r.By, Action: r.Action, Ref: consign.Ref{ID: consign.ID(r.Ref)}, Run: consign.ID(r.Run),
			Why: r.Reason, Before: raw(r.Before), After: raw(r.After),
		}
	}
	return out, nil
}

func raw(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}
