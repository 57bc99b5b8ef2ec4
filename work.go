package consign

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/consign-go/consign/internal/canon"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// RecordPolicy says which version of the target a delivery accepts.
type RecordPolicy int

const (
	// Exact: the target's version must be the one that the run committed.
	Exact RecordPolicy = iota
	// Current: newer data is accepted; scope and authority are checked all the
	// same, and a request that is bound already never changes.
	Current
)

// Work is the contract of a kind of work with input of type T, a struct. Declare
// it as a package variable. A changed contract is another fingerprint: what was
// enqueued under the old one is not delivered under the new one, so changing what
// a handler means takes a deliberate new Version. The fingerprint does not look
// into code.
type Work[T any] struct {
	// Kind is the stable name: 1 to 128 bytes of printable ASCII.
	Kind string

	// Version is the version of the contract: 1 to 128 bytes of printable ASCII.
	// Default: "1".
	Version string

	// Idempotent says that the far side enforces the delivery key for the entire
	// request, so that an unknown outcome may be tried again. Default: false.
	Idempotent bool

	// Lease is how long a claim holds: longer than Timeout plus the settle margin
	// of 10 s, at most 24 h. Default: 60 s.
	Lease time.Duration

	// Timeout is what the effect may take. Default: 30 s.
	Timeout time.Duration

	// MaxAttempts is how often the effect may be started, 1 to 1,000. Default: 3.
	MaxAttempts int

	// MaxAge is how long after the enqueue the effect may still be started, at
	// most 10 years. Default: 24 h.
	MaxAge time.Duration

	// Record is the policy for the target's version. Default: Exact.
	Record RecordPolicy
}

const payloadLimit = 4096

// kind is a Work[T] without its type: checked, with defaults and fingerprint.
type kind struct {
	name, version string
	contract      lifecycle.Contract
	fingerprint   [32]byte
	err           error
}

var kinds sync.Map // Work[T] value -> *kind

// kind returns the checked contract, computed once per value.
func (w Work[T]) kind() *kind {
	if k, ok := kinds.Load(w); ok {
		return k.(*kind)
	}
	k, _ := kinds.LoadOrStore(w, w.compile())
	return k.(*kind)
}

func (w Work[T]) compile() *kind {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if w.Version == "" {
		w.Version = "1"
	}
	if w.MaxAttempts == 0 {
		w.MaxAttempts = 3
	}
	set(&w.Lease, 60*time.Second)
	set(&w.Timeout, 30*time.Second)
	set(&w.MaxAge, 24*time.Hour)
	k := &kind{name: w.Kind, version: w.Version, contract: lifecycle.Contract{
		Retry: lifecycle.Schedule, Idempotent: w.Idempotent, MaxAttempts: w.MaxAttempts,
		Lease: w.Lease, Timeout: w.Timeout, MaxAge: w.MaxAge,
	}}
	var fs faults
	fs.text("work.kind", w.Kind, 1, 128)
	fs.text("work.version", w.Version, 1, 128)
	if w.Record != Exact && w.Record != Current {
		fs.add("work.record", "is neither Exact nor Current")
	}
	typ := reflect.TypeFor[T]()
	if typ.Kind() != reflect.Struct {
		fs.add("work.input", "is "+typ.String()+", want a struct")
	}
	if err := canon.Check(typ); err != nil {
		fs.addCanon("work.input", err)
	}
	checkTimes(&fs, "work", k.contract, w.Timeout)
	if k.err = fs.err("work"); k.err != nil {
		return k
	}
	form, err := canon.Object(map[string]any{
		"kind": w.Kind, "version": w.Version, "idempotent": w.Idempotent, "record": int(w.Record),
		"lease_ms": w.Lease.Milliseconds(), "timeout_ms": w.Timeout.Milliseconds(),
		"max_attempts": w.MaxAttempts, "max_age_ms": w.MaxAge.Milliseconds(),
		"input": shape(typ, nil),
	}, canon.Limits{})
	if err != nil {
		fs.addCanon("work", err)
		k.err = fs.err("work")
		return k
	}
	k.fingerprint = canon.Digest(form)
	return k
}

// shape writes down a type as the fingerprint sees it: field names as they are
// stored, and what values they take. A type that contains itself is named.
func shape(t reflect.Type, above []reflect.Type) string {
	for _, a := range above {
		if a == t {
			return "^" + t.Name()
		}
	}
	above = append(above, t)
	switch t.Kind() {
	case reflect.Pointer:
		return shape(t.Elem(), above) + "?"
	case reflect.Slice:
		if t == reflect.TypeFor[json.RawMessage]() {
			return "json"
		}
		return "[]" + shape(t.Elem(), above)
	case reflect.Array:
		return "[" + strconv.Itoa(t.Len()) + "]" + shape(t.Elem(), above)
	case reflect.Map:
		return "{" + shape(t.Elem(), above) + "}"
	case reflect.Struct:
		var b strings.Builder
		b.WriteString("{")
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() && !f.Anonymous {
				continue
			}
			b.WriteString(f.Name + " " + strconv.Quote(f.Tag.Get("json")) + " " + shape(f.Type, above) + ";")
		}
		b.WriteString("}")
		return b.String()
	}
	return t.Kind().String()
}

// Enqueue notes one piece of work of this kind in the run, under a key that is
// unique within it (1 to 128 bytes of printable ASCII). It does no IO: all work
// of a run is written when the run is sealed, with the version of the target that
// the run commits. The input is stored in canonical form (RFC 8785), at most
// 4,096 bytes and 8 levels deep; it is minimum data, never a credential.
//
// The same key with the same kind, contract and input returns the same ref.
// Errors: ErrInvalid with every fault, ErrConflict, ErrClosed once the run's
// function has returned.
func (w Work[T]) Enqueue(run *Run, key string, in T) (Ref, error) {
	const op = "enqueue"
	k := w.kind()
	if k.err != nil {
		return Ref{}, k.err
	}
	var fs faults
	if run == nil || run.keys == nil {
		fs.add("run", "is not one that Run or Join handed out")
	}
	fs.text("key", key, 1, 128)
	payload, err := canon.Object(in, canon.Limits{Bytes: payloadLimit, Depth: maxDepth})
	if err != nil {
		fs.addCanon("input", err)
	}
	if err := fs.err(op); err != nil {
		return Ref{}, err
	}
	return run.add(driver.New{
		Intent: driver.Intent{
			Profile: lifecycle.Work, Kind: k.name, Version: k.version, Fingerprint: k.fingerprint,
			WorkKey: key, Payload: payload, Digest: canon.Digest(payload),
		},
		Contract: k.contract,
	})
}
