package postgres

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// ruled is a table whose rows have rules, with what to put into its columns: SQL
// expressions by column.
type ruled struct {
	table, constraint string
	ordinary          []map[string]string // rows of which the rules are not asked
	odd               map[string]string   // a row of which they are
	deviations        map[string][]string // values that change the answer, or not
}

var ruledTables = []ruled{{
	table: "intent", constraint: "intent_shape",
	ordinary: []map[string]string{{
		"ref": "$1::uuid", "created_at": "now()", "profile": "2", "kind": "'mail'",
		"payload_digest": "sha256('')", "payload": "'{}'", "address": "''",
	}},
	odd: map[string]string{
		"ref": "$2::uuid", "created_at": "now()", "profile": "1", "kind": "'closed'",
		"payload_digest": "sha256('')", "payload": "'{}'", "version": "'1'", "fingerprint": "sha256('')", "run_id": "$1::uuid",
		"work_key": "'k'", "operation": "''", "actor": "''", "tenant": "''", "security_version": "''", "target": "''", "target_version": "''",
	},
	deviations: map[string][]string{
		"delivery_key": {"$2::uuid"}, "profile": {"0", "1", "3"}, "link": {"-1", "1", "2", "3"}, "predecessor": {"$1::uuid"},
		"kind": {"''", "repeat('x', 129)", "repeat('ä', 64)", "repeat('ä', 65)"}, "payload_digest": {"''", "sha224('')"},
		"payload": {"repeat('x', 4096)", "repeat('x', 4097)"}, "version": {"'1'"}, "fingerprint": {"sha256('')", "''"},
		"run_id": {"$1::uuid"}, "work_key": {"'k'", "''"}, "operation": {"''"}, "actor": {"''"}, "tenant": {"''"},
		"security_version": {"''"}, "target": {"''"}, "target_version": {"''"}, "address": {"NULL", "'a'"}, "task": {"'t'"},
		"subject": {"'s'"}, "task_index": {"-1"},
	},
}, {
	table: "delivery", constraint: "delivery_state",
	ordinary: []map[string]string{
		{
			"ref": "$1::uuid", "created_at": "now()", "updated_at": "now()", "due_at": "now()", "route": "'m:mail'", "profile": "2",
			"retry": "0",
		},
		{
			"ref": "$1::uuid", "created_at": "now()", "updated_at": "now()", "due_at": "now()", "route": "'m:mail'", "profile": "2",
			"retry": "2", "lease_ms": "1", "timeout_ms": "1",
		},
	},
	odd: map[string]string{
		"ref": "$2::uuid", "created_at": "now()", "updated_at": "now()", "due_at": "now()", "route": "'m:mail'", "profile": "2",
		"retry": "2", "lease_ms": "1", "timeout_ms": "1", "status": "1", "owner": "$1::uuid", "lease_until": "now()",
	},
	deviations: map[string][]string{
		"profile": {"0", "1", "3"}, "retry": {"-1", "0", "1", "2", "3"}, "status": {"-1", "1", "2", "3", "4", "5", "6", "7"},
		"terminal": {"0", "3", "4"}, "generation": {"-1", "1"}, "revision": {"-1", "1"}, "crashes": {"-1", "1"},
		"attempts": {"-1", "1"}, "max_attempts": {"-1", "0", "1"}, "digest": {"''", "sha256('')"}, "lease_ms": {"NULL", "1"},
		"timeout_ms": {"NULL", "1"}, "owner": {"$1::uuid"}, "lease_until": {"now()"}, "due_at": {"NULL"}, "in_flight": {"true"},
		"uncertain": {"true"}, "review_at": {"now()"}, "erased_at": {"now()"}, "last_error": {"'x'"}, "gate_task": {"'t'"},
		"code": {"'REJECTED'", "''", "'rejected'"}, "idempotent": {"true"}, "max_age_ms": {"0"}, "deadline": {"now()"},
	},
}}

// fitsSQL makes a function that reports whether a statement keeps a table's rules, and
// undoes it.
const fitsSQL = `
CREATE FUNCTION {s}fits(statement text, rules text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    broken text;
BEGIN
    EXECUTE statement;
    RAISE no_data_found;
EXCEPTION
    WHEN no_data_found THEN
        RETURN true;
    WHEN check_violation THEN
        GET STACKED DIAGNOSTICS broken = CONSTRAINT_NAME;
        ASSERT broken = rules;
        RETURN false;
END
$$`

// TestOrdinaryRowsAreWithinTheRules: rows that the triggers accept at a glance are
// those that their rules accept. Each row is offered alone and beside one that the
// glance does not accept, so that the rules are asked of both: every ordinary row,
// and each that differs from it in one or two columns.
func TestOrdinaryRowsAreWithinTheRules(t *testing.T) {
	d := open(t)
	d.exec(t, fitsSQL)
	for i := range ruledTables {
		r := &ruledTables[i]
		rows := r.rows()
		var alone, beside []string
		for _, row := range rows {
			alone, beside = append(alone, d.expand(r.insert(row))), append(beside, d.expand(r.insert(row, r.odd)))
		}
		const fit = "SELECT array_agg({s}fits(s, $2::text) ORDER BY n) FROM unnest($1::text[]) WITH ORDINALITY AS u(s, n)"
		glance := one[[]bool](t, d, fit, alone, r.constraint)
		rules := one[[]bool](t, d, fit, beside, r.constraint)
		for n := range rows {
			if glance[n] != rules[n] {
				t.Errorf("%s: %v fits: %v alone, %v by the rules", r.table, rows[n], glance[n], rules[n])
			}
		}
		if !slices.Contains(glance, true) || !slices.Contains(glance, false) {
			t.Errorf("%s: all %d rows got one answer", r.table, len(rows))
		}
	}
}

// rows are the ordinary rows, and each with one or two deviations.
func (r *ruled) rows() []map[string]string {
	var out []map[string]string
	columns := slices.Sorted(maps.Keys(r.deviations))
	for _, ordinary := range r.ordinary {
		out = append(out, ordinary)
		for i, first := range columns {
			for _, a := range r.deviations[first] {
				one := with(ordinary, first, a)
				out = append(out, one)
				for _, second := range columns[i+1:] {
					for _, b := range r.deviations[second] {
						out = append(out, with(one, second, b))
					}
				}
			}
		}
	}
	return out
}

func with(row map[string]string, column, value string) map[string]string {
	row = maps.Clone(row)
	row[column] = value
	return row
}

// insert is the statement that writes rows.
func (r *ruled) insert(rows ...map[string]string) string {
	columns := map[string]bool{}
	for _, row := range rows {
		for column := range row {
			columns[column] = true
		}
	}
	names := slices.Sorted(maps.Keys(columns))
	values := make([]string, len(rows))
	for i, row := range rows {
		of := make([]string, len(names))
		for n, name := range names {
			if of[n] = row[name]; of[n] == "" {
				of[n] = "DEFAULT"
			}
		}
		values[i] = "(" + strings.Join(of, ", ") + ")"
	}
	sql := "INSERT INTO {s}" + r.table + " (" + strings.Join(names, ", ") + ") VALUES " + strings.Join(values, ", ")
	return strings.NewReplacer("$1", "'00000000-0000-0000-0000-000000000001'", "$2", "'00000000-0000-0000-0000-000000000002'").Replace(sql)
}
