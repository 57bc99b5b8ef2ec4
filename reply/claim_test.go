package reply_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/reply"
)

// The claim moves a reply from pending to delivering in one write, adds no attempt,
// and hands out the exact bytes and the key to send them under.
func TestClaimMovesPendingToDeliveringInOneWrite(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		created := h.create(answer(in("turn", 0)))
		h.exec("UPDATE {s}delivery SET updated_at = updated_at - 60 * {second}")
		c := h.claim(created.ID)
		const state = "SELECT status || ' ' || in_flight || ' ' || generation || ' ' || revision || ' ' || attempts FROM {s}delivery"
		if got := h.text(state); got != "2 true 1 1 0" && got != "2 1 1 1 0" {
			t.Errorf("status, in flight, generation, revision, attempts are %s; want one write", got)
		}
		r := h.find(created.ID)
		if r.Status != consign.StatusDelivering || r.Attempts != 0 || !r.UpdatedAt.After(created.CreatedAt.Add(-time.Second)) || !same(r, c.Record()) {
			t.Errorf("claimed %+v, the claim says %+v", r, c.Record())
		}
		a := c.Attempt()
		if a.Ref != created.ID || a.Key != created.ID.String() || string(a.Request) != string(created.Payload) ||
			a.Digest != sha256.Sum256(created.Payload) || a.Number != 1 || a.Generation != 1 {
			t.Errorf("attempt is %+v", a)
		}
		if left := time.Until(c.Until()); left < 50*time.Second || left > 60*time.Second {
			t.Errorf("the lease is over in %s, want 60s", left)
		}
	})
}

// Only a pending reply that nobody holds and whose gate is open is claimed. Anything
// else, an unknown id included, answers false without an error and changes nothing.
func TestClaimOfAnythingElseIsLost(t *testing.T) {
	var far atomic.Int32
	busy := consign.Channel{Name: "busy", Waits: []time.Duration{time.Hour}, Retry: consign.OnSchedule, Deliver: func(context.Context, consign.Message, consign.Attempt) error {
		far.Add(1)
		return consign.Refused(errors.New("busy"), 0)
	}}
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		h.lost("unknown", consign.NewRef())
		h.lost("zero", consign.Ref{})

		claimed := h.create(answer())
		c := h.claim(claimed.ID)
		h.lost("delivering", claimed.ID)
		if _, err := c.RecordAttempt(t.Context(), consign.Refused(errors.New("503"), 0)); err != nil {
			t.Fatal(err)
		}
		h.lost("attempted", claimed.ID)
		if _, err := c.MarkFailed(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		h.lost("failed", claimed.ID)

		stranded := h.create(answer())
		h.claim(stranded.ID)
		h.leaseOver()
		h.lost("stranded", stranded.ID)

		delivered := h.create(answer())
		if _, err := h.claim(delivered.ID).MarkDelivered(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.lost("delivered", delivered.ID)

		h.create(answer(in("turn", 0)))
		h.lost("gate closed", h.create(answer(in("turn", 1))).ID)

		purged := h.create(answer(of("session")))
		if n, err := h.PurgeSessions(t.Context(), "session"); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		h.lost("purged", purged.ID)

		out := h.messages(consign.Options{Channels: []consign.Channel{busy}})
		later, err := out.EnqueueNow(t.Context(), consign.Message{
			Channel: "relay", Payload: map[string]any{}, NotBefore: time.Now().Add(time.Hour),
		})
		if err != nil {
			t.Fatal(err)
		}
		h.lost("not due", later)
		scheduled, err := out.EnqueueNow(t.Context(), consign.Message{Channel: "busy", Payload: map[string]any{}})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := out.Visit(t.Context(), scheduled); err != nil || r.Status != consign.StatusPending {
			t.Fatal(r, err)
		}
		h.lost("to be tried again by its channel, later", scheduled)
		h.exec("UPDATE {s}delivery SET due_at = due_at - 7200 * {second} WHERE due_at IS NOT NULL")
		if c := h.claim(scheduled); c.Record().Attempts != 1 || c.Attempt().Number != 2 {
			t.Errorf("what a channel gave back is claimed as %+v", c.Record())
		}
	})
}

// A message that a program with a channel holds is not to be had by hand.
func TestClaimOfWhatAChannelHoldsIsLost(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	hold := consign.Channel{Name: "hold", Deliver: func(context.Context, consign.Message, consign.Attempt) error {
		started <- struct{}{}
		<-finish
		return nil
	}}
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		out := h.messages(consign.Options{Channels: []consign.Channel{hold}})
		r := h.create(answer(func(m *reply.Message) { m.Channel = "hold" }))
		var visited sync.WaitGroup
		visited.Go(func() {
			if got, err := out.Visit(t.Context(), r.ID); err != nil || !got.Success() {
				t.Errorf("visit: %+v, %v", got, err)
			}
		})
		<-started
		h.lost("held by its channel", r.ID)
		finish <- struct{}{}
		visited.Wait()

		mine := h.create(answer(func(m *reply.Message) { m.Channel = "hold" }))
		c := h.claim(mine.ID)
		if got, err := out.Visit(t.Context(), mine.ID); err != nil || got.Status != consign.StatusDelivering {
			t.Errorf("a channel visits what is claimed by hand: %+v, %v", got, err)
		}
		if _, err := c.MarkDelivered(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// However many callers meet in the claim of one reply, one of them gets it.
func TestOneOfManyClaimsWins(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		other := h.another(reply.Options{})
		for range 5 {
			id := h.create(answer()).ID
			var won atomic.Int32
			var all sync.WaitGroup
			for i := range 8 {
				claimant := []replies{h, other}[i%2]
				all.Go(func() {
					_, ok, err := claimant.Claim(t.Context(), id)
					if err != nil {
						t.Error(err)
					}
					if ok {
						won.Add(1)
					}
				})
			}
			all.Wait()
			if won.Load() != 1 {
				t.Errorf("%d callers won", won.Load())
			}
		}
	})
}

// What is pending is listed by task and index, those without a task first, and holds
// nothing that was ever started. Claimed in that order, a turn is sent in order.
func TestPendingListsWhatAwaitsItsFirstClaim(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		if len(h.pending()) != 0 {
			t.Error("something is pending in an empty database")
		}
		b1, a2, a10, none, b0 := answer(in("b", 1)), answer(in("a", 2)), answer(in("a", 10)), answer(), answer(in("b", 0))
		lone := answer(in("", 5))
		var ids []consign.Ref
		for _, m := range []reply.Message{b1, a10, a2, lone, none, b0} {
			ids = append(ids, h.create(m).ID)
		}
		want := []consign.Ref{ids[4], ids[3], ids[2], ids[1], ids[5], ids[0]}
		var got []consign.Ref
		for _, r := range h.pending() {
			got = append(got, r.ID)
			if !same(r, h.find(r.ID)) {
				t.Errorf("listed %+v", r)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("pending %v, want %v", got, want)
		}
		for r, err := range h.Pending(t.Context()) { // claims inside the loop, in the order of the list
			if err != nil {
				t.Fatal(err)
			}
			if r.ID == ids[3] || r.ID == ids[1] {
				continue
			}
			c, won, err := h.Claim(t.Context(), r.ID)
			if err != nil || !won {
				t.Fatalf("claim of %s %d: %v, %v", r.Task, r.Index, won, err)
			}
			if _, err := c.MarkDelivered(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		h.claim(ids[3])
		if left := h.pending(); len(left) != 1 || left[0].ID != ids[1] {
			t.Errorf("left %+v", left)
		}
	})
}

// The list is read in pages and goes on over any number of them.
func TestPendingGoesOnOverItsPages(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		ms := make([]reply.Message, 350)
		for i := range ms {
			ms[i] = answer(in("turn", i))
		}
		if _, err := h.CreateAll(t.Context(), ms); err != nil {
			t.Fatal(err)
		}
		for i, r := range h.pending() {
			if r.Index != i {
				t.Fatalf("place %d has index %d", i, r.Index)
			}
		}
		n := 0
		for range h.Pending(t.Context()) {
			if n++; n == 3 {
				break
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for r, err := range h.Pending(ended) {
			if err == nil {
				t.Errorf("after its context: %+v", r)
			}
			n++
		}
		if n != 4 {
			t.Errorf("a list with an ended context yields %d, want its error alone", n-3)
		}
	})
}

// What a channel may have sent already is claimed by hand only where the receiver
// drops a repeated key, and is sent under the same key then. How long a claim holds
// is the channel's lease.
func TestClaimOfWhatMayHaveArrivedNeedsAnIdempotentChannel(t *testing.T) {
	twice := consign.Channel{
		Name: "relay", Retry: consign.OnSchedule, Idempotent: true, Lease: 10 * time.Minute, Waits: []time.Duration{0},
		Deliver: func(context.Context, consign.Message, consign.Attempt) error { return errors.New("reset") },
	}
	onEveryStore(t, reply.Options{Channels: []consign.Channel{twice}}, func(t *testing.T, h *host) {
		r := h.create(answer())
		out := h.messages(consign.Options{Channels: []consign.Channel{twice}})
		if got, err := out.Visit(t.Context(), r.ID); err != nil || got.Status != consign.StatusPending {
			t.Fatal(got, err)
		}
		h.exec("UPDATE {s}delivery SET due_at = created_at")
		if len(h.pending()) != 0 {
			t.Error("what was started is listed as awaiting its first claim")
		}
		if _, won, err := h.another(reply.Options{}).Claim(t.Context(), r.ID); won || err != nil {
			t.Errorf("by a program that does not know the channel: %v, %v", won, err)
		}
		c := h.claim(r.ID)
		if a := c.Attempt(); !c.Record().Uncertain || a.Key != r.ID.String() || a.Number != 2 || a.Generation != 2 {
			t.Errorf("claimed as %+v, %+v", c.Record(), a)
		}
		if left := time.Until(c.Until()); left < 9*time.Minute || left > 10*time.Minute {
			t.Errorf("the lease is over in %s, want 10m", left)
		}
		if got, err := c.MarkDelivered(t.Context()); err != nil || got.Uncertain || got.Attempts != 2 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
