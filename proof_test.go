package consign_test

import (
	"context"
	"strings"
	"testing"

	"github.com/consign-go/consign"
)

// What the receiver signed is kept with an attempt whose outcome comes too late, of
// work as of messages; what cannot be a proof is not, and an attempt outside an effect
// keeps none.
func TestProofIsKeptWithAnAttemptThatComesTooLate(t *testing.T) {
	b := newBench()
	b.work.Idempotent = false
	long := strings.Repeat("p", 2048)
	const proofs = `SELECT coalesce(max(proof), '') || ' ' || coalesce(max(outcome), 0) || ' ' || count(*) FROM {s}attempt`
	var h *host
	past := ""
	far := func(ctx context.Context, a consign.Attempt) error {
		h.exec(t, `UPDATE {s}delivery SET lease_until = `+past+` WHERE lease_until IS NOT NULL`)
		if r := visit(t, h.outbox, a.Ref); r.Code != consign.CodeOutcomeUnknown {
			t.Errorf("swept: %+v", r)
		}
		h.exec(t, `DELETE FROM {s}attempt`) // the sweep's
		for _, none := range []string{"", long + "p", "tab\tin it", "é"} {
			a.KeepProof(none)
		}
		a.KeepProof(long)
		return nil
	}
	o := b.options()
	o.Channels = []consign.Channel{{Name: "crm", Retry: consign.OnSchedule, Deliver: func(ctx context.Context, _ consign.Message, a consign.Attempt) error { return far(ctx, a) }}}
	onBothDesks(t, o, func(t *testing.T, on *host, d *desk) {
		h, past = on, "created_at - interval '1 hour'"
		if strings.HasSuffix(t.Name(), "/sqlite") {
			past = "created_at - 3600000000"
		}
		b.answer = func(a consign.Attempt) error { return far(t.Context(), a) }
		visit(t, h.outbox, commitWork(t, h, b.work, 1).Work[0])
		if got := h.text(t, proofs); got != long+" 5 1" {
			t.Errorf("work keeps %.80s", got)
		}
		h.exec(t, `DELETE FROM {s}attempt`)
		ref, err := h.outbox.EnqueueNow(t.Context(), consign.Message{Channel: "crm", Payload: map[string]any{"n": 1}})
		if err != nil {
			t.Fatal(err)
		}
		visit(t, h.outbox, ref)
		if got := h.text(t, proofs); got != long+" 5 1" {
			t.Errorf("a message keeps %.80s", got)
		}
		consign.Attempt{}.KeepProof(long)
	})
}

// A check that panics has found nothing, and what it panics with is not told.
func TestCheckOfProofsMayPanic(t *testing.T) {
	onBothDesks(t, consign.Options{Channels: []consign.Channel{{Name: "crm", CheckProof: func(_ context.Context, p consign.Proof) (string, error) { panic(p.Text) }}}},
		func(t *testing.T, h *host, _ *desk) {
			o := h.outbox.(interface {
				CheckProof(ctx context.Context, channel string, p consign.Proof) (string, error)
			})
			signed, err := o.CheckProof(t.Context(), "crm", consign.Proof{Text: "content"})
			if signed != "" || err == nil || !strings.Contains(err.Error(), "panicked") || strings.Contains(err.Error(), "content") {
				t.Errorf("%q, %v", signed, err)
			}
		})
}
