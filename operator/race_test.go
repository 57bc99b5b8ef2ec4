package operator_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/operator"
)

// far is the far side of a channel: what was sent under which key. hold, where it is
// set, is waited for before an answer is given.
type far struct {
	mu   sync.Mutex
	sent map[string]int
	hold chan struct{}
	seen chan string
}

func newFar() *far { return &far{sent: map[string]int{}, seen: make(chan string, 1000)} }

func (f *far) deliver(ctx context.Context, _ consign.Message, a consign.Attempt) error {
	f.mu.Lock()
	f.sent[a.Key]++
	f.mu.Unlock()
	f.seen <- a.Key
	if f.hold == nil {
		return nil
	}
	select {
	case <-f.hold:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// next is the key of the next request that the far side sees.
func (f *far) next(h *host) string {
	h.Helper()
	select {
	case key := <-f.seen:
		return key
	case <-h.ctx.Done():
		h.Fatal("nothing is sent")
		return ""
	}
}

func (f *far) times(key string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sent[key]
}

// serve runs a program until the test, or the returned function, ends it.
func (h *host) serve(o outbox) (stop func()) {
	ctx, cancel := context.WithCancel(h.ctx)
	ended := make(chan error, 1)
	go func() { ended <- o.Serve(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			h.Error(err)
		}
	})
	h.Cleanup(stop)
	return stop
}

// until waits for a condition.
func (h *host) until(what string, ok func() bool) {
	h.Helper()
	for !ok() {
		select {
		case <-h.ctx.Done():
			h.Fatalf("does not come: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// A cancellation that races with a program at work either comes first, and nothing is
// sent, or is refused, and the message is delivered. It is never half of both.
func TestCancelRacesAClaim(t *testing.T) {
	onEveryStore(t, func(h *host) {
		f := newFar()
		o := h.program(consign.Channel{Name: "mail", Retry: consign.OnSchedule, Deliver: f.deliver})
		h.serve(o)
		var refs []consign.Ref
		errs := make([]error, 24)
		for i := range errs {
			ref, err := o.EnqueueNow(h.ctx, consign.Message{Channel: "mail", Payload: map[string]any{"n": i}})
			h.ok(err)
			refs = append(refs, ref)
			if i%3 == 0 {
				errs[i] = errors.Join(together(func() error { return cancel(h)(h.ann, ann, ref) }, func() error { return nil })...)
			} else {
				errs[i] = cancel(h)(h.ann, ann, ref)
			}
		}
		for i, ref := range refs {
			h.until("every message ends", func() bool { return h.record(ref).State.Status.Terminal() })
			e := h.show(ref)
			switch sent := f.times(e.DeliveryKey.String()); {
			case errs[i] == nil && (e.Code != consign.CodeCancelledByOperator || sent != 0 || e.Known != operator.KnownNot):
				h.Errorf("cancelled, and yet %s %s, sent %d times", e.Status, e.Code, sent)
			case errs[i] != nil && !errors.Is(errs[i], operator.ErrRefused) && !errors.Is(errs[i], operator.ErrChanged):
				h.Errorf("cancel: %v", errs[i])
			case errs[i] != nil && (e.Status != consign.StatusDelivered || sent != 1):
				h.Errorf("not cancelled, and yet %s, sent %d times", e.Status, sent)
			}
		}
	})
}

// A message that a program holds and has not started is cancelled, and its holder
// finds that out before it sends anything.
func TestCancelTakesAwayWhatIsNotStarted(t *testing.T) {
	onEveryStore(t, func(h *host) {
		n := message("mail", once)
		h.put(n)
		h.claim(n)
		holder := h.record(refOf(n)).State
		got, err := h.ann.Cancel(h.ctx, ann, refOf(n))
		h.ok(err)
		if got.Status != consign.StatusFailed || got.Code != consign.CodeCancelledByOperator {
			h.Errorf("cancelled: %+v", got)
		}
		start := lifecycle.DefaultPolicy.Apply(holder, lifecycle.Event{
			Kind: lifecycle.EvStart, Owner: holder.Owner, Generation: holder.Generation, Digest: n.Digest,
		})
		start.Ref = n.Ref
		held, err := h.store.Apply(h.ctx, []lifecycle.Transition{start})
		if err != nil || held[0] {
			h.Errorf("started after its cancellation: %v, %v", held, err)
		}
		h.refusal("cancel of what was started", cancel(h)(h.bob, bob, h.start(message("mail", once))), "started")
		h.is("cancel of nothing", cancel(h)(h.bob, bob, consign.NewRef()), consign.ErrNotFound)
		h.is("cancel of what was cancelled", cancel(h)(h.bob, bob, refOf(n)), operator.ErrChanged)

		unsure := h.start(message("mail", twice))
		h.happen(unsure, is(lifecycle.EvUnknown)) // goes back to pending, uncertain
		got, err = h.ann.Cancel(h.ctx, ann, unsure)
		h.ok(err)
		if e := h.show(unsure); got.Status != consign.StatusFailed || e.Known != operator.KnownNothing || len(h.review()) != 1 {
			h.Errorf("cancelled while unknown: %+v", e.Summary)
		}
	})
}

// An erasure that comes while a message is on its way: what the far side answers is
// kept, bare, and nothing of the content is left anywhere.
func TestEraseRacesASettle(t *testing.T) {
	onEveryStore(t, func(h *host) {
		f := newFar()
		f.hold = make(chan struct{})
		o := h.program(consign.Channel{Name: "mail", Retry: consign.OnSchedule, Deliver: f.deliver})
		stop := h.serve(o)
		ref, err := o.EnqueueNow(h.ctx, consign.Message{
			Channel: "mail", To: secret, Subject: "customer:1", Payload: map[string]any{"text": secret},
		})
		h.ok(err)
		f.next(h)
		n, err := h.ann.Erase(h.ctx, ann, []string{"customer:1"})
		h.ok(err)
		close(f.hold)
		stop() // what is known has been written down
		if n != 1 {
			h.Errorf("%d erased", n)
		}
		e := h.show(ref)
		if !e.Erased || e.Content != nil || e.Kind != "" || len(e.Choices) != 0 || e.Digest == ([32]byte{}) || e.Known != operator.KnownNothing {
			h.Errorf("tombstone %+v", e)
		}
		if len(e.Evidence) != 1 || e.Evidence[0].Outcome != "accepted" || !e.Evidence[0].Late || e.Evidence[0].Error != "" {
			h.Errorf("evidence %+v", e.Evidence)
		}
		if text := h.text(); strings.Contains(text, secret) || strings.Contains(text, "customer:1") {
			h.Error("content is left")
		}
		if _, err := o.Find(h.ctx, ref); !errors.Is(err, consign.ErrNotFound) {
			h.Errorf("found: %v", err)
		}
	})
}

// An erasure that meets a redelivery of the same subject leaves no copy: either the
// redelivery comes too late, or what it made is erased with the rest.
func TestEraseRacesARedelivery(t *testing.T) {
	onEveryStore(t, func(h *host) {
		h.serves(servesMessage("mail", once))
		for range 12 {
			n := message("mail", once)
			n.Subject = "customer:1"
			ref := h.rejected(n)
			errs := together(
				func() error { return redeliver(h)(h.bob, bob, ref) },
				func() error { _, err := h.ann.Erase(h.ctx, ann, []string{"customer:1"}); return err },
			)
			h.ok(errs[1])
			if errs[0] != nil && !errors.Is(errs[0], consign.ErrNotFound) && !errors.Is(errs[0], operator.ErrChanged) {
				h.Errorf("redeliver: %v", errs[0])
			}
			if strings.Contains(h.text(), secret) {
				h.Fatalf("content is left after %v", errs)
			}
		}
	})
}

// What was sent again is delivered by the programs at work, under the old key with the
// bytes that were stored, and only once.
func TestRedeliveredIsDelivered(t *testing.T) {
	onEveryStore(t, func(h *host) {
		f := newFar()
		ref := h.rejected(message("mail", once))
		o := h.program(consign.Channel{Name: "mail", Retry: consign.OnSchedule, Deliver: f.deliver})
		h.serve(o)
		h.until("the program is seen", func() bool {
			list, err := h.ann.Serving(h.ctx)
			h.ok(err)
			return slices.ContainsFunc(list, func(s operator.Served) bool { return s.Kind == "mail" && s.Retry == "schedule" })
		})
		errs := together(
			func() error { return redeliver(h)(h.ann, ann, ref) }, func() error { return redeliver(h)(h.bob, bob, ref) },
			func() error { return redeliver(h)(h.ann, ann, ref) },
		)
		key := f.next(h)
		if key != ref.String() {
			h.Errorf("sent under %s, want the old key", key)
		}
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else {
				h.is("loser", err, operator.ErrChanged)
			}
		}
		next := h.show(ref).Chain[1].Ref
		h.until("it is delivered", func() bool { return h.record(next).State.Status == lifecycle.Succeeded })
		if won != 1 || f.times(key) != 1 {
			h.Errorf("%d won, sent %d times", won, f.times(key))
		}
		h.is("sent again after its delivery", redeliver(h)(h.ann, ann, next), operator.ErrRefused)
	})
}

// A paused channel is left alone by programs at work while others go on, and taken up
// when it is resumed. Of two who pause at once one wins.
func TestPauseAndResume(t *testing.T) {
	onEveryStore(t, func(h *host) {
		errs := together(
			func() error { return h.ann.Pause(h.ctx, ann, consign.ProfileMessage, "mail") },
			func() error { return h.bob.Pause(h.ctx, bob, consign.ProfileMessage, "mail") },
		)
		if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), operator.ErrChanged) {
			h.Errorf("two who pause: %v", errs)
		}
		f := newFar()
		o := h.program(consign.Channel{Name: "mail", Deliver: f.deliver}, consign.Channel{Name: "chat", Deliver: f.deliver})
		held, err := o.EnqueueNow(h.ctx, consign.Message{Channel: "mail", Payload: map[string]any{}})
		h.ok(err)
		h.serve(o)
		for range 3 {
			passes, err := o.EnqueueNow(h.ctx, consign.Message{Channel: "chat", Payload: map[string]any{}})
			h.ok(err)
			if key := f.next(h); key != passes.String() {
				h.Errorf("what is paused was sent")
			}
		}
		list, err := h.ann.Pauses(h.ctx)
		h.ok(err)
		if len(list) != 1 || list[0].Kind != "mail" || list[0].Profile != consign.ProfileMessage || list[0].Why == "" || list[0].At.IsZero() {
			h.Errorf("pauses %+v", list)
		}
		if s := h.record(held).State; s.Status != lifecycle.Pending || s.Generation != 0 {
			h.Errorf("what is paused is %s", s.Status)
		}
		errs = together(
			func() error { return h.ann.Resume(h.ctx, ann, consign.ProfileMessage, "mail") },
			func() error { return h.bob.Resume(h.ctx, bob, consign.ProfileMessage, "mail") },
		)
		if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), operator.ErrChanged) {
			h.Errorf("two who resume: %v", errs)
		}
		if key := f.next(h); key != held.String() {
			h.Errorf("sent %s after the resumption", key)
		}
	})
}
