package reply_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/reply"
)

// callback is a consumer's own server that a reply is sent to.
type callback struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	got    []string // path, key and body
}

func newCallback(t *testing.T, status int) *callback {
	c := &callback{status: status}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.got = append(c.got, r.URL.Path+" "+r.Header.Get("Idempotency-Key")+" "+string(body))
		w.WriteHeader(c.status)
	}))
	t.Cleanup(c.Close)
	return c
}

// post is a sender as a program would write it.
func post(ctx context.Context, to string, a consign.Attempt) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(a.Request))
	if err != nil {
		return consign.NotSent(err)
	}
	r.Header.Set("Idempotency-Key", a.Key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	answer.Body.Close()
	switch {
	case answer.StatusCode < 300:
		return nil
	case answer.StatusCode < 500:
		return consign.Rejected(fmt.Errorf("status %d", answer.StatusCode))
	}
	return consign.Refused(fmt.Errorf("status %d", answer.StatusCode), 0)
}

// A reply that was committed when its turn ended is sent afterwards, by another
// program on another connection, to the very address that it names: by hand, or by a
// channel of package consign. There is one kind of record, and one claim, for both.
func TestReplyIsSentLaterToTheAddressItNames(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		mine, theirs := newCallback(t, 200), newCallback(t, 204)
		to := func(url string) func(*reply.Message) {
			return func(m *reply.Message) { m.To = url }
		}
		tx := h.begin()
		byHand, err := tx.create(answer(to(mine.URL + "/a")))
		if err != nil {
			t.Fatal(err)
		}
		byChannel, err := tx.create(answer(to(theirs.URL + "/b")))
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}

		sender := h.another(reply.Options{})
		c, won, err := sender.Claim(t.Context(), byHand)
		if err != nil || !won {
			t.Fatal(won, err)
		}
		if err := post(t.Context(), c.Record().To, c.Attempt()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.MarkDelivered(t.Context()); err != nil {
			t.Fatal(err)
		}
		out := h.messages(consign.Options{Channels: []consign.Channel{{
			Name: "relay", Deliver: func(ctx context.Context, m consign.Message, a consign.Attempt) error { return post(ctx, m.To, a) },
		}}})
		if r, err := out.Visit(t.Context(), byChannel); err != nil || !r.Success() {
			t.Errorf("by a channel: %+v, %v", r, err)
		}
		for id, got := range map[consign.Ref][]string{byHand: mine.got, byChannel: theirs.got} {
			r := h.find(id)
			want := map[consign.Ref]string{byHand: "/a", byChannel: "/b"}[id] + " " + id.String() + ` {"text":"hello"}`
			if r.Status != consign.StatusDelivered || r.Attempts != 1 || len(got) != 1 || got[0] != want {
				t.Errorf("shows %+v; its address got %q, want %q", r, got, want)
			}
		}
	})
}

// The loop of the package's documentation: three answers with a failure's status end
// as failed, with what was answered beside the count.
func TestLoopByHandEndsWithWhatTheReceiverAnswered(t *testing.T) {
	onEveryStore(t, reply.Options{}, func(t *testing.T, h *host) {
		far := newCallback(t, 503)
		c := h.claim(h.create(answer(func(m *reply.Message) { m.To = far.URL })).ID)
		for range 3 {
			err := post(t.Context(), c.Record().To, c.Attempt())
			if err == nil {
				t.Fatal("accepted")
			}
			if _, err := c.RecordAttempt(t.Context(), err); err != nil {
				t.Fatal(err)
			}
		}
		r, err := c.MarkFailed(t.Context(), nil)
		h.shows(r, err, consign.StatusFailed, 3, "refused: status 503")
		if r.Code != consign.CodeAttemptsExhausted || r.Uncertain || len(far.got) != 3 {
			t.Errorf("failed as %+v after %d requests", r, len(far.got))
		}
	})
}
