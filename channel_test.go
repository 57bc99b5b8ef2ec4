package consign_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/consign-go/consign"
)

// answers is a far side that answers each message by a list, whose last one repeats.
type answers struct {
	mu   sync.Mutex
	list []error
	took map[consign.Ref]int
}

func newAnswers(list ...error) *answers { return &answers{list: list, took: map[consign.Ref]int{}} }

func (a *answers) deliver(_ context.Context, m consign.Message, _ consign.Attempt) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.took[m.ID]
	a.took[m.ID]++
	return a.list[min(n, len(a.list)-1)]
}

var (
	refused  = consign.Refused(errors.New("busy"), 0)
	rejected = consign.Rejected(errors.New("gone"))
)

// serving runs Serve until the test ends.
func serving(t *testing.T, h *host) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.outbox.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serve ended with %v", err)
		}
	})
}

// A message that waits between two attempts of its in-process loop occupies no
// worker: with a single one, another message is sent in the meantime.
func TestWaitingMessageOccupiesNoWorker(t *testing.T) {
	var mu sync.Mutex
	var sent []string
	deliver := func(_ context.Context, m consign.Message, _ consign.Attempt) error {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, m.Channel)
		if m.Channel == "loop" && !slices.Contains(sent, "quick") {
			return refused
		}
		return nil
	}
	calls := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(sent)
	}
	o := consign.Options{Workers: 1, Channels: []consign.Channel{
		{Name: "loop", MaxAttempts: 100, Lease: time.Hour, Waits: []time.Duration{3 * time.Second}, Deliver: deliver}, {Name: "quick", Deliver: deliver},
	}}
	onEveryStore(t, o, func(t *testing.T, h *host) {
		sent = nil
		loop := commitMessages(t, h, "loop", 1)[0]
		serving(t, h)
		waitUntil(t, "the first attempt is made", func() bool { return len(calls()) > 0 })
		quick := commitMessages(t, h, "quick", 1)[0]
		if err := h.outbox.Wake(t.Context()); err != nil {
			t.Error(err)
		}
		waitFor(t, h, quick, consign.StatusDelivered)
		waitFor(t, h, loop, consign.StatusDelivered)
		got := calls()
		if last := len(got) - 1; slices.Index(got, "quick") != last-1 || got[last] != "loop" {
			t.Errorf("sent %q, want the loop to be ended by what comes after the other one", got)
		}
	})
}

func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("did not come about: %s", what)
		}
	}
}

// What is due on a channel that no live program serves fails with a code when the
// grace period is over, and not before; what is served is delivered.
func TestMessageOfAnUnservedChannelFailsAfterTheGrace(t *testing.T) {
	const grace = 600 * time.Millisecond
	o := consign.Options{HandlerGrace: grace, Channels: []consign.Channel{{Name: "crm", Deliver: newAnswers(nil).deliver}}}
	onEveryStore(t, o, func(t *testing.T, h *host) {
		gone := commitMessages(t, h, "gone", 1)[0]
		serving(t, h)
		waitFor(t, h, commitMessages(t, h, "crm", 1)[0], consign.StatusDelivered)
		waitFor(t, h, gone, consign.StatusFailed)
		i, err := h.outbox.Find(t.Context(), gone)
		if err != nil || i.Code != consign.CodeChannelMissing || i.Uncertain || i.Attempts != 0 {
			t.Errorf("failed as %+v, %v", i, err)
		}
		if waited := i.UpdatedAt.Sub(i.CreatedAt); waited < grace {
			t.Errorf("failed after %s, the grace period is %s", waited, grace)
		}
	})
}

// On schedule a rejection is final, unless the channel lets a number of them be tried
// again: so many, wherever they come among other refusals.
func TestScheduleRetriesAsManyRejectionsAsDeclared(t *testing.T) {
	far := newAnswers(refused, rejected, refused, rejected, refused, rejected, nil)
	o := consign.Options{}
	for name, n := range map[string]int{"none": 0, "one": 1, "two": 2, "three": 3} {
		o.Channels = append(o.Channels, consign.Channel{
			Name: name, Retry: consign.OnSchedule, Rejections: n, Waits: []time.Duration{0}, Deliver: far.deliver,
		})
	}
	onEveryStore(t, o, func(t *testing.T, h *host) {
		for name, attempts := range map[string]int{"none": 2, "one": 4, "two": 6} {
			ref := commitMessages(t, h, name, 1)[0]
			drive(t, h, ref)
			i, err := h.outbox.Find(t.Context(), ref)
			if err != nil || i.Status != consign.StatusFailed || i.Code != consign.CodeRejected || i.Uncertain || i.Attempts != attempts {
				t.Errorf("%s: %s %s after %d attempts, %v; want REJECTED after %d", name, i.Status, i.Code, i.Attempts, err, attempts)
			}
		}
		ref := commitMessages(t, h, "three", 1)[0]
		drive(t, h, ref)
		if i, err := h.outbox.Find(t.Context(), ref); err != nil || i.Status != consign.StatusDelivered || i.Attempts != 7 {
			t.Errorf("three: %s after %d attempts, %v", i.Status, i.Attempts, err)
		}
	})
}

// drive visits a message until it has ended; whatever its schedule says, it is due.
func drive(t *testing.T, h *host, ref consign.Ref) {
	t.Helper()
	for range 20 {
		r, err := h.outbox.Visit(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if r.Status != consign.StatusPending {
			return
		}
		h.exec(t, `UPDATE {s}delivery SET due_at = created_at WHERE due_at IS NOT NULL`)
	}
	t.Fatalf("%s does not end", ref)
}

// The ready-made schedule makes 8 attempts over about 28 hours, each no earlier than
// it says and at most a fifth later, and then gives up.
func TestReadyMadeScheduleMakesEightAttemptsInTwentyEightHours(t *testing.T) {
	far := newAnswers(refused)
	o := consign.Options{Channels: []consign.Channel{{Name: "hook", Retry: consign.OnSchedule, Deliver: far.deliver}}}
	want := []time.Duration{
		5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 10 * time.Hour,
	}
	onEveryStore(t, o, func(t *testing.T, h *host) {
		ref := commitMessages(t, h, "hook", 1)[0]
		total := time.Duration(0)
		for n, wait := range want {
			r, err := h.outbox.Visit(t.Context(), ref)
			i, lost := h.outbox.Find(t.Context(), ref)
			if err != nil || lost != nil || r.Status != consign.StatusPending || i.Attempts != n+1 {
				t.Fatalf("attempt %d: %+v with %d attempts, %v, %v", n+1, r, i.Attempts, err, lost)
			}
			got := i.DueAt.Sub(i.UpdatedAt).Round(time.Second)
			if got < wait || got > wait+wait/5+time.Second {
				t.Errorf("after attempt %d it waits %s, want %s to a fifth more", n+1, got, wait)
			}
			total += wait
			h.exec(t, `UPDATE {s}delivery SET due_at = created_at`)
		}
		if hours := total.Hours(); hours < 27 || hours > 29 {
			t.Errorf("the whole takes %.1f hours", hours)
		}
		r, err := h.outbox.Visit(t.Context(), ref)
		if err != nil || r.Status != consign.StatusFailed || r.Code != consign.CodeAttemptsExhausted {
			t.Errorf("the eighth attempt ends as %+v, %v", r, err)
		}
	})
}

// A message of a channel's own limit is delivered to the last byte; the limit is that
// channel's alone.
func TestLargestMessageOfAChannelIsDelivered(t *testing.T) {
	const limit = 1 << 20
	var got [32]byte
	var size int
	o := consign.Options{Channels: []consign.Channel{
		{Name: "large", PayloadLimit: limit, Deliver: func(_ context.Context, _ consign.Message, a consign.Attempt) error {
			got, size = sha256.Sum256(a.Request), len(a.Request)
			return nil
		}},
		{Name: "other"},
	}}
	onEveryStore(t, o, func(t *testing.T, h *host) {
		sized := func(channel string, bytes int) consign.Message {
			return consign.Message{Channel: channel, Payload: map[string]any{"t": strings.Repeat("x", bytes-len(`{"t":""}`))}}
		}
		ref, err := h.outbox.EnqueueNow(t.Context(), sized("large", limit))
		if err != nil {
			t.Fatal(err)
		}
		if r, err := h.outbox.Visit(t.Context(), ref); err != nil || !r.Success() {
			t.Errorf("%+v, %v", r, err)
		}
		if want := sha256.Sum256([]byte(`{"t":"` + strings.Repeat("x", limit-8) + `"}`)); size != limit || got != want {
			t.Errorf("sent %d bytes", size)
		}
		for channel, most := range map[string]int{"large": limit, "other": 16 << 10, "unknown": 16 << 10} {
			if _, err := h.outbox.EnqueueNow(t.Context(), sized(channel, most+1)); !errors.Is(err, consign.ErrInvalid) {
				t.Errorf("%s: one byte more than %d: %v", channel, most, err)
			}
		}
	})
}

// EnqueueAllNow commits all of its messages or none, in their order.
func TestEnqueueAllNowIsAllOrNone(t *testing.T) {
	onEveryStore(t, consign.Options{}, func(t *testing.T, h *host) {
		ms := make([]consign.Message, 20)
		for i := range ms {
			ms[i] = notice(i)
		}
		refs, err := h.outbox.EnqueueAllNow(t.Context(), ms)
		if err != nil || len(refs) != len(ms) {
			t.Fatal(len(refs), err)
		}
		for i, ref := range refs {
			if _, err := h.outbox.Find(t.Context(), ref); err != nil {
				t.Errorf("number %d: %v", i, err)
			}
		}
		ms[0].ID = refs[3]
		if _, err := h.outbox.EnqueueAllNow(t.Context(), ms); !errors.Is(err, consign.ErrConflict) {
			t.Errorf("one of them conflicts: %v", err)
		}
		if n := stored(t, h); n != len(refs) {
			t.Errorf("%d are stored, want the first %d alone", n, len(refs))
		}
	})
}
