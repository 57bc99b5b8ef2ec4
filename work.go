package consign

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/consign-go/consign/internal/canon"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/internal/rules"
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
//
// The input's fields are checked when it is enqueued, by the rules of a struct tag
// named consign, separated by commas:
//
//	Ticket string   `json:"ticket" consign:"required,maxlen=150"`
//	State  string   `json:"state" consign:"enum=open|closed"`
//	Score  int      `json:"score" consign:"min=1,max=5"`
//	Note   *string  `json:"note" consign:"nullable,maxlen=500"`
//	Labels []string `json:"labels,omitempty" consign:"maxlen=10"`
//
// required asks for a member that is there and, where it is a text, list or map,
// not empty. A nil pointer, slice, map or interface is refused unless it is
// nullable, or left out by omitempty or omitzero. min and max are the range of a
// number; minlen and maxlen the length of a text in characters, or of a list or
// map in entries; enum the only values of a text or integer. All limits are
// inclusive. Members that are left out are checked for required only. Structs
// inside the input are checked by their own tags. The rules are part of the
// fingerprint. A rule that could never be checked is a fault of the contract, and so
// is a type that encoding/json could not read back.
//
// A method Validate() error of T or *T checks across fields. To name fields it
// returns a [Fault], several joined by errors.Join, or an [*Error] with Faults;
// what it returns must not quote the input.
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
	// of 10 s, at most 24 h. What it has beyond the two is the time from the claim to
	// the start, in which the authority is asked and the handler prepares: work that
	// is started later than that is given back unsent, so leave seconds of it, more
	// where the database is slow under load. Default: 60 s.
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

	// Backoff is when an attempt that may be repeated is. Default: after 10 s, then
	// twice as long each time, up to 1 h.
	Backoff Backoff

	// Upgrade reads input that was stored under an older Version, the key, and
	// returns it as today's; it is checked like input that is enqueued. Pending work
	// of such a version is then delivered under this contract's record policy and
	// schedule; its attempts, lease, timeout and deadline stay what they were. An
	// error parks that one piece of work for review; its text is kept and must not
	// quote the input. It is no part of the fingerprint. Default: none, and older versions wait for a program that
	// serves them, or for review.
	Upgrade map[string]func(old []byte) (T, error)
}

const payloadLimit = 4096

// kind is a Work[T] without its type: checked, with defaults and fingerprint.
type kind struct {
	name, version string
	contract      lifecycle.Contract
	record        RecordPolicy
	backoff       Backoff
	rules         *rules.Set
	fingerprint   [32]byte
	faults        faults // of fields that begin with "work."
}

// kindKey is everything of a Work that decides its kind.
type kindKey struct {
	input          reflect.Type
	kind, version  string
	idempotent     bool
	lease, timeout time.Duration
	attempts       int
	age            time.Duration
	record         RecordPolicy
	backoff        Backoff
}

var kinds sync.Map // kindKey -> *kind

// compiled returns the checked contract, computed once per value.
func (w *Work[T]) compiled() *kind {
	key := kindKey{
		reflect.TypeFor[T](), w.Kind, w.Version, w.Idempotent, w.Lease, w.Timeout, w.MaxAttempts, w.MaxAge, w.Record, w.Backoff,
	}
	if k, ok := kinds.Load(key); ok {
		return k.(*kind)
	}
	k, _ := kinds.LoadOrStore(key, key.compile())
	return k.(*kind)
}

// filled returns the contract with its defaults.
func (w kindKey) filled() kindKey {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if w.version == "" {
		w.version = "1"
	}
	if w.attempts == 0 {
		w.attempts = 3
	}
	set(&w.lease, 60*time.Second)
	set(&w.timeout, 30*time.Second)
	set(&w.age, 24*time.Hour)
	w.backoff = w.backoff.filled()
	return w
}

func (w kindKey) compile() *kind {
	w = w.filled()
	k := &kind{name: w.kind, version: w.version, record: w.record, backoff: w.backoff, contract: lifecycle.Contract{
		Retry: lifecycle.Schedule, Idempotent: w.idempotent, MaxAttempts: w.attempts,
		Lease: w.lease, Timeout: w.timeout, MaxAge: w.age,
	}}
	fs := &k.faults
	fs.text("work.kind", w.kind, 1, 128)
	fs.text("work.version", w.version, 1, 128)
	if w.record != Exact && w.record != Current {
		fs.add("work.record", "is neither Exact nor Current")
	}
	w.backoff.check(fs, "work.backoff")
	if w.input.Kind() != reflect.Struct {
		fs.add("work.input", "is "+w.input.String()+", want a struct")
	}
	if err := canon.Check(w.input); err != nil {
		fs.addCanon("work.input", err)
	}
	var err error
	if k.rules, err = rules.Compile(w.input); err != nil {
		fs.addCanon("work.input", err)
	}
	checkTimes(fs, "work", k.contract, w.timeout)
	if len(*fs) > 0 {
		return k
	}
	form, err := canon.Object(map[string]any{
		"kind": w.kind, "version": w.version, "idempotent": w.idempotent, "record": int(w.record),
		"lease_ms": w.lease.Milliseconds(), "timeout_ms": w.timeout.Milliseconds(),
		"max_attempts": w.attempts, "max_age_ms": w.age.Milliseconds(),
		"backoff_ms": []any{w.backoff.First.Milliseconds(), w.backoff.Max.Milliseconds()}, "backoff_factor": w.backoff.Factor,
		"input": shape(w.input, nil),
	}, canon.Limits{})
	if err != nil {
		fs.addCanon("work", err)
		return k
	}
	k.fingerprint = canon.Digest(form)
	return k
}

// shape writes down a type as the fingerprint sees it: its members by the names that
// are stored, in the order that they are stored in, with their rules and what they
// take. How a program calls and orders its fields is not part of it. A type that
// contains itself is named by how far up it is.
func shape(t reflect.Type, above []reflect.Type) string {
	if i := slices.Index(above, t); i >= 0 {
		return "^" + strconv.Itoa(len(above)-i)
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
	case reflect.String:
		if t == reflect.TypeFor[json.Number]() {
			return "number"
		}
	case reflect.Struct:
		var b strings.Builder
		b.WriteString("{")
		for _, f := range canon.Fields(t) {
			b.WriteString(strconv.Quote(f.Name))
			if f.Optional {
				b.WriteString("?")
			}
			b.WriteString(" " + strconv.Quote(f.Struct.Tag.Get(rules.Tag)) + " " + shape(f.Struct.Type, above) + ";")
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
	k := w.compiled()
	if err := k.faults.err("work"); err != nil {
		return Ref{}, err
	}
	var fs faults
	if run == nil || run.keys == nil {
		fs.add("run", "is not one that Run or Join handed out")
	}
	fs.text("key", key, 1, 128)
	k.check(&fs, "input", &in)
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
