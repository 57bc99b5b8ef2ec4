package drivertest

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/consign-go/consign/internal/driver"
)

// class says how the values of a column are compared.
type class uint8

const (
	asText class = iota
	asNumber
	asBool
	asBytes
	asUUID
	asTime
	ignored // differs between stores, or between runs
)

// columns classifies every column of the tables that are compared. A column that
// is not listed takes part in raw comparisons only.
var columns = map[string]map[string]class{
	"intent": {
		"ref": asUUID, "created_at": ignored, "delivery_key": asUUID, "run_id": asUUID, "predecessor": asUUID,
		"profile": asNumber, "link": asNumber, "task_index": asNumber, "kind": asText, "payload_digest": asBytes,
		"payload": asText, "version": asText, "fingerprint": asBytes, "work_key": asText, "operation": asText,
		"actor": asText, "tenant": asText, "security_version": asText, "target": asText, "target_version": asText,
		"address": asText, "task": asText, "subject": asText, "trace": asText,
	},
	"delivery": {
		"ref": asUUID, "created_at": asTime, "route": asText, "profile": asNumber, "gate_index": ignored,
		"gate_task": asText, "deadline": asTime, "lease_ms": asNumber, "timeout_ms": asNumber, "max_attempts": asNumber,
		"max_age_ms": asNumber, "retry": asNumber, "idempotent": asBool, "status": asNumber, "in_flight": asBool,
		"uncertain": asBool, "attempts": asNumber, "crashes": asNumber, "generation": asNumber, "revision": asNumber,
		"due_at": asTime, "updated_at": asTime, "lease_until": asTime, "started_at": asTime, "review_at": asTime,
		"erased_at": asTime, "owner": asUUID, "program": asText, "digest": asBytes, "code": asText, "last_error": asText,
		"terminal": asNumber,
	},
	"attempt": {
		"ref": asUUID, "generation": asNumber, "number": asNumber, "late": asBool, "outcome": asNumber,
		"http_status": asNumber, "wait_ms": asNumber, "started_at": asTime, "at": asTime, "code": asText, "error": asText,
		"proof": asText,
	},
	"run": {
		"id": asUUID, "created_at": asTime, "sealed_at": asTime, "approval_id": asUUID, "operation": asText,
		"actor": asText, "tenant": asText, "security_version": asText, "target": asText, "target_version": asText,
		"subject": asText, "input_digest": asBytes, "receipt": asText, "work": asBytes,
	},
	"approval": {
		"id": asUUID, "created_at": asTime, "expires_at": asTime, "operation": asText, "actor": asText, "tenant": asText,
		"target": asText, "subject": asText, "input": asText, "input_digest": asBytes, "proposer": asText, "reason": asText,
		"other_confirmer": asBool, "status": asNumber, "decided_by": asText, "decided_at": asTime, "decision": asText,
		"run_id": asUUID, "consumed_at": asTime,
	},
	"setting": {"name": asText, "value": asText},
}

// Dump returns the rows of all compared tables as sorted lines of text that are
// equal on two stores which were told the same. Times are written as whole units
// before or after the database's now, so that a store whose clock runs and one
// whose clock stands still agree; unit has to be far longer than a test takes.
func (h *Harness[TX]) Dump(ctx context.Context, unit time.Duration) (string, error) {
	now, err := h.Bound.Now(ctx)
	if err != nil {
		return "", err
	}
	var lines []string
	for _, table := range slices.Sorted(maps.Keys(columns)) {
		rows, err := h.Rows(ctx, table)
		if err != nil {
			return "", fmt.Errorf("%s: %w", table, err)
		}
		for _, row := range rows {
			line, err := h.line(table, row, now, unit)
			if err != nil {
				return "", fmt.Errorf("%s: %w", table, err)
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}

// line writes one row. Columns that are NULL are left out.
func (h *Harness[TX]) line(table string, row map[string]any, now time.Time, unit time.Duration) (string, error) {
	var b strings.Builder
	b.WriteString(table)
	for _, column := range slices.Sorted(maps.Keys(columns[table])) {
		value, there := row[column]
		if !there {
			return "", fmt.Errorf("no column %q", column)
		}
		how := columns[table][column]
		if value == nil || how == ignored {
			continue
		}
		text, err := h.format(how, value, now, unit)
		if err != nil {
			return "", fmt.Errorf("column %q: %w", column, err)
		}
		fmt.Fprintf(&b, " %s=%s", column, text)
	}
	return b.String(), nil
}

func (h *Harness[TX]) format(how class, value any, now time.Time, unit time.Duration) (string, error) {
	switch how {
	case asUUID:
		id, err := toID(value)
		return id.String(), err
	case asTime:
		at, err := h.toTime(value)
		return fmt.Sprintf("%+du", at.Sub(now).Round(unit)/unit), err
	case asBool:
		if b, ok := value.(bool); ok {
			return fmt.Sprint(b), nil
		}
		n, err := toInt(value)
		return fmt.Sprint(n != 0), err
	case asNumber:
		n, err := toInt(value)
		return fmt.Sprint(n), err
	case asBytes:
		if b, ok := value.([]byte); ok {
			return hex.EncodeToString(b), nil
		}
		return "", fmt.Errorf("bytes as %T", value)
	}
	switch v := value.(type) {
	case string:
		return fmt.Sprintf("%q", v), nil
	case []byte:
		return fmt.Sprintf("%q", v), nil
	}
	return "", fmt.Errorf("text as %T", value)
}

func toID(value any) (driver.ID, error) {
	switch v := value.(type) {
	case driver.ID:
		return v, nil
	case [16]byte:
		return v, nil
	case []byte:
		if len(v) == 16 {
			return driver.ID(v), nil
		}
		return driver.ParseID(string(v))
	case string:
		return driver.ParseID(v)
	}
	return driver.ID{}, fmt.Errorf("uuid as %T", value)
}

func (h *Harness[TX]) toTime(value any) (time.Time, error) {
	if at, ok := value.(time.Time); ok {
		return at, nil
	}
	n, err := toInt(value)
	unit := h.TimeUnit
	if unit == 0 {
		unit = time.Microsecond
	}
	second := int64(time.Second / unit)
	return time.Unix(n/second, n%second*int64(unit)).UTC(), err
}

func toInt(value any) (int64, error) {
	switch v := value.(type) {
	case int:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case int64:
		return v, nil
	case uint64:
		return int64(v), nil
	}
	return 0, fmt.Errorf("number as %T", value)
}

// raw writes every column of every row of table that keep wants, exactly as it
// came from the store.
func (h *Harness[TX]) raw(ctx context.Context, table string, keep func(row map[string]any) bool) (string, error) {
	rows, err := h.Rows(ctx, table)
	if err != nil {
		return "", err
	}
	var lines []string
	for _, row := range rows {
		if keep(row) {
			lines = append(lines, fmt.Sprintf("%s %v", table, row)) // maps print in the order of their keys
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}
