package consign_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/consign-go/consign"
)

// receiver is the far side: it counts what reaches it under each key.
type receiver struct {
	mu     sync.Mutex
	got    map[string]int
	answer func(a consign.Attempt) error
}

func newReceiver(answer func(a consign.Attempt) error) *receiver {
	return &receiver{got: map[string]int{}, answer: answer}
}

func (r *receiver) deliver(_ context.Context, m consign.Message, a consign.Attempt) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.Digest != sha256.Sum256(a.Request) || a.Ref != m.ID || string(a.Request) != string(m.Payload.(json.RawMessage)) {
		return errors.New("the attempt is not about the message")
	}
	r.got[a.Key]++
	return r.answer(a)
}

func accept(consign.Attempt) error { return nil }

// times is how often the receiver was reached under the key of ref.
func (r *receiver) times(ref consign.Ref) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got[ref.String()]
}

func channels(r *receiver) []consign.Channel {
	return []consign.Channel{
		{Name: "crm", Retry: consign.OnSchedule, Waits: []time.Duration{time.Millisecond}, Deliver: r.deliver},
		{Name: "chat", Waits: []time.Duration{time.Millisecond}, Deliver: r.deliver},
	}
}

func commitMessages(t *testing.T, h *host, channel string, n int) []consign.Ref {
	t.Helper()
	ms := make([]consign.Message, n)
	for i := range ms {
		ms[i] = consign.Message{Channel: channel, Payload: map[string]any{"n": i}}
	}
	tx := h.begin(t)
	refs, err := tx.EnqueueAll(ms)
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, tx)
	return refs
}

func TestServeDeliversWhatWasCommittedAndEndsWithItsContext(t *testing.T) {
	r := newReceiver(func(a consign.Attempt) error {
		if a.Number == 1 {
			return consign.Refused(errors.New("busy"), 0)
		}
		return nil
	})
	onEveryStore(t, consign.Options{Channels: channels(r), Workers: 8}, func(t *testing.T, h *host) {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.outbox.Serve(ctx) }()
		refs := append(commitMessages(t, h, "crm", 20), commitMessages(t, h, "chat", 20)...)
		if err := h.outbox.Wake(t.Context()); err != nil {
			t.Error(err)
		}
		for _, ref := range refs {
			waitFor(t, h, ref, consign.StatusDelivered)
			if n := r.times(ref); n != 2 {
				t.Errorf("%s was sent %d times, want a refusal and a success", ref, n)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serve ended with %v", err)
		}
	})
}

func waitFor(t *testing.T, h *host, ref consign.Ref, want consign.Status) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		got, err := h.outbox.Find(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if got.Status == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is %s %s, want %s", ref, got.Status, got.Code, want)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestVisitDrainAndScanDriveWhatIsDue(t *testing.T) {
	r := newReceiver(accept)
	onEveryStore(t, consign.Options{Channels: channels(r)}, func(t *testing.T, h *host) {
		refs := commitMessages(t, h, "crm", 12)
		got, err := h.outbox.Visit(t.Context(), refs[0])
		if err != nil || !got.Success() || got.Status != consign.StatusDelivered || got.Ref != refs[0] {
			t.Errorf("visit: %+v, %v", got, err)
		}
		again, err := h.outbox.Visit(t.Context(), refs[0])
		if err != nil || again != got || r.times(refs[0]) != 1 {
			t.Errorf("a second visit: %+v, %v, sent %d times", again, err, r.times(refs[0]))
		}
		if _, err := h.outbox.Visit(t.Context(), consign.NewRef()); !errors.Is(err, consign.ErrNotFound) {
			t.Errorf("visit of nothing: %v", err)
		}
		var q queue
		n, err := h.outbox.Scan(t.Context(), &q, 5)
		if err != nil || n != 5 || len(q) != 5 {
			t.Errorf("scan pushed %d of %d: %v", n, len(q), err)
		}
		results, err := h.outbox.Drain(t.Context(), 4)
		if err != nil || len(results) != 4 {
			t.Errorf("drain of 4: %d, %v", len(results), err)
		}
		results, err = h.outbox.Drain(t.Context(), 0)
		if err != nil || len(results) != 7 {
			t.Errorf("drain of the rest: %d, %v", len(results), err)
		}
		for _, ref := range refs {
			if n := r.times(ref); n != 1 {
				t.Errorf("%s was sent %d times", ref, n)
			}
		}
		if n, err := h.outbox.Scan(t.Context(), &q, 0); err != nil || n != 0 {
			t.Errorf("scan of nothing: %d, %v", n, err)
		}
	})
}

// What a channel does to the bytes that it was given reaches no later attempt.
func TestEveryAttemptGetsTheBytesThatWereDigested(t *testing.T) {
	sent := map[string]int{}
	spoil := func(_ context.Context, m consign.Message, a consign.Attempt) error {
		sent[string(a.Request)]++
		clear(a.Request)
		clear(m.Payload.(json.RawMessage))
		return consign.NotSent(errors.New("offline"))
	}
	o := consign.Options{Channels: []consign.Channel{{Name: "crm", Waits: []time.Duration{time.Millisecond}, Deliver: spoil}}}
	onEveryStore(t, o, func(t *testing.T, h *host) {
		clear(sent)
		ref := commitMessages(t, h, "crm", 1)[0]
		if _, err := h.outbox.Visit(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		if len(sent) != 1 || sent[`{"n":0}`] != 3 {
			t.Errorf("sent %v, want the stored bytes three times", sent)
		}
	})
}

type queue []consign.Ref

func (q *queue) Push(_ context.Context, refs []consign.Ref) error {
	*q = append(*q, refs...)
	return nil
}

// A message of a channel that its creator does not know is delivered under the
// contract of the first program that does.
func TestUnknownChannelTakesTheContractOfWhoeverDelivers(t *testing.T) {
	r := newReceiver(func(consign.Attempt) error { return errors.New("cut off") })
	onEveryStore(t, consign.Options{Channels: []consign.Channel{{Name: "crm", Retry: consign.OnSchedule, Deliver: r.deliver}}}, func(t *testing.T, h *host) {
		ref := commitMessages(t, h, "crm", 1)[0]
		h.exec(t, `UPDATE {s}delivery SET retry = 0, lease_ms = NULL, timeout_ms = NULL, max_attempts = NULL`)
		got, err := h.outbox.Visit(t.Context(), ref)
		if err != nil || got.Status != consign.StatusFailed || got.Code != consign.CodeOutcomeUnknown {
			t.Errorf("got %+v, %v; not idempotent and unknown is final", got, err)
		}
		found, err := h.outbox.Find(t.Context(), ref)
		if err != nil || !found.Uncertain || found.Attempts != 1 || found.LastError != "cut off" {
			t.Errorf("stored %+v, %v", found, err)
		}
	})
}
