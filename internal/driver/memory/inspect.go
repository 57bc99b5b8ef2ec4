package memory

import (
	"fmt"
	"strconv"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Rows returns all rows of one table, named as the SQL stores name it, as maps
// from column to value. NULL is nil. It is for tests that compare stores.
func (s *Store) Rows(table string) ([]map[string]any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.rows
	var rows []map[string]any
	switch table {
	case "intent":
		for _, i := range t.intents {
			rows = append(rows, intentRow(i))
		}
	case "delivery":
		for _, d := range t.deliveries {
			rows = append(rows, d.row())
		}
	case "attempt":
		for _, log := range t.attempts {
			for i := range log {
				rows = append(rows, attemptRow(&log[i]))
			}
		}
	case "resolution":
		for i := range t.resolutions {
			rows = append(rows, t.resolutions[i].row())
		}
	case "run":
		for _, r := range t.runs {
			rows = append(rows, r.row())
		}
	case "approval":
		for _, a := range t.approvals {
			rows = append(rows, a.row())
		}
	case "audit":
		for i := range t.audits {
			rows = append(rows, t.audits[i].row(i))
		}
	case "setting":
		if t.pruned > 0 {
			rows = append(rows, map[string]any{"name": "pruned", "value": strconv.Itoa(t.pruned)})
		}
	case "program":
		for _, p := range t.programs {
			rows = append(rows, map[string]any{
				"id": p.ID, "name": p.Name, "started_at": p.startedAt, "heartbeat_at": p.heartbeatAt,
			})
		}
	case "program_route":
		for _, p := range t.programs {
			rows = append(rows, p.routes()...)
		}
	case "pause":
		for _, p := range t.pauses {
			rows = append(rows, map[string]any{
				"profile": int(p.Profile), "kind": p.Kind, "at": p.At, "made_by": p.By, "reason": text(p.Reason),
			})
		}
	default:
		return nil, fmt.Errorf("no table %q", table)
	}
	return rows, nil
}

// Absent values are NULL.

func id(v driver.ID) any {
	if v == (driver.ID{}) {
		return nil
	}
	return v
}

func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func moment(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

func number(n int) any {
	if n == 0 {
		return nil
	}
	return n
}

func intentRow(i *driver.Intent) map[string]any {
	row := map[string]any{
		"ref": i.Ref, "created_at": i.CreatedAt, "delivery_key": id(i.CarriedKey()), "run_id": id(i.Run),
		"predecessor": id(i.Predecessor), "profile": int(i.Profile), "link": int(i.Link), "task_index": i.Index,
		"kind": i.Kind, "payload_digest": i.Digest[:], "payload": string(i.Payload),
		"version": nil, "fingerprint": nil, "work_key": nil, "operation": nil, "actor": nil, "tenant": nil,
		"security_version": nil, "target": nil, "target_version": nil, "address": nil,
		"task": text(i.Task), "subject": text(i.Subject), "trace": text(i.Trace),
	}
	if i.Profile == lifecycle.Message {
		row["address"] = i.Address
		return row
	}
	row["version"], row["fingerprint"], row["work_key"] = i.Version, i.Fingerprint[:], i.WorkKey
	row["operation"], row["actor"], row["tenant"] = i.Operation, i.Actor, i.Tenant
	row["security_version"], row["target"], row["target_version"] = i.SecurityVersion, i.Target, i.TargetVersion
	return row
}

func (d *delivery) row() map[string]any {
	s, c := &d.state, &d.state.Contract
	row := map[string]any{
		"ref": d.ref, "created_at": d.createdAt, "route": d.route, "profile": int(s.Profile),
		"gate_index": nil, "gate_task": nil, "deadline": moment(d.deadline),
		"lease_ms": nil, "timeout_ms": nil, "max_attempts": number(c.MaxAttempts), "max_age_ms": number(int(c.MaxAge.Milliseconds())),
		"retry": int(c.Retry), "idempotent": c.Idempotent,
		"status": int(s.Status), "in_flight": s.InFlight, "uncertain": s.Uncertain, "attempts": s.Attempts,
		"crashes": s.Crashes, "generation": s.Generation, "revision": s.Revision,
		"due_at": moment(d.dueAt), "updated_at": d.updatedAt, "lease_until": moment(d.leaseUntil),
		"started_at": moment(d.startedAt), "review_at": moment(d.reviewAt), "erased_at": moment(d.erasedAt),
		"owner": id(driver.ID(s.Owner)), "program": text(d.program), "digest": nil,
		"code": text(string(s.Code)), "last_error": text(d.lastError), "terminal": nil,
	}
	if d.gated {
		row["gate_task"], row["gate_index"] = d.task, d.taskIndex
	}
	if c.Retry != lifecycle.Unclaimed {
		row["lease_ms"], row["timeout_ms"] = int(c.Lease.Milliseconds()), int(c.Timeout.Milliseconds())
	}
	if s.Digest != (lifecycle.Digest{}) {
		row["digest"] = s.Digest[:]
	}
	if s.Status.Terminal() {
		row["terminal"] = int(s.Status)
	}
	return row
}

func attemptRow(l *driver.Logged) map[string]any {
	return map[string]any{
		"ref": l.Ref, "generation": l.Generation, "number": l.Number, "late": l.Late, "outcome": int(l.Outcome),
		"http_status": number(l.HTTPStatus), "wait_ms": number(int(l.Wait.Milliseconds())), "started_at": moment(l.StartedAt),
		"at": l.At, "code": text(string(l.Code)), "error": text(l.Error), "proof": text(l.Proof),
	}
}

func (r *run) row() map[string]any {
	row := map[string]any{
		"id": r.ID, "created_at": r.CreatedAt, "sealed_at": moment(r.SealedAt), "approval_id": id(r.Approval),
		"operation": r.Operation, "actor": r.Actor, "tenant": r.Tenant, "security_version": text(r.SecurityVersion),
		"target": text(r.Target), "target_version": text(r.TargetVersion), "subject": text(r.Subject),
		"input_digest": nil, "receipt": text(string(r.Receipt)), "work": r.WorkBytes(),
	}
	if r.InputDigest != (lifecycle.Digest{}) {
		row["input_digest"] = r.InputDigest[:]
	}
	return row
}

func (r *resolution) row() map[string]any {
	return map[string]any{
		"id": r.id, "ref": r.ref, "at": moment(r.at), "outcome": r.outcome, "source": r.source,
		"supersedes": id(r.supersedes), "made_by": r.madeBy, "evidence": text(r.evidence),
	}
}

func (a *approval) row() map[string]any {
	return map[string]any{
		"id": a.ID, "created_at": a.CreatedAt, "expires_at": a.ExpiresAt, "operation": a.Operation,
		"actor": a.Actor, "tenant": a.Tenant, "target": text(a.Target), "subject": text(a.Subject),
		"input": text(string(a.Input)), "input_digest": a.InputDigest[:], "proposer": a.Proposer, "reason": text(a.Reason),
		"other_confirmer": a.OtherConfirmer, "status": int(a.Status),
		"decided_by": text(a.By), "decided_at": moment(a.DecidedAt), "decision": text(a.Decision),
		"run_id": id(a.Run), "consumed_at": moment(a.ConsumedAt),
	}
}

func (a *audit) row(n int) map[string]any {
	return map[string]any{
		"id": n + 1, "at": a.at, "made_by": a.madeBy, "action": a.action, "run_id": id(a.run),
		"approval_id": id(a.approval), "ref": id(a.ref), "reason": text(a.reason), "before": text(a.before), "after": text(a.after),
	}
}

func (p *program) routes() []map[string]any {
	var rows []map[string]any
	for i := range p.Serves {
		s := &p.Serves[i]
		c := &s.Contract
		row := map[string]any{
			"program_id": p.ID, "profile": int(s.Profile), "kind": s.Kind, "version": s.Version,
			"fingerprint": s.Fingerprint[:], "upgrades": s.Upgrade,
			"retry": int(c.Retry), "idempotent": c.Idempotent, "lease_ms": nil, "timeout_ms": nil,
			"max_attempts": number(c.MaxAttempts), "max_age_ms": number(int(c.MaxAge.Milliseconds())),
		}
		if c.Retry != lifecycle.Unclaimed {
			row["lease_ms"], row["timeout_ms"] = int(c.Lease.Milliseconds()), int(c.Timeout.Milliseconds())
		}
		rows = append(rows, row)
	}
	return rows
}
