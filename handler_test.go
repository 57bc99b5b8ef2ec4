package consign_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/consigntest"
	"github.com/consign-go/consign/internal/driver/memory"
)

// nested is an object of that many levels.
func nested(levels int) map[string]any {
	m := map[string]any{}
	for range levels - 1 {
		m = map[string]any{"in": m}
	}
	return m
}

func sized(bytes int) map[string]any {
	return map[string]any{"a": strings.Repeat("x", bytes-len(`{"a":""}`))}
}

// What a handler does before, instead of and after its effect, and what becomes of
// the work.
func TestWhatHandlersDoDecidesWhatBecomesOfTheWork(t *testing.T) {
	fail := func(err error) func(context.Context, *consign.Delivery) error {
		return func(context.Context, *consign.Delivery) error { return err }
	}
	request := func(v any) func(b *bench) {
		return func(b *bench) { b.build = func(*consign.Delivery) any { return v } }
	}
	const (
		review, pending = consign.StatusReconciliationRequired, consign.StatusPending
		invalid         = consign.CodeRequestInvalid
	)
	cases := []struct {
		name   string
		set    func(b *bench)
		status consign.Status
		code   consign.Code
		sends  int
	}{
		{"it forgets the effect", func(b *bench) { b.skip = true }, review, consign.CodeEffectNotCalled, 0},
		{"it says that the work is not wanted", func(b *bench) { b.before = fail(consign.Cancel("the customer left")) },
			consign.StatusCancelled, consign.CodeCancelledByHandler, 0},
		{"it says so along a chain", func(b *bench) { b.before = fail(fmt.Errorf("looking: %w", consign.Cancel("gone"))) },
			consign.StatusCancelled, consign.CodeCancelledByHandler, 0},
		{"it says so among other things", func(b *bench) { b.before = fail(errors.Join(consign.Cancel("gone"), io.EOF)) }, pending, "", 0},
		{"it fails before the effect", func(b *bench) { b.before = fail(io.EOF) }, pending, "", 0},
		{"it fails with a definite class before the effect", func(b *bench) { b.before = fail(consign.Rejected(io.EOF)) }, pending, "", 0},
		{"it crashes before the effect", func(b *bench) {
			b.before = func(context.Context, *consign.Delivery) error { panic("broken") }
		}, pending, "", 0},
		{"a request as deep as allowed", request(nested(8)), consign.StatusSucceeded, "", 1},
		{"a request one level deeper", request(nested(9)), review, invalid, 0},
		{"a request as large as allowed", request(sized(16384)), consign.StatusSucceeded, "", 1},
		{"a request one byte larger", request(sized(16385)), review, invalid, 0},
		{"a request with a time in it", request(map[string]any{"at": time.Now()}), review, invalid, 0},
		{"a request that is no object", request([]any{1}), review, invalid, 0},
		{"a raw request", request(json.RawMessage(` {"b":1, "a":"\u0041"} `)), consign.StatusSucceeded, "", 1},
		{"no request", request(nil), review, invalid, 0},
		{"no function", func(b *bench) {
			b.instead = func(ctx context.Context, d *consign.Delivery) error { return d.Effect(ctx, nested(1), nil) }
		}, review, invalid, 0},
		{"no context", func(b *bench) {
			b.instead = func(_ context.Context, d *consign.Delivery) error {
				var none context.Context
				return d.Effect(none, nested(1), func(context.Context, consign.Attempt) error { t.Error("sent"); return nil })
			}
		}, review, invalid, 0},
		{"its error after a success", func(b *bench) { b.after = fail(io.EOF) }, consign.StatusSucceeded, consign.CodePostEffectCallbackFailed, 1},
		{"it crashes after a success", func(b *bench) {
			b.after = func(context.Context, *consign.Delivery) error { panic("broken") }
		}, consign.StatusSucceeded, consign.CodePostEffectCallbackFailed, 1},
		{"it swallows a refusal", func(b *bench) {
			b.build = func(*consign.Delivery) any { return 1 }
			b.after = fail(nil)
		}, review, invalid, 0},
	}
	b := newBench()
	onBothDesks(t, b.options(), func(t *testing.T, h *host, _ *desk) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				*b = *newBench()
				ref := commitWork(t, h, b.work, 1).Work[0]
				c.set(b)
				visit(t, h.outbox, ref)
				wantEnd(t, h, b, ref, c.status, c.code, c.sends)
			})
		}
	})
}

// The outcome is what send says it is; only what is asked for by name is definite.
func TestOutcomesOfAnEffect(t *testing.T) {
	const review, pending = consign.StatusReconciliationRequired, consign.StatusPending
	cases := []struct {
		name      string
		err       error
		status    consign.Status
		code      consign.Code
		uncertain bool
	}{
		{"nil", nil, consign.StatusSucceeded, "", false},
		{"not sent", consign.NotSent(io.EOF), pending, "", false},
		{"refused", fmt.Errorf("wrapped: %w", consign.Refused(io.EOF, time.Hour)), pending, "", false},
		{"rejected", consign.Rejected(io.EOF), review, consign.CodeRejected, false},
		{"plain", io.EOF, pending, "", true},
		{"joined", errors.Join(consign.NotSent(io.EOF), io.EOF), pending, "", true},
		{"wrapped twice at once", fmt.Errorf("%w, %w", consign.Rejected(io.EOF), io.EOF), pending, "", true},
		{"cancelled inside the effect", consign.Cancel("too late"), pending, "", true},
	}
	b := newBench()
	onBothDesks(t, b.options(), func(t *testing.T, h *host, _ *desk) {
		for _, c := range cases {
			*b = *newBench()
			b.answer = func(consign.Attempt) error { return c.err }
			ref := commitWork(t, h, b.work, 1).Work[0]
			visit(t, h.outbox, ref)
			wantEnd(t, h, b, ref, c.status, c.code, 1)
			if i := find(t, h, ref); i.Uncertain != c.uncertain || i.Attempts != 1 {
				t.Errorf("%s: uncertain %v, attempts %d", c.name, i.Uncertain, i.Attempts)
			}
			if b.effect != c.err {
				t.Errorf("%s: the effect returned %v", c.name, b.effect)
			}
		}
		// A kind whose far side does not drop repeated keys is never sent again.
		once := *newBench()
		once.work.Kind, once.work.Idempotent = "tickets.once", false
		once.answer = func(consign.Attempt) error { return io.EOF }
		o := once.options()
		o.Authority = &deskOn[any]{desk: &desk{}}
		ref := commitWork(t, h, once.work, 1).Work[0]
		visit(t, h.with(t, o), ref)
		wantEnd(t, h, &once, ref, review, consign.CodeOutcomeUnknown, 1)
	})
}

// The effect works once, and what it has seen stands, whatever comes after it.
func TestSecondEffectIsRefusedAndTheFirstStands(t *testing.T) {
	b := newBench()
	onBothDesks(t, b.options(), func(t *testing.T, h *host, d *desk) {
		*b = *newBench()
		var again error
		var kept *consign.Delivery
		b.after = func(ctx context.Context, dl *consign.Delivery) error {
			kept = dl
			d.revoked = true // too late
			again = dl.Effect(ctx, nested(1), b.send)
			return nil
		}
		ref := commitWork(t, h, b.work, 1).Work[0]
		visit(t, h.outbox, ref)
		wantEnd(t, h, b, ref, consign.StatusSucceeded, "", 1)
		checkRefusal(t, again, ref, consign.CodeEffectCalledTwice)
		checkRefusal(t, kept.Effect(t.Context(), nested(1), b.send), ref, consign.CodeEffectCalledTwice)
		err := new(consign.Delivery).Effect(t.Context(), nested(1), b.send)
		if !errors.Is(err, consign.ErrInvalid) || len(b.got) != 1 {
			t.Errorf("a delivery of nobody: %v, sent %d times", err, len(b.got))
		}
		// A refused second effect is returned, and so noted as what failed afterwards.
		*b, *d = *newBench(), desk{}
		b.after = func(ctx context.Context, dl *consign.Delivery) error { return dl.Effect(ctx, nested(1), b.send) }
		ref = commitWork(t, h, b.work, 1).Work[0]
		visit(t, h.outbox, ref)
		wantEnd(t, h, b, ref, consign.StatusSucceeded, consign.CodePostEffectCallbackFailed, 1)
	})
}

// A deadline that passes while the request is prepared ends the work unsent, without
// the authority being asked again.
func TestDeadlineThatPassesBeforeTheEffectStopsIt(t *testing.T) {
	b := newBench()
	b.work.MaxAge = 400 * time.Millisecond
	w := b.work
	onBothDesks(t, b.options(), func(t *testing.T, h *host, d *desk) {
		*b, *d = *newBench(), desk{}
		ref := commitWork(t, h, w, 1).Work[0]
		b.before = func(_ context.Context, dl *consign.Delivery) error {
			// The delivery's is a little earlier than the store's, never later.
			last := find(t, h, ref).Deadline
			if dl.Deadline.After(last.Add(time.Millisecond)) {
				t.Errorf("the handler was told %s, the store's deadline is %s", dl.Deadline, last)
			}
			time.Sleep(time.Until(last) + 20*time.Millisecond)
			return nil
		}
		d.asked = nil
		visit(t, h.outbox, ref)
		wantEnd(t, h, b, ref, consign.StatusCancelled, consign.CodeDeadlineExpired, 0)
		if len(d.asked) > 3 {
			t.Errorf("the authority was asked %q", d.asked)
		}
	})
}

// Handlers and authority see the database and cannot write through what they see
// it by; from the effect on there is no view, and none is left open.
func TestViewsOnlyReadAndEndBeforeTheEffect(t *testing.T) {
	b := newBench()
	onDeskWith(t, b.options(), func(t *testing.T, h *host, d *desk) {
		*b, *d = *newBench(), desk{tryWrites: true}
		ref := commitWork(t, h, b.work, 1).Work[0]
		look := func(v consign.View) (s string, err error) {
			err = h.look(t.Context(), v, func(tx *txn) error { return tx.Scan(`SELECT lock_version || '' FROM {t}ticket WHERE id = 41`, &s) })
			return s, err
		}
		d.views = nil // those of the run ended with its transaction
		var kept *consign.Delivery
		b.before = func(ctx context.Context, dl *consign.Delivery) error {
			kept = dl
			if s, err := look(dl); s != "2" || err != nil {
				t.Errorf("the handler sees version %q, %v", s, err)
			}
			for _, v := range d.views {
				if _, err := look(v); !errors.Is(err, consign.ErrClosed) {
					t.Errorf("the authority's view after its answer: %v", err)
				}
			}
			if err := h.look(ctx, dl, func(tx *txn) error { return tx.Exec(`UPDATE {t}ticket SET status = 'hijacked'`) }); err == nil {
				t.Error("a handler wrote through its view")
			}
			err := h.look(ctx, dl, func(*txn) error { return dl.Effect(ctx, nested(1), b.send) })
			if !errors.Is(err, consign.ErrInvalid) {
				t.Errorf("an effect inside Read: %v", err)
			}
			if n := h.inUse(); n != 0 {
				t.Errorf("%d connections in use", n)
			}
			return nil
		}
		b.answer = func(consign.Attempt) error {
			if _, err := look(kept); !errors.Is(err, consign.ErrClosed) {
				t.Errorf("the view inside the effect: %v", err)
			}
			return nil
		}
		visit(t, h.outbox, ref)
		wantEnd(t, h, b, ref, consign.StatusSucceeded, "", 1)
		if _, err := look(kept); !errors.Is(err, consign.ErrClosed) {
			t.Errorf("the view after the handler: %v", err)
		}
		if d.writes != nil {
			t.Error(d.writes)
		}
		if s := h.text(t, `SELECT status FROM {t}ticket WHERE id = 41`); s != "triaged" {
			t.Errorf("the ticket is %s", s)
		}
		if err := consign.Read(t.Context(), kept, func(*memory.Tx) error { return nil }); !errors.Is(err, consign.ErrInvalid) {
			t.Errorf("a transaction of another store: %v", err)
		}
		if err := consign.Read(t.Context(), new(consign.Delivery), func(*memory.Tx) error { return nil }); !errors.Is(err, consign.ErrInvalid) {
			t.Errorf("a delivery of nobody: %v", err)
		}
	})
}

// One handler that crashes, one that fails and one whose input is unreadable: the
// others are delivered all the same.
func TestOneBadDeliveryNeverHoldsUpTheOthers(t *testing.T) {
	b := newBench()
	onBothDesks(t, b.options(), func(t *testing.T, h *host, _ *desk) {
		*b = *newBench()
		refs := commitWork(t, h, b.work, 8).Work
		fickleFails = map[string]bool{"bad": true}
		bad := consign.Work[fickle]{Kind: "tickets.fickle"}
		receipt, err := h.outbox.Run(t.Context(), admit, func(_ context.Context, _ *txn, run *consign.Run) error {
			_, err := bad.Enqueue(run, "bad", fickle{"bad"})
			_, err2 := bad.Enqueue(run, "good", fickle{"good"})
			return errors.Join(err, err2)
		})
		if err != nil {
			t.Fatal(err)
		}
		var read []string
		o := consign.Options{Authority: &deskOn[any]{desk: &desk{}}, Workers: 1, Handlers: []consign.Handler{
			b.work.Handler(func(ctx context.Context, d *consign.Delivery, in noticeInput) error {
				switch d.Ref {
				case refs[0]:
					panic("broken")
				case refs[1]:
					return io.EOF
				}
				return b.handle(ctx, d, in)
			}),
			bad.Handler(func(ctx context.Context, d *consign.Delivery, in fickle) error {
				read = append(read, in.Name)
				return d.Effect(ctx, in, b.send)
			}),
		}}
		results, err := h.with(t, o).Drain(t.Context(), 0)
		visited := map[consign.Ref]int{}
		for _, r := range results {
			visited[r.Ref]++
		}
		if err != nil || len(visited) != 10 {
			t.Fatalf("%d results of %d deliveries, %v", len(results), len(visited), err)
		}
		for ref, n := range visited { // what is tried again after two seconds may meet a slow drain twice
			if n != 1 && ref != refs[0] && ref != refs[1] {
				t.Errorf("%s was visited %d times", ref, n)
			}
		}
		wantEnd(t, h, b, refs[0], consign.StatusPending, "", 7)
		wantEnd(t, h, b, refs[1], consign.StatusPending, "", 7)
		for _, ref := range refs[2:] {
			wantEnd(t, h, b, ref, consign.StatusSucceeded, "", 7)
		}
		wantEnd(t, h, b, receipt.Work[0], consign.StatusReconciliationRequired, consign.CodeInputUnreadable, 7)
		wantEnd(t, h, b, receipt.Work[1], consign.StatusSucceeded, "", 7)
		if len(read) != 1 || read[0] != "good" {
			t.Errorf("read %q", read)
		}
		if text := find(t, h, receipt.Work[0]).LastError; strings.Contains(text, "bad") || text == "" {
			t.Errorf("the error is %q: it quotes the input, or says nothing", text)
		}
	})
}

// fickle is an input that does not decode any more where the test says so.
type fickle struct {
	Name string `json:"name"`
}

var fickleFails map[string]bool

func (f *fickle) UnmarshalJSON(b []byte) error {
	type plain fickle
	if err := json.Unmarshal(b, (*plain)(f)); err != nil {
		return err
	}
	if fickleFails[f.Name] {
		return errors.New("cannot read " + f.Name)
	}
	return nil
}

// What the logger is told are ids and codes; no payload, request, reason or answer.
func TestLoggerIsToldIDsAndCodesOnly(t *testing.T) {
	var out bytes.Buffer
	b := newBench()
	o := b.options()
	observed := 0
	o.Observe = func(consign.Observation) { observed++ }
	o.Logger = slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	onBothDesks(t, o, func(t *testing.T, h *host, d *desk) {
		*b, *d = *newBench(), desk{}
		out.Reset()
		observed = 0
		b.build = func(*consign.Delivery) any { return map[string]any{"CONTENT": "CONTENT"} }
		b.answer = func(a consign.Attempt) error {
			if a.Number < 3 {
				return errors.New("CONTENT of an answer")
			}
			return consign.Rejected(errors.New("CONTENT of an answer"))
		}
		b.before = func(context.Context, *consign.Delivery) error {
			if b.calls == 1 {
				panic("CONTENT of a panic")
			}
			return nil
		}
		ref := commitWork(t, h, b.work, 1).Work[0]
		for range 4 {
			visit(t, h.outbox, ref)
			due(t, h, ref)
		}
		wantEnd(t, h, b, ref, consign.StatusReconciliationRequired, consign.CodeRejected, 3)
		log := out.String()
		for _, want := range []string{ref.String(), b.work.Kind, "REJECTED", `"level":"WARN","msg":"consign: settle"`, `"consign: start"`, `"attempt":3`} {
			if !strings.Contains(log, want) {
				t.Errorf("%q is not in the log", want)
			}
		}
		if strings.Contains(log, "CONTENT") {
			t.Errorf("content in the log:\n%s", log)
		}
		if observed == 0 || observed != strings.Count(log, "\n") {
			t.Errorf("%d observations, %d lines", observed, strings.Count(log, "\n"))
		}
	})
}

// boundedAuthority notes how long the authority may take.
type boundedAuthority struct {
	*consigntest.Authority
	left []time.Duration
}

func (a *boundedAuthority) Principal(ctx context.Context, v consign.View, actor, tenant consign.Entity) (consign.Principal, error) {
	end, _ := ctx.Deadline()
	a.left = append(a.left, time.Until(end))
	return a.Authority.Principal(ctx, v, actor, tenant)
}

// Whatever context a handler gives to its effect, the authority's ends before the
// lease does, and that of the effect with the contract's timeout.
func TestNoContextOutlivesTheLease(t *testing.T) {
	a := &boundedAuthority{Authority: consigntest.NewAuthority()}
	i := consigntest.Deliver(t, triaged, func(_ context.Context, d *consign.Delivery, in noticeInput) error {
		return d.Effect(context.Background(), in, func(ctx context.Context, _ consign.Attempt) error {
			end, _ := ctx.Deadline()
			a.left = append(a.left, time.Until(end))
			return nil
		})
	}, noticeInput{Ticket: "41"}, &consigntest.Case{Authority: a})
	limits := []time.Duration{55 * time.Second, 55 * time.Second, 30 * time.Second}
	if i.Status != consign.StatusSucceeded || len(a.left) != 1+len(limits) {
		t.Fatalf("%s, %d contexts", i.Status, len(a.left))
	}
	for n, limit := range limits { // after that of the run
		if left := a.left[n+1]; left <= 0 || left > limit {
			t.Errorf("context %d ends after %s, want %s at most", n, left, limit)
		}
	}
}

// leakyAuthority answers while it still reads.
type leakyAuthority struct {
	*consigntest.Authority
	views []consign.View
	done  chan struct{} // ends the reads
	wait  sync.WaitGroup
}

func (a *leakyAuthority) Principal(ctx context.Context, v consign.View, actor, tenant consign.Entity) (consign.Principal, error) {
	if _, late := ctx.Deadline(); late { // not in the run
		a.views = append(a.views, v)
		reading := make(chan struct{})
		a.wait.Go(func() {
			consign.Read(context.WithoutCancel(ctx), v, func(*consigntest.Tx) error { close(reading); <-a.done; return nil })
		})
		<-reading
	}
	return a.Authority.Principal(ctx, v, actor, tenant)
}

// A view ends with the call that it was given to, even where somebody still reads
// through it; such an answer is no answer.
func TestNoViewOutlivesTheCallItWasGivenTo(t *testing.T) {
	closed := func(v consign.View) {
		t.Helper()
		err := consign.Read(t.Context(), v, func(*consigntest.Tx) error { return nil })
		if !errors.Is(err, consign.ErrClosed) {
			t.Errorf("a view after its call: %v", err)
		}
	}
	var kept *consign.Delivery
	forget := func(_ context.Context, d *consign.Delivery, _ noticeInput) error { kept = d; return nil }
	if i := consigntest.Deliver(t, triaged, forget, noticeInput{}, nil); i.Code != consign.CodeEffectNotCalled {
		t.Errorf("%s %q", i.Status, i.Code)
	}
	closed(kept)

	a := &leakyAuthority{Authority: consigntest.NewAuthority(), done: make(chan struct{})}
	kept = nil
	i := consigntest.Deliver(t, triaged, forget, noticeInput{}, &consigntest.Case{Authority: a, Visits: 1})
	if i.Status != consign.StatusPending || i.LastError == "" || kept != nil || len(a.views) != 1 {
		t.Errorf("%s, %q, %d views", i.Status, i.LastError, len(a.views))
	}
	closed(a.views[0])
	close(a.done)
	a.wait.Wait()
}
