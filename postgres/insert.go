package postgres

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/consign-go/consign/internal/driver"
)

// Intents and their deliveries are written by one statement, so that an enqueue
// costs the caller's transaction one round trip however many there are. Each table
// reads its own columns from the parameters: handing whole rows from one to the
// other would copy every payload once more.
//
// A column whose value is the same in all rows travels as a single value beside a
// NULL array (fold), and costs nothing for each row: of 27 columns a batch of
// messages sends four or five as arrays.
const (
	insertIntentSQL = `
    INSERT INTO {s}intent (
        ref, created_at, delivery_key, run_id, predecessor, profile, link, task_index, kind, payload_digest, payload,
        version, fingerprint, work_key, operation, actor, tenant, security_version, target, target_version,
        address, task, subject, trace)
    SELECT r.ref, (SELECT at FROM clock), r.delivery_key, COALESCE(r.run_id, $36::uuid), r.predecessor,
           r.profile, r.link, COALESCE(r.task_index, 0), COALESCE(r.kind, $12::text), r.payload_digest, r.payload,
           COALESCE(r.version, $16::text, r.blank), COALESCE(r.fingerprint, $38::bytea), r.work_key,
           COALESCE(r.operation, $18::text, r.blank), COALESCE(r.actor, $20::text, r.blank),
           COALESCE(r.tenant, $22::text, r.blank), COALESCE(r.security_version, $24::text, r.blank),
           COALESCE(r.target, $26::text, r.blank), COALESCE(r.target_version, $28::text, r.blank),
           COALESCE(r.address, $30::text, CASE r.profile WHEN 2 THEN '' END),
           COALESCE(r.task, $32::text), COALESCE(r.subject, $34::text), r.trace
    FROM (
        SELECT u.*,
               COALESCE(u.bits, $40::integer) & 3 AS profile,
               COALESCE(u.bits, $40::integer) >> 2 & 3 AS link,
               CASE COALESCE(u.bits, $40::integer) & 3 WHEN 1 THEN '' END AS blank
        FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::uuid[], $5::text[], $6::text[], $8::uuid[], $10::integer[],
                    $11::text[], $15::text[], $17::text[], $19::text[], $21::text[], $23::text[], $25::text[], $27::text[],
                    $29::text[], $31::text[], $33::text[], $35::uuid[], $37::bytea[], $39::integer[])
             AS u(ref, payload, payload_digest, delivery_key, work_key, trace, predecessor, task_index,
                  kind, version, operation, actor, tenant, security_version, target, target_version,
                  address, task, subject, run_id, fingerprint, bits)
    ) r`

	insertDeliverySQL = `
    INSERT INTO {s}delivery (
        ref, created_at, route, profile, gate_task, gate_index, deadline, lease_ms, timeout_ms, max_attempts, max_age_ms,
        retry, idempotent, uncertain, digest, due_at, updated_at)
    SELECT r.ref, (SELECT at FROM clock), COALESCE(r.route, $14::text), r.bits & 3,
           CASE r.bits >> 2 & 3 WHEN 0 THEN COALESCE(r.task, $32::text) END,
           CASE WHEN r.bits >> 2 & 3 = 0 AND COALESCE(r.task, $32::text) IS NOT NULL THEN COALESCE(r.task_index, 0) END,
           GREATEST((SELECT at FROM clock), r.not_before) + r.max_age_ms * interval '1 millisecond',
           CASE WHEN r.bits >> 4 & 3 > 0 THEN COALESCE(r.lease_ms, $44::integer) END,
           CASE WHEN r.bits >> 4 & 3 > 0 THEN COALESCE(r.timeout_ms, $46::integer) END,
           NULLIF(COALESCE(r.max_attempts, $42::integer), 0), r.max_age_ms,
           r.bits >> 4 & 3, r.bits & 64 <> 0, r.bits & 128 <> 0, r.bound,
           GREATEST((SELECT at FROM clock), r.not_before), (SELECT at FROM clock)
    FROM (
        SELECT u.ref, u.not_before, u.bound, u.task_index, u.route, u.task, u.max_attempts, u.lease_ms, u.timeout_ms,
               COALESCE(u.bits, $40::integer) AS bits,
               NULLIF(COALESCE(u.max_age_ms, $48::bigint), 0) AS max_age_ms
        FROM unnest($1::uuid[], $7::timestamptz[], $9::bytea[], $10::integer[], $13::text[], $31::text[], $39::integer[],
                    $41::integer[], $43::integer[], $45::integer[], $47::bigint[])
             AS u(ref, not_before, bound, task_index, route, task, bits, max_attempts, lease_ms, timeout_ms, max_age_ms)
    ) r`
)

// insertSQL writes rows under refs that this program made. One that exists is a
// fault and fails the statement.
const insertSQL = `
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at),
intents AS (` + insertIntentSQL + `
)` + insertDeliverySQL

// insertGivenSQL writes rows of which some have a ref that the caller chose, and
// passes over those that exist. A row that another transaction is writing at this
// moment is waited for. It returns what it wrote, to be compared with what it was
// given: a join that finds out here would hash or nest whatever the planner
// believes about the batch, inside the caller's transaction, whose settings are
// not ours. Both tables are asked, because of an erased intent only the delivery
// is left.
const insertGivenSQL = `
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at),
intents AS (` + insertIntentSQL + `
    ON CONFLICT (ref) DO NOTHING
    RETURNING ref
),
deliveries AS (` + insertDeliverySQL + `
    ON CONFLICT (ref) DO NOTHING
    RETURNING ref
)
SELECT ref, true FROM deliveries
UNION ALL
SELECT ref, false FROM intents`

// storedSQL reads what a repeated enqueue has to equal. It is a statement of its
// own, so that it sees what insertGivenSQL waited for.
const storedSQL = `
SELECT ref, profile, kind, COALESCE(address, ''), payload, COALESCE(task, ''), task_index, COALESCE(subject, '')
FROM {s}intent
WHERE ref = ANY ($1::uuid[])`

// unwriteSQL takes back what insertGivenSQL wrote before a conflict was found.
// Nobody but this transaction has seen it.
const unwriteSQL = `
WITH deliveries AS (
    DELETE FROM {s}delivery WHERE ref = ANY ($1::uuid[])
)
DELETE FROM {s}intent WHERE ref = ANY ($2::uuid[])`

// Insert writes intents and their deliveries.
func (t *transaction) Insert(ctx context.Context, rows []driver.New) error {
	if len(rows) == 0 {
		return nil
	}
	if slices.ContainsFunc(rows, func(n driver.New) bool { return n.Given }) {
		return clean("insert", t.insertGiven(ctx, rows))
	}
	if len(rows) == 1 {
		return clean("insert", t.on.exec(ctx, t.e.q.insertOne, oneArgs(&rows[0])))
	}
	refs := make([]*driver.New, len(rows))
	for i := range rows {
		refs[i] = &rows[i]
	}
	return clean("insert", t.on.exec(ctx, t.e.q.insert, insertArgs(refs)))
}

// insertGiven writes rows of which some may exist, all of them or none.
func (t *transaction) insertGiven(ctx context.Context, rows []driver.New) error {
	wanted, conflict := distinct(rows)
	var w written
	// In the order of refs, so that two calls with the same refs wait for each
	// other and do not deadlock.
	slices.SortFunc(wanted, func(a, b *driver.New) int { return bytes.Compare(a.Ref[:], b.Ref[:]) })
	sql, args := t.e.q.insertOneGiven, []any(nil)
	if len(wanted) == 1 {
		args = oneArgs(wanted[0])
	} else {
		sql, args = t.e.q.insertGiven, insertArgs(wanted)
	}
	err := t.on.query(ctx, sql, args, func(scan scanFunc) error {
		var ref string
		var delivery bool
		if err := scan(&ref, &delivery); err != nil {
			return err
		}
		parsed, err := driver.ParseID(ref)
		if delivery {
			w.deliveries = append(w.deliveries, parsed)
		} else {
			w.intents = append(w.intents, parsed)
		}
		return err
	})
	if err != nil {
		return err
	}
	if len(w.deliveries) != len(wanted) || len(w.intents) != len(wanted) {
		first, err := t.compare(ctx, rows, &w)
		if err != nil {
			return err
		}
		if first >= 0 && (conflict < 0 || first < conflict) {
			conflict = first
		}
	}
	if conflict < 0 {
		return nil
	}
	if err := t.unwrite(ctx, &w); err != nil {
		return err
	}
	if !rows[conflict].Given {
		return driver.ErrTaken
	}
	return &driver.ConflictError{Index: conflict}
}

// distinct returns the rows without repetitions of a given ref, and the first
// that repeats one with other content, or -1.
func distinct(rows []driver.New) (wanted []*driver.New, conflict int) {
	seen := make(map[driver.ID]*driver.New, len(rows))
	conflict = -1
	for i := range rows {
		n := &rows[i]
		first, again := seen[n.Ref]
		switch {
		case !again:
			seen[n.Ref] = n
			wanted = append(wanted, n)
		case conflict < 0 && (!n.Given || !sameContent(&first.Intent, &n.Intent)):
			conflict = i
		}
	}
	return wanted, conflict
}

// compare looks at those of rows that were there before w was written, and returns
// the place of the first that differs from what is stored, or -1.
func (t *transaction) compare(ctx context.Context, rows []driver.New, w *written) (int, error) {
	fresh := make(map[driver.ID]bool, len(w.deliveries))
	for _, ref := range w.deliveries {
		fresh[ref] = true
	}
	var refs uuids
	for i := range rows {
		if !fresh[rows[i].Ref] {
			refs = append(refs, rows[i].Ref)
		}
	}
	stored := make(map[driver.ID]*driver.Intent, len(refs))
	err := t.pinned(ctx, func() error {
		return t.on.query(ctx, t.e.q.stored, []any{refs}, func(scan scanFunc) error {
			var ref string
			var i driver.Intent
			if err := scan(&ref, &i.Profile, &i.Kind, &i.Address, &i.Payload, &i.Task, &i.Index, &i.Subject); err != nil {
				return err
			}
			var err error
			i.Ref, err = driver.ParseID(ref)
			stored[i.Ref] = &i
			return err
		})
	})
	if err != nil {
		return 0, err
	}
	for _, ref := range w.intents {
		if !fresh[ref] {
			delete(stored, ref) // only the delivery was there: the intent was erased
		}
	}
	for i := range rows {
		n := &rows[i]
		if fresh[n.Ref] {
			continue
		}
		if old := stored[n.Ref]; old == nil || !n.Given || !sameContent(old, &n.Intent) {
			return i, nil // also where it was erased: its ref is never used again
		}
	}
	return -1, nil
}

// sameContent compares what a repeated enqueue has to give again.
func sameContent(a, b *driver.Intent) bool {
	return a.Profile == b.Profile && a.Kind == b.Kind && a.Address == b.Address && bytes.Equal(a.Payload, b.Payload) &&
		a.Task == b.Task && a.Index == b.Index && a.Subject == b.Subject
}

// written is what insertGivenSQL wrote.
type written struct{ deliveries, intents uuids }

func (t *transaction) unwrite(ctx context.Context, w *written) error {
	if len(w.deliveries)+len(w.intents) == 0 {
		return nil
	}
	return t.pinned(ctx, func() error {
		return t.on.exec(ctx, t.e.q.unwrite, []any{
			array(w.deliveries, len(w.deliveries)), array(w.intents, len(w.intents)),
		})
	})
}

// pinned runs fn while a scan of a whole table is out of the question: what is
// looked for is found by primary key, whatever the statistics say (see pinSQL). The
// transaction is the caller's, so the setting goes back to what it was.
func (t *transaction) pinned(ctx context.Context, fn func() error) error {
	const set = "SELECT set_config('enable_seqscan', $1::text, true)"
	before := ""
	read := func(scan scanFunc) error { return scan(&before) }
	if err := t.on.query(ctx, "SELECT current_setting('enable_seqscan')", nil, read); err != nil {
		return err
	}
	if err := t.on.exec(ctx, set, []any{"off"}); err != nil {
		return err
	}
	return errors.Join(fn(), t.on.exec(ctx, set, []any{before}))
}
