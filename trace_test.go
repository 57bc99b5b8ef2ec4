package consign_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/consign-go/consign"
)

type traceKey struct{}

// TestTraceOfTheEnqueueReachesItsDelivery holds that what the hook returns is kept
// with a message and with work, and that an unusable context is left out rather
// than refused.
func TestTraceOfTheEnqueueReachesItsDelivery(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	var mu sync.Mutex
	seen := map[consign.Ref]string{}
	o := consign.Options{
		Trace: func(ctx context.Context) string { s, _ := ctx.Value(traceKey{}).(string); return s },
		Channels: []consign.Channel{{Name: "crm", Deliver: func(_ context.Context, m consign.Message, a consign.Attempt) error {
			mu.Lock()
			defer mu.Unlock()
			seen[m.ID] = a.Trace
			return nil
		}}},
		Authority: &deskOn[any]{desk: &desk{}},
	}
	onEveryStore(t, o, func(t *testing.T, h *host) {
		want := map[consign.Ref]string{}
		for _, c := range []struct{ given, kept string }{
			{trace, trace}, {"", ""}, {strings.Repeat("x", 256), strings.Repeat("x", 256)}, {strings.Repeat("x", 257), ""}, {"a\nb", ""},
		} {
			ctx := context.WithValue(t.Context(), traceKey{}, c.given)
			ref, err := h.outbox.EnqueueNow(ctx, consign.Message{Channel: "crm", Payload: map[string]any{}})
			if err != nil {
				t.Fatal(err)
			}
			want[ref] = c.kept
		}
		if _, err := h.outbox.Drain(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for ref, kept := range want {
			if got, ok := seen[ref]; !ok || got != kept {
				t.Errorf("delivered: %t, trace %q, want %q", ok, got, kept)
			}
		}
		ctx := context.WithValue(t.Context(), traceKey{}, trace)
		if _, err := h.outbox.Run(ctx, admit, func(_ context.Context, _ *txn, run *consign.Run) error {
			_, err := triaged.Enqueue(run, "notice", noticeInput{Ticket: "41"})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if got := h.text(t, "SELECT trace FROM {s}intent WHERE work_key = 'notice'"); got != trace {
			t.Errorf("work keeps the trace %q", got)
		}
	})
}

// TestTraceOfARunReachesTheDeliveryOfItsWork: the same for work, whose handler is
// shown it with the attempt.
func TestTraceOfARunReachesTheDeliveryOfItsWork(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	b := newBench()
	o := b.options()
	o.Trace = func(context.Context) string { return trace }
	onBothDesks(t, o, func(t *testing.T, h *host, d *desk) {
		*b, *d = *newBench(), desk{}
		var seen string
		b.answer = func(a consign.Attempt) error { seen = a.Trace; return nil }
		ref := commitWork(t, h, b.work, 1).Work[0]
		visit(t, h.outbox, ref)
		if seen != trace {
			t.Errorf("the attempt shows the trace %q", seen)
		}
	})
}

func TestNowIsTheDatabaseClock(t *testing.T) {
	onEveryStore(t, consign.Options{}, func(t *testing.T, h *host) {
		now, err := h.outbox.Now(t.Context())
		if away := time.Since(now); err != nil || away.Abs() > time.Minute {
			t.Errorf("%v away, %v", away, err)
		}
	})
}
