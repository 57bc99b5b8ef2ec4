package postgres

import (
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Most transactions enqueue a single intent, and for one row the machinery of
// insertSQL (48 parameters, 33 array scans to set up) costs several times what the
// row does. So one row has a statement of its own, of plain values. Its now is the
// moment at which the server got the statement, however old the transaction is.
const (
	oneIntentSQL = `
    INSERT INTO {s}intent (
        ref, created_at, delivery_key, run_id, predecessor, profile, link, task_index, kind, payload_digest, payload,
        version, fingerprint, work_key, operation, actor, tenant, security_version, target, target_version,
        address, task, subject, trace)
    VALUES (
        $1::uuid, statement_timestamp(), $2::uuid, $3::uuid, $4::uuid, $5::smallint, $6::smallint, $7::integer, $8::text,
        $9::bytea, $10::text, $11::text, $12::bytea, $13::text, $14::text, $15::text, $16::text, $17::text, $18::text,
        $19::text, $20::text, $21::text, $22::text, $23::text)`

	oneDeliverySQL = `
    INSERT INTO {s}delivery (
        ref, created_at, route, profile, gate_task, gate_index, deadline, lease_ms, timeout_ms, max_attempts, max_age_ms,
        retry, idempotent, uncertain, digest, due_at, updated_at)
    VALUES (
        $1::uuid, statement_timestamp(), $24::text, $5::smallint, $25::text, $26::integer,
        GREATEST(statement_timestamp(), $27::timestamptz) + $31::bigint * interval '1 millisecond',
        $28::integer, $29::integer, $30::integer, $31::bigint, $32::smallint, $33::boolean, $34::boolean, $35::bytea,
        GREATEST(statement_timestamp(), $27::timestamptz), statement_timestamp())`
)

// insertOneSQL writes one row under a ref that this program made.
const insertOneSQL = `
WITH intents AS (` + oneIntentSQL + `
)` + oneDeliverySQL

// insertOneGivenSQL is insertGivenSQL for one row.
const insertOneGivenSQL = `
WITH intents AS (` + oneIntentSQL + `
    ON CONFLICT (ref) DO NOTHING
    RETURNING ref
),
deliveries AS (` + oneDeliverySQL + `
    ON CONFLICT (ref) DO NOTHING
    RETURNING ref
)
SELECT ref, true FROM deliveries
UNION ALL
SELECT ref, false FROM intents`

// oneArgs is a row as the parameters of these statements.
func oneArgs(n *driver.New) []any {
	c, isWork := &n.Contract, n.Profile == lifecycle.Work
	filled := func(s string, is bool) any { // what may be empty, and is not NULL where it belongs
		if is {
			return s
		}
		return text(s)
	}
	positive := func(v int64) any {
		if v == 0 {
			return nil
		}
		return v
	}
	var gate, index, lease, timeout any
	if n.Gated() {
		gate, index = n.Task, int64(n.Index)
	}
	if c.Retry != lifecycle.Unclaimed {
		lease, timeout = c.Lease.Milliseconds(), c.Timeout.Milliseconds()
	}
	return []any{
		uuid(n.Ref), uuid(n.CarriedKey()), uuid(n.Run), uuid(n.Predecessor), int64(n.Profile), int64(n.Link), int64(n.Index),
		n.Kind, n.Digest[:], string(n.Payload),
		filled(n.Version, isWork), digest(n.Fingerprint), text(n.WorkKey), filled(n.Operation, isWork), filled(n.Actor, isWork),
		filled(n.Tenant, isWork), filled(n.SecurityVersion, isWork), filled(n.Target, isWork), filled(n.TargetVersion, isWork),
		filled(n.Address, !isWork), text(n.Task), text(n.Subject), text(n.Trace),
		n.Route(), gate, index, moment(n.NotBefore), lease, timeout,
		positive(int64(c.MaxAttempts)), positive(c.MaxAge.Milliseconds()),
		int64(c.Retry), c.Idempotent, n.Uncertain, digest(n.Bound),
	}
}
