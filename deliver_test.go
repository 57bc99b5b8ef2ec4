package consign_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/consign-go/consign"
)

// crm is the far side of the tests' work: it keeps what reaches it, and answers as
// it is told.
type crm struct {
	mu     sync.Mutex
	got    []consign.Attempt
	answer func(a consign.Attempt) error // default: a success
}

func (c *crm) send(_ context.Context, a consign.Attempt) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, a)
	if c.answer != nil {
		return c.answer(a)
	}
	return nil
}

// noticeRequest is what the handlers of the tests ask of the far side.
type noticeRequest struct {
	Ticket  string `json:"ticket"`
	Version string `json:"version"`
	Text    string `json:"text"`
}

// bench is a handler that a test can interfere with, and its far side.
type bench struct {
	crm
	work    consign.Work[noticeInput]
	before  func(ctx context.Context, d *consign.Delivery) error // in the handler, before its effect
	after   func(ctx context.Context, d *consign.Delivery) error // after it
	build   func(d *consign.Delivery) any                        // the request
	instead func(ctx context.Context, d *consign.Delivery) error // of an effect
	skip    bool                                                 // no effect at all
	calls   int
	effect  error // what Effect returned last
}

func newBench() *bench {
	return &bench{work: consign.Work[noticeInput]{
		Kind: "tickets.triaged", Idempotent: true, Backoff: consign.Backoff{First: time.Millisecond, Factor: 1, Max: time.Millisecond},
	}}
}

func (b *bench) handle(ctx context.Context, d *consign.Delivery, in noticeInput) error {
	b.calls++
	if b.before != nil {
		if err := b.before(ctx, d); err != nil {
			return err
		}
	}
	var request any = noticeRequest{Ticket: in.Ticket, Version: d.Target.Version, Text: "triaged"}
	if b.build != nil {
		request = b.build(d)
	}
	switch {
	case b.skip:
		return nil
	case b.instead != nil:
		return b.instead(ctx, d)
	}
	b.effect = d.Effect(ctx, request, b.send)
	if b.after != nil {
		return b.after(ctx, d)
	}
	return b.effect
}

func (b *bench) options() consign.Options {
	return consign.Options{Handlers: []consign.Handler{b.work.Handler(b.handle)}}
}

const editSQL = `UPDATE {t}ticket SET lock_version = lock_version + 1 WHERE id = 41`

// commitWork runs the operation that leaves n pieces of the bench's work.
func commitWork(t testing.TB, h *host, w consign.Work[noticeInput], n int) consign.Receipt {
	t.Helper()
	receipt, err := h.outbox.Run(t.Context(), admit, func(_ context.Context, tx *txn, run *consign.Run) error {
		for i := range n {
			if _, err := w.Enqueue(run, fmt.Sprint("notice-", i), noticeInput{Ticket: run.Target().ID}); err != nil {
				return err
			}
		}
		return errors.Join(tx.Exec(triageSQL), run.Receipt(map[string]any{"triaged": true}))
	})
	if err != nil {
		t.Fatal(err)
	}
	return receipt
}

func visit(t testing.TB, o outbox, ref consign.Ref) consign.Result {
	t.Helper()
	r, err := o.Visit(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// due lets a delivery be tried again at once.
func due(t testing.TB, h *host, ref consign.Ref) {
	t.Helper()
	h.exec(t, `UPDATE {s}delivery SET due_at = (SELECT min(created_at) FROM {s}intent) WHERE due_at IS NOT NULL`)
	if i := find(t, h, ref); i.DueAt.After(i.UpdatedAt) {
		t.Fatalf("still due at %s", i.DueAt)
	}
}

func find(t testing.TB, h *host, ref consign.Ref) consign.Intent {
	t.Helper()
	i, err := h.outbox.Find(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// wantEnd checks where a delivery stands and that nothing was sent beyond sends.
func wantEnd(t *testing.T, h *host, b *bench, ref consign.Ref, status consign.Status, code consign.Code, sends int) {
	t.Helper()
	i := find(t, h, ref)
	if i.Status != status || i.Code != code {
		t.Errorf("%s %q (%s), want %s %q", i.Status, i.Code, i.LastError, status, code)
	}
	if len(b.got) != sends {
		t.Errorf("sent %d times, want %d", len(b.got), sends)
	}
}

// One delivery, all along: the actor, the target and the permission are asked for
// before the handler and again before the effect, which gets the key and the bytes
// that were digested, with no connection in use.
func TestWorkIsDeliveredUnderAuthorityAskedTwice(t *testing.T) {
	b := newBench()
	onDeskWith(t, b.options(), func(t *testing.T, h *host, d *desk) {
		*b = *newBench()
		receipt := commitWork(t, h, b.work, 1)
		ref := receipt.Work[0]
		if len(receipt.Work) != 1 || find(t, h, ref).Status != consign.StatusPending {
			t.Errorf("the receipt does not say that its work is yet to be done: %+v", receipt)
		}
		const rows = `SELECT max(sealed_at) || ' ' || max(receipt) || ' ' || count(*) FROM {s}run`
		before := h.text(t, rows)
		d.asked, d.views = nil, nil
		b.before = func(_ context.Context, dl *consign.Delivery) error {
			if dl.Ref != ref || dl.Kind != b.work.Kind || dl.Run != receipt.Run || dl.Target.Version != "2" ||
				dl.Principal.Actor != ann || dl.Principal.Tenant != acme || dl.Principal.SecurityVersion != "3" || dl.Principal.Value == nil {
				t.Errorf("the delivery is %+v", dl)
			}
			if left := time.Until(dl.Deadline); left < 23*time.Hour || left > 24*time.Hour {
				t.Errorf("%s are left until the deadline, want 24 h less a moment", left)
			}
			return nil
		}
		b.answer = func(consign.Attempt) error {
			if n := h.inUse(); n != 0 {
				t.Errorf("%d connections in use during the effect", n)
			}
			if i := find(t, h, ref); i.Status != consign.StatusDelivering || i.Attempts != 1 {
				t.Errorf("%s, attempt %d: the start is not durable before the effect", i.Status, i.Attempts)
			}
			return nil
		}
		r := visit(t, h.outbox, ref)
		if !r.Success() || r.Status != consign.StatusSucceeded || r.Ref != ref || r.Code != "" {
			t.Fatalf("got %+v", r)
		}
		if len(b.got) != 1 {
			t.Fatalf("sent %d times", len(b.got))
		}
		a, want := b.got[0], `{"text":"triaged","ticket":"41","version":"2"}`
		if string(a.Request) != want || a.Digest != sha256.Sum256([]byte(want)) || a.Key != ref.String() || a.Ref != ref ||
			a.Number != 1 || a.Generation != 1 {
			t.Errorf("the attempt is %s %+v", a.Request, a)
		}
		round := []string{"principal", "target", "may deliver tickets.triaged of triage on ticket:41"}
		if want := append(round, round...); !slices.Equal(d.asked, want) {
			t.Errorf("the authority was asked %q, want %q", d.asked, want)
		}
		if after := h.text(t, rows); after != before {
			t.Errorf("the run was %s and is %s", before, after)
		}
	})
}

// obstacles are what can stand in the way of a delivery, and what becomes of it.
var obstacles = []struct {
	name   string
	set    func(t *testing.T, h *host, d *desk)
	status consign.Status
	code   consign.Code
}{
	{"the actor is revoked", func(_ *testing.T, _ *host, d *desk) { d.revoked = true },
		consign.StatusCancelled, consign.CodeAuthorityRevoked},
	{"the authority answers for another actor", func(_ *testing.T, _ *host, d *desk) { d.stranger = true },
		consign.StatusCancelled, consign.CodeAuthorityRevoked},
	{"the authority answers for another tenant", func(_ *testing.T, _ *host, d *desk) { d.otherTenant = true },
		consign.StatusCancelled, consign.CodeAuthorityRevoked},
	{"the authority answers with another target", func(_ *testing.T, _ *host, d *desk) { d.otherTarget = true },
		consign.StatusCancelled, consign.CodeTargetUnavailable},
	{"the actor's security version rose", func(t *testing.T, h *host, _ *desk) {
		h.exec(t, `UPDATE {t}staff SET security_version = security_version + 1`)
	}, consign.StatusCancelled, consign.CodeAuthorityRevoked},
	{"the target is gone", func(_ *testing.T, _ *host, d *desk) { d.gone = true },
		consign.StatusCancelled, consign.CodeTargetUnavailable},
	{"the record was edited", func(t *testing.T, h *host, _ *desk) { h.exec(t, editSQL) },
		consign.StatusReconciliationRequired, consign.CodeRecordChanged},
	{"delivering is not permitted", func(_ *testing.T, _ *host, d *desk) { d.undeliverable = true },
		consign.StatusCancelled, consign.CodeDeliveryNotPermitted},
	{"the authority is in trouble", func(_ *testing.T, _ *host, d *desk) { d.trouble = io.ErrUnexpectedEOF }, consign.StatusPending, ""},
	{"the authority says no among other things", func(_ *testing.T, _ *host, d *desk) {
		d.trouble = errors.Join(consign.ErrRevoked, io.EOF)
	}, consign.StatusPending, ""},
	{"the authority's trouble looks like a handler's word", func(_ *testing.T, _ *host, d *desk) { d.trouble = consign.Cancel("not now") },
		consign.StatusPending, ""},
	{"the authority answers nothing", func(_ *testing.T, _ *host, d *desk) { d.empty = true }, consign.StatusPending, ""},
	{"the authority answers without a tenant", func(_ *testing.T, _ *host, d *desk) { d.half = true }, consign.StatusPending, ""},
	{"the target has no version", func(_ *testing.T, _ *host, d *desk) { d.noVersion = true }, consign.StatusPending, ""},
	{"the authority crashes", func(_ *testing.T, _ *host, d *desk) { d.crashes = true }, consign.StatusPending, ""},
}

// Whatever the authority says at either asking, only a clear yes lets the effect
// be called; a definite no ends the work, anything else puts it off, without an
// attempt counted and with no harm to what the run committed.
func TestNothingIsSentUnlessTheAuthorityAllowsIt(t *testing.T) {
	b := newBench()
	onBothDesks(t, b.options(), func(t *testing.T, h *host, d *desk) {
		for _, o := range obstacles {
			for _, late := range []bool{false, true} {
				t.Run(fmt.Sprint(o.name, ", between the two askings: ", late), func(t *testing.T) {
					*b, *d = *newBench(), desk{}
					h.exec(t, `UPDATE {t}staff SET security_version = 3`)
					ref := commitWork(t, h, b.work, 1).Work[0]
					const done = `SELECT (SELECT status FROM {t}ticket WHERE id = 41) || ' ' || max(sealed_at) || ' ' || max(receipt) || ' ' || count(*) FROM {s}run`
					committed := h.text(t, done)
					if late {
						b.before = func(context.Context, *consign.Delivery) error { o.set(t, h, d); return nil }
					} else {
						o.set(t, h, d)
					}
					r := visit(t, h.outbox, ref)
					wantEnd(t, h, b, ref, o.status, o.code, 0)
					if i := find(t, h, ref); i.Attempts != 0 || i.Uncertain || r.Status != o.status || r.Code != o.code {
						t.Errorf("attempts %d, uncertain %v, result %+v", i.Attempts, i.Uncertain, r)
					}
					if want := map[bool]int{true: 1}[late]; b.calls != want {
						t.Errorf("the handler was called %d times, want %d", b.calls, want)
					}
					if late {
						checkRefusal(t, b.effect, ref, o.code)
					}
					if s := h.text(t, done); s != committed {
						t.Errorf("what the run committed was %s and is %s", committed, s)
					}
					if o.status != consign.StatusPending {
						return
					}
					// What was undecided is asked anew, and delivered as if nothing had been.
					*d, b.before = desk{}, nil
					due(t, h, ref)
					if r := visit(t, h.outbox, ref); !r.Success() || len(b.got) != 1 || b.got[0].Number != 1 {
						t.Errorf("after the recovery: %+v, sent %d times", r, len(b.got))
					}
				})
			}
		}
	})
}

// checkRefusal checks what an effect that was not called returned.
func checkRefusal(t *testing.T, err error, ref consign.Ref, code consign.Code) {
	t.Helper()
	var e *consign.Error
	if !errors.As(err, &e) || e.Op != "effect" || e.Ref != ref || e.Code != code {
		t.Errorf("the effect returned %#v, want an error about %s with code %q", err, ref, code)
	}
	if stopped := errors.Is(err, consign.ErrStopped); stopped != (code != "") {
		t.Errorf("the effect returned %v: stopped is %v", err, stopped)
	}
}

// A definite no after an unknown outcome cannot make it certain that nothing was
// sent: it goes to a person instead of being cancelled.
func TestRevokedAfterAnUnknownOutcomeIsReviewed(t *testing.T) {
	b := newBench()
	onBothDesks(t, b.options(), func(t *testing.T, h *host, d *desk) {
		for _, o := range obstacles {
			if o.code == "" {
				continue
			}
			*b, *d = *newBench(), desk{}
			h.exec(t, `UPDATE {t}staff SET security_version = 3`)
			b.answer = func(consign.Attempt) error { return io.ErrUnexpectedEOF }
			ref := commitWork(t, h, b.work, 1).Work[0]
			visit(t, h.outbox, ref)
			o.set(t, h, d)
			due(t, h, ref)
			visit(t, h.outbox, ref)
			wantEnd(t, h, b, ref, consign.StatusReconciliationRequired, o.code, 1)
			if i := find(t, h, ref); !i.Uncertain {
				t.Errorf("%s: it became certain", o.name)
			}
		}
	})
}

// The request is bound by the first start: a retry with another one is never sent.
func TestRetriesSendTheBoundRequestOrNothing(t *testing.T) {
	b := newBench()
	onDeskWith(t, b.options(), func(t *testing.T, h *host, d *desk) {
		for _, changed := range []bool{false, true} {
			*b = *newBench()
			b.answer = func(a consign.Attempt) error {
				if a.Number == 1 {
					return consign.Refused(io.EOF, 0)
				}
				return nil
			}
			b.build = func(*consign.Delivery) any {
				return map[string]any{"n": map[bool]int{true: b.calls}[changed], "b": 1.0, "a": "x"}
			}
			ref := commitWork(t, h, b.work, 1).Work[0]
			if r := visit(t, h.outbox, ref); r.Status != consign.StatusPending {
				t.Fatalf("a refused attempt: %+v", r)
			}
			d.asked = nil
			due(t, h, ref)
			visit(t, h.outbox, ref)
			if len(d.asked) != 6 {
				t.Errorf("the retry asked the authority %q", d.asked)
			}
			if changed {
				wantEnd(t, h, b, ref, consign.StatusReconciliationRequired, consign.CodeRequestChanged, 1)
				checkRefusal(t, b.effect, ref, consign.CodeRequestChanged)
				continue
			}
			wantEnd(t, h, b, ref, consign.StatusSucceeded, "", 2)
			one, two := b.got[0], b.got[1]
			if one.Key != two.Key || one.Digest != two.Digest || string(one.Request) != string(two.Request) || two.Number != 2 || two.Generation <= one.Generation {
				t.Errorf("attempts %+v and %+v", one, two)
			}
		}
	})
}

// Under Current an edit does not stop the delivery: it is about the newer data. But
// scope and permission are checked as ever, what was prepared from older data is
// not sent, and a request that is bound does not change.
func TestCurrentAcceptsNewerDataAndNothingElse(t *testing.T) {
	b := newBench()
	b.work.Record = consign.Current
	w := b.work
	onBothDesks(t, b.options(), func(t *testing.T, h *host, d *desk) {
		fresh := func() consign.Ref {
			*b, *d = *newBench(), desk{}
			h.exec(t, `UPDATE {t}staff SET security_version = 3`)
			return commitWork(t, h, w, 1).Work[0]
		}
		edit := func() { h.exec(t, editSQL) }
		version := func() string { return h.text(t, `SELECT lock_version || '' FROM {t}ticket WHERE id = 41`) }

		ref := fresh()
		edit()
		visit(t, h.outbox, ref)
		wantEnd(t, h, b, ref, consign.StatusSucceeded, "", 1)
		if want := `"version":"` + version() + `"`; !strings.Contains(string(b.got[0].Request), want) {
			t.Errorf("sent %s, want %s", b.got[0].Request, want)
		}

		ref = fresh() // edited while the request is prepared
		b.before = func(context.Context, *consign.Delivery) error { edit(); b.before = nil; return nil }
		visit(t, h.outbox, ref)
		wantEnd(t, h, b, ref, consign.StatusPending, "", 0)
		due(t, h, ref)
		visit(t, h.outbox, ref)
		wantEnd(t, h, b, ref, consign.StatusSucceeded, "", 1)

		ref = fresh() // edited after the request was bound
		b.answer = func(consign.Attempt) error { return consign.NotSent(io.EOF) }
		visit(t, h.outbox, ref)
		edit()
		due(t, h, ref)
		visit(t, h.outbox, ref)
		wantEnd(t, h, b, ref, consign.StatusReconciliationRequired, consign.CodeRequestChanged, 1)

		for _, o := range obstacles {
			if o.code != "" && o.code != consign.CodeRecordChanged {
				ref = fresh()
				o.set(t, h, d)
				visit(t, h.outbox, ref)
				wantEnd(t, h, b, ref, o.status, o.code, 0)
			}
		}
	})
}

// Each grant is for one pair of operation and kind, and neither running nor reading
// implies delivering.
func TestGrantsImplyNoOtherGrant(t *testing.T) {
	b := newBench()
	other := newBench()
	other.work.Kind = "tickets.other"
	o := b.options()
	o.Handlers = append(o.Handlers, other.work.Handler(other.handle))
	onBothDesks(t, o, func(t *testing.T, h *host, d *desk) {
		*b, *other = *newBench(), *newBench()
		other.work.Kind = "tickets.other"
		d.undeliverable = true // may run and read all the same
		ref := commitWork(t, h, b.work, 1).Work[0]
		visit(t, h.outbox, ref)
		wantEnd(t, h, b, ref, consign.StatusCancelled, consign.CodeDeliveryNotPermitted, 0)

		d.undeliverable, d.pair = false, "triage tickets.other"
		one, two := commitWork(t, h, b.work, 1).Work[0], commitWork(t, h, other.work, 1).Work[0]
		visit(t, h.outbox, two) // first: the other run has changed the record, which is what Exact is about
		wantEnd(t, h, other, two, consign.StatusSucceeded, "", 1)
		h.exec(t, `UPDATE {t}ticket SET lock_version = lock_version - 1 WHERE id = 41`)
		visit(t, h.outbox, one)
		wantEnd(t, h, b, one, consign.StatusCancelled, consign.CodeDeliveryNotPermitted, 0)
	})
}

// The checks at the boundary come in their order, and the first that fails ends it:
// the request, then the authority, then what is bound to the key.
func TestFirstFaultAtTheBoundaryEndsIt(t *testing.T) {
	b := newBench()
	onBothDesks(t, b.options(), func(t *testing.T, h *host, d *desk) {
		*b, *d = *newBench(), desk{}
		ref := commitWork(t, h, b.work, 1).Work[0]
		b.before = func(context.Context, *consign.Delivery) error {
			d.asked, d.revoked, d.gone, d.undeliverable = nil, true, true, true
			return nil
		}
		b.build = func(*consign.Delivery) any { return "no object" }
		visit(t, h.outbox, ref)
		wantEnd(t, h, b, ref, consign.StatusReconciliationRequired, consign.CodeRequestInvalid, 0)
		if len(d.asked) != 0 {
			t.Errorf("the authority was asked %q about a request that may not be sent", d.asked)
		}

		for _, c := range []struct {
			set  func()
			code consign.Code
		}{
			{func() { d.revoked, d.gone, d.undeliverable = true, true, true }, consign.CodeAuthorityRevoked},
			{func() { d.gone, d.undeliverable = true, true }, consign.CodeTargetUnavailable},
			{func() { d.undeliverable = true; h.exec(t, editSQL) }, consign.CodeRecordChanged},
			{func() { d.undeliverable = true }, consign.CodeDeliveryNotPermitted},
			{func() {}, consign.CodeRequestChanged},
		} {
			*b, *d = *newBench(), desk{}
			b.answer = func(consign.Attempt) error { return io.EOF } // so that the next request is another one
			b.build = func(*consign.Delivery) any { return map[string]any{"n": b.calls} }
			ref := commitWork(t, h, b.work, 1).Work[0]
			visit(t, h.outbox, ref)
			b.before = func(context.Context, *consign.Delivery) error { c.set(); return nil }
			due(t, h, ref)
			visit(t, h.outbox, ref)
			wantEnd(t, h, b, ref, consign.StatusReconciliationRequired, c.code, 1)
		}
	})
}
