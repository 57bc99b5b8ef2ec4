package consign_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/consigntest"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/driver/memory"
)

// checkedInput is an input with every kind of rule.
type checkedInput struct {
	Ticket string  `json:"ticket" consign:"required,maxlen=5"`
	State  string  `json:"state" consign:"enum=open|closed"`
	Score  int     `json:"score" consign:"min=1,max=5"`
	Note   *string `json:"note"`
	From   int     `json:"from"`
	Until  int     `json:"until"`
}

func (in checkedInput) Validate() error {
	if in.From > in.Until {
		return errors.Join(consign.Fault{Field: "from", Rule: "is after until"}, errors.New("has no time in it"))
	}
	_ = *in.Note // what the rules promise may be counted on
	return nil
}

// pointerInput validates itself through a pointer, with an Error.
type pointerInput struct {
	A string `json:"a"`
}

func (in *pointerInput) Validate() error {
	if in.A == "" {
		return &consign.Error{Op: "any", Err: consign.ErrInvalid, Faults: []consign.Fault{{Field: "a", Rule: "is what it must not be"}}}
	}
	return nil
}

// Input is checked field by field and across, and one error names every fault; then
// nothing is enqueued, and a corrected call goes through.
func TestInputIsCheckedWithOneErrorForAll(t *testing.T) {
	checked, note := consign.Work[checkedInput]{Kind: "checked"}, "n"
	byPointer := consign.Work[pointerInput]{Kind: "pointer"}
	onDesk(t, func(t *testing.T, h *host, _ *desk) {
		_, err := h.outbox.Run(t.Context(), admit, func(_ context.Context, _ *txn, run *consign.Run) error {
			_, err := checked.Enqueue(run, "", checkedInput{Ticket: "SECRET", State: "SECRET", Score: 6, From: 2, Until: 1})
			for _, want := range []string{
				"key 0 bytes", "input.ticket 6 characters, limit 5", "input.state is none of its declared values",
				"input.score is out of range, limit 1 to 5", "input.note is null, and not declared nullable",
				"input.from is after until", "input has no time in it",
			} {
				checkInvalid(t, "enqueue", err, want)
			}
			if strings.Contains(err.Error(), "SECRET") {
				t.Errorf("the error quotes the input: %v", err)
			}
			// The rules are broken, so what Validate counts on is not there.
			_, err = checked.Enqueue(run, "k", checkedInput{Ticket: "41", State: "open", Score: 5})
			checkInvalid(t, "enqueue", err, "input.note is null")
			_, err = byPointer.Enqueue(run, "p", pointerInput{})
			checkInvalid(t, "enqueue", err, "input.a is what it must not be")
			_, err = byPointer.Enqueue(run, "p", pointerInput{"a"})
			_, err2 := checked.Enqueue(run, "k", checkedInput{Ticket: "éèêëe", State: "open", Score: 5, Note: &note})
			return errors.Join(err, err2)
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := stored(t, h); n != 2 {
			t.Errorf("%d intents, want the two that were valid", n)
		}
	})
}

// A crash of a Validate that had nothing wrong before it is the caller's.
func TestValidateMayCrash(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("the crash was hidden")
		}
	}()
	_, err := consign.Work[crashing]{Kind: "crashing"}.Enqueue(nil, "k", crashing{})
	t.Errorf("enqueued: %v", err)
}

type crashing struct{}

func (crashing) Validate() error { panic("broken") }

type forgetful struct{}

// Validate makes the classic mistake of a nil pointer in an error.
func (forgetful) Validate() error {
	var e *consign.Error
	return e
}

func TestNilErrorInAnErrorIsExplained(t *testing.T) {
	_, err := consign.Work[forgetful]{Kind: "forgetful"}.Enqueue(nil, "k", forgetful{})
	checkInvalid(t, "enqueue", err, "input is checked by a Validate that returns a nil *Error")
}

// Rules and schedule are part of the contract; upgrades and code are not.
func TestFingerprintHoldsRulesAndScheduleButNoCode(t *testing.T) {
	type looser struct {
		Ticket string `json:"ticket" consign:"required,maxlen=6"`
	}
	type tighter struct {
		Ticket string `json:"ticket" consign:"required,maxlen=5"`
	}
	base := consign.Work[tighter]{Kind: "k"}
	upgraded := base
	upgraded.Upgrade = map[string]func([]byte) (tighter, error){"0": func([]byte) (tighter, error) { return tighter{}, nil }}
	slower := base
	slower.Backoff.First = 11 * time.Second
	spelled := base
	spelled.Backoff = consign.Backoff{First: 10 * time.Second, Factor: 2, Max: time.Hour}
	onDesk(t, func(t *testing.T, h *host, _ *desk) {
		fingerprint := func(enqueue func(*consign.Run) error) string {
			_, err := h.outbox.Run(t.Context(), admit, func(_ context.Context, _ *txn, run *consign.Run) error { return enqueue(run) })
			if err != nil {
				t.Fatal(err)
			}
			return h.text(t, `SELECT route FROM {s}delivery ORDER BY ref DESC LIMIT 1`)
		}
		want := fingerprint(work(base, tighter{"41"}))
		for name, c := range map[string]struct {
			got  string
			same bool
		}{
			"rules":            {fingerprint(work(consign.Work[looser]{Kind: "k"}, looser{"41"})), false},
			"schedule":         {fingerprint(work(slower, tighter{"41"})), false},
			"spelled defaults": {fingerprint(work(spelled, tighter{"41"})), true},
			"upgrades":         {fingerprint(work(upgraded, tighter{"41"})), true},
		} {
			if (c.got == want) != c.same {
				t.Errorf("%s: the same contract is %v, want %v", name, c.got == want, c.same)
			}
		}
	})
}

// New reports every fault of every handler at once, and serves no handler without
// an authority.
func TestNewReportsEveryFaultOfEveryHandler(t *testing.T) {
	type badInput struct {
		A int `json:"a" consign:"required"`
	}
	ok := func(context.Context, *consign.Delivery, noticeInput) error { return nil }
	bad := consign.Work[noticeInput]{
		Kind: "", Version: "2", Lease: time.Second, Backoff: consign.Backoff{First: -1, Factor: 0.5, Max: 8 * 24 * time.Hour},
		Upgrade: map[string]func([]byte) (noticeInput, error){"1": nil, "2": func([]byte) (noticeInput, error) { return noticeInput{}, nil }},
	}
	_, err := consign.New(memory.New(), &consign.Options{Handlers: []consign.Handler{
		bad.Handler(ok), triaged.Handler(nil), triaged.Handler(ok), {},
		consign.Work[badInput]{Kind: "k"}.Handler(func(context.Context, *consign.Delivery, badInput) error { return nil }),
	}})
	for _, want := range []string{
		"handlers[0].kind 0 bytes, limit 1 to 128", "handlers[0].lease 1s is not longer", "handlers[0].backoff.first -1ns, limit 0s to 168h0m0s",
		"handlers[0].backoff.factor 0.5, limit 1 to 100", "handlers[0].backoff.max 192h0m0s, limit",
		"handlers[0].upgrade[0] is nil", "handlers[0].upgrade[1] is the version of the contract itself",
		"handlers[1].handler is nil", "handlers[2].kind is served twice", "handlers[3] was not made by Work.Handler",
		"handlers[4].input.a required cannot fail", "authority is missing, and handlers need one",
	} {
		checkInvalid(t, "new", err, want)
	}
	var e *consign.Error
	if !errors.As(err, &e) || e.Code != consign.CodeAuthorityMissing {
		t.Errorf("the code is %q, want AUTHORITY_MISSING", e.Code)
	}
	if _, err := consign.New(memory.New(), &consign.Options{Handlers: []consign.Handler{triaged.Handler(ok)}, Authority: &deskOn[*memory.Tx]{desk: &desk{}}}); err != nil {
		t.Errorf("a valid handler: %v", err)
	}
	// Its contract is refused where work is enqueued, too.
	if _, err := bad.Enqueue(nil, "k", noticeInput{}); !errors.Is(err, consign.ErrInvalid) {
		t.Errorf("enqueue under a bad contract: %v", err)
	}
}

// noticeV2 is a later version of the notice's input.
type noticeV2 struct {
	Number string `json:"number" consign:"maxlen=2"`
}

// A deploy with a new version leaves pending work of the old one to programs that
// serve it, stops it for review when none does, and delivers it where an upgrade
// leads from there.
func TestPendingWorkAcrossADeploy(t *testing.T) {
	b := newBench()
	onDeskWith(t, b.options(), func(t *testing.T, h *host, _ *desk) {
		*b = *newBench()
		refs := commitWork(t, h, b.work, 2).Work
		authority := &deskOn[any]{desk: &desk{}}
		v2 := consign.Work[noticeV2]{Kind: b.work.Kind, Version: "2", Idempotent: true}
		deliver := func(ctx context.Context, d *consign.Delivery, in noticeV2) error { return d.Effect(ctx, in, b.send) }
		without := h.with(t, consign.Options{Handlers: []consign.Handler{v2.Handler(deliver)}, Authority: authority, HandlerGrace: time.Nanosecond})

		// A program of the new version does not touch what the old one serves …
		if results, err := without.Drain(t.Context(), 0); err != nil || len(results) != 0 {
			t.Errorf("a program of another version: %v, %v", results, err)
		}
		if r := visit(t, without, refs[0]); r.Status != consign.StatusPending {
			t.Errorf("visited by another version: %+v", r)
		}
		// … which delivers its own.
		visit(t, h.outbox, refs[0])
		wantEnd(t, h, b, refs[0], consign.StatusSucceeded, "", 1)

		// With an upgrade the new version delivers the rest, under the key it had.
		bad := commitWork(t, h, b.work, 3).Work
		h.exec(t, `UPDATE {t}ticket SET lock_version = 2 WHERE id = 41`)
		var gave []byte
		upgrade := func(old []byte) (noticeV2, error) {
			gave = old
			return noticeV2{Number: "41"}, nil
		}
		v2.Upgrade = map[string]func([]byte) (noticeV2, error){"1": upgrade}
		with := h.with(t, consign.Options{Handlers: []consign.Handler{v2.Handler(deliver)}, Authority: authority})
		visit(t, with, refs[1])
		wantEnd(t, h, b, refs[1], consign.StatusSucceeded, "", 2)
		if a := b.got[1]; string(a.Request) != `{"number":"41"}` || a.Key != refs[1].String() || string(gave) != `{"ticket":"41"}` {
			t.Errorf("sent %s under %s, upgraded from %s", a.Request, a.Key, gave)
		}

		// An upgrade that fails, or makes what today's rules refuse, parks that one.
		h.exec(t, `UPDATE {t}ticket SET lock_version = 3 WHERE id = 41`)
		for i, broken := range []func([]byte) (noticeV2, error){
			func([]byte) (noticeV2, error) { return noticeV2{}, errors.New("cannot") },
			func([]byte) (noticeV2, error) { return noticeV2{Number: "4141"}, nil },
		} {
			v2.Upgrade = map[string]func([]byte) (noticeV2, error){"1": broken}
			o := consign.Options{Handlers: []consign.Handler{v2.Handler(deliver)}, Authority: authority}
			visit(t, h.with(t, o), bad[i])
			wantEnd(t, h, b, bad[i], consign.StatusReconciliationRequired, consign.CodeInputUnreadable, 2)
		}

		// What no live program has served for the grace period is stopped, not lost.
		serveUntil(t, without, func() bool { return find(t, h, bad[2]).Status != consign.StatusPending })
		wantEnd(t, h, b, bad[2], consign.StatusReconciliationRequired, consign.CodeHandlerChanged, 2)
	})
}

// What the decoder says of input that an upgrade cannot read may quote it, and is not
// kept.
func TestUpgradeThatCannotDecodeQuotesNothing(t *testing.T) {
	type v1 struct {
		Account int `json:"account"`
	}
	type v2 struct {
		Account int8 `json:"account"`
	}
	store := consigntest.NewStore()
	kind := consign.Work[v2]{Kind: "k", Version: "2", Upgrade: map[string]func([]byte) (v2, error){"1": func(old []byte) (in v2, err error) {
		if err := json.Unmarshal(old, &in); err != nil {
			return in, fmt.Errorf("version 1: %w", err)
		}
		return in, nil
	}}}
	handler := kind.Handler(func(context.Context, *consign.Delivery, v2) error { t.Error("it was called"); return nil })
	ob, err := consign.New(store, &consign.Options{Authority: consigntest.NewAuthority(), Handlers: []consign.Handler{handler}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := ob.Run(t.Context(), admit, func(_ context.Context, _ *consigntest.Tx, run *consign.Run) error {
		_, err := consign.Work[v1]{Kind: "k"}.Enqueue(run, "k", v1{4111111111})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ob.Visit(t.Context(), r.Work[0]); err != nil {
		t.Fatal(err)
	}
	i, err := ob.Find(t.Context(), r.Work[0])
	if err != nil || i.Code != consign.CodeInputUnreadable || i.LastError == "" || strings.Contains(i.LastError, "4111111111") {
		t.Errorf("%s %q %q, %v", i.Status, i.Code, i.LastError, err)
	}
}

// serveUntil serves until something is so.
func serveUntil(t *testing.T, o outbox, so func() bool) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.Serve(ctx) }()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("it did not come about")
			break
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A contract that says nothing: 60 s lease, 30 s for the effect, three attempts, a
// day. The attempts are a bound, and the schedule is kept to.
func TestContractBoundsAttemptsAndSetsTheirTimes(t *testing.T) {
	b := newBench()
	o := b.options()
	spaced := *newBench()
	spaced.work.Kind, spaced.work.MaxAttempts = "tickets.spaced", 4
	spaced.work.Backoff = consign.Backoff{First: time.Hour, Factor: 3, Max: 4 * time.Hour}
	w := spaced.work
	o.Handlers = append(o.Handlers, w.Handler(func(ctx context.Context, d *consign.Delivery, in noticeInput) error {
		return spaced.handle(ctx, d, in)
	}))
	onBothDesks(t, o, func(t *testing.T, h *host, _ *desk) {
		*b = *newBench()
		spaced = *newBench()
		refused := func(consign.Attempt) error { return consign.Refused(errors.New("busy"), 0) }
		b.answer, spaced.answer = refused, refused
		ref := commitWork(t, h, b.work, 1).Work[0]
		const contract = `SELECT lease_ms || ' ' || timeout_ms || ' ' || max_attempts || ' ' || max_age_ms FROM {s}delivery`
		if s := h.text(t, contract); s != "60000 30000 3 86400000" {
			t.Errorf("the contract is %s", s)
		}
		for range 3 {
			visit(t, h.outbox, ref)
			due(t, h, ref)
		}
		wantEnd(t, h, b, ref, consign.StatusReconciliationRequired, consign.CodeAttemptsExhausted, 3)

		ref = commitWork(t, h, w, 1).Work[0]
		for i, first := range []time.Duration{time.Hour, 3 * time.Hour, 4 * time.Hour} {
			visit(t, h.outbox, ref)
			found := find(t, h, ref)
			if wait := found.DueAt.Sub(found.UpdatedAt); wait < first || wait > first*6/5+time.Second {
				t.Errorf("after attempt %d it waits %s, want %s and at most a fifth more", i+1, wait, first)
			}
			due(t, h, ref)
		}
	})
}

// What the caller does to its lists after New changes nothing.
func TestKindsAreFixedByNew(t *testing.T) {
	calls := 0
	count := func(context.Context, *consign.Delivery, noticeInput) error { calls++; return consign.Cancel("seen") }
	handlers := []consign.Handler{triaged.Handler(count)}
	store, authority := consigntest.NewStore(), consigntest.NewAuthority()
	outbox, err := consign.New(store, &consign.Options{Handlers: handlers, Authority: authority})
	if err != nil {
		t.Fatal(err)
	}
	handlers[0] = consign.Work[noticeInput]{Kind: "other"}.Handler(nil)
	receipt, err := outbox.Run(t.Context(), admit, func(_ context.Context, _ *consigntest.Tx, run *consign.Run) error {
		return work(triaged, noticeInput{Ticket: "41"})(run)
	})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := outbox.Visit(t.Context(), receipt.Work[0]); err != nil || r.Code != consign.CodeCancelledByHandler || calls != 1 {
		t.Errorf("%+v, %v, %d calls", r, err, calls)
	}
}

// Programs find work by a part of its fingerprint. Work whose whole one is another
// stops before its handler.
func TestWholeFingerprintIsComparedBeforeDelivery(t *testing.T) {
	store := memory.New()
	calls := 0
	outbox, err := consign.New(store, &consign.Options{Authority: consigntest.NewAuthority(), Handlers: []consign.Handler{
		triaged.Handler(func(context.Context, *consign.Delivery, noticeInput) error { calls++; return nil }),
	}})
	if err != nil {
		t.Fatal(err)
	}
	receipt, err := outbox.Run(t.Context(), admit, func(_ context.Context, _ *memory.Tx, run *consign.Run) error {
		return work(triaged, noticeInput{Ticket: "41"})(run)
	})
	if err != nil {
		t.Fatal(err)
	}
	found, err := store.Load(t.Context(), []driver.ID{driver.ID(receipt.Work[0].ID)})
	if err != nil {
		t.Fatal(err)
	}
	forged := driver.New{Intent: found[0].Intent, Contract: found[0].State.Contract}
	forged.Ref, forged.WorkKey = driver.NewID(), "forged"
	forged.Key = forged.Ref
	forged.Fingerprint[31] ^= 1
	tx, dtx, err := store.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(dtx.Insert(t.Context(), []driver.New{forged}), tx.Commit()); err != nil {
		t.Fatal(err)
	}
	r, err := outbox.Visit(t.Context(), consign.Ref{ID: consign.ID(forged.Ref)})
	if err != nil || r.Status != consign.StatusReconciliationRequired || r.Code != consign.CodeHandlerChanged || calls != 0 {
		t.Errorf("%+v, %v, %d calls", r, err, calls)
	}
}
