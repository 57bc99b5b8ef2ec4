package webhook_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/consigntest"
	"github.com/consign-go/consign/webhook"
)

var _ webhook.Effector = (*consign.Delivery)(nil)

type closed struct {
	Ticket string `json:"ticket" consign:"required"`
}

// A handler of work posts as its effect, and what the POST has proven decides about
// the work.
func TestPostAsTheEffectOfAHandler(t *testing.T) {
	for name, c := range map[string]struct {
		answer     http.HandlerFunc
		idempotent bool
		status     consign.Status
		code       consign.Code
		uncertain  bool
		posts      int64
	}{
		"accepted":               {answer: answers(204), status: consign.StatusSucceeded, posts: 1},
		"rejected":               {answer: answers(403), status: consign.StatusReconciliationRequired, code: consign.CodeRejected, posts: 1},
		"refused, then accepted": {answer: answers(429, 200), status: consign.StatusSucceeded, posts: 2},
		"unknown": {
			answer: answers(500), status: consign.StatusReconciliationRequired, code: consign.CodeOutcomeUnknown, uncertain: true, posts: 1,
		},
		"unknown, then accepted": {answer: answers(500, 200), idempotent: true, status: consign.StatusSucceeded, posts: 2},
	} {
		t.Run(name, func(t *testing.T) {
			var posts atomic.Int64
			keys := map[string]bool{}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				posts.Add(1)
				keys[r.Header.Get("Webhook-Id")] = true
				if body, err := io.ReadAll(r.Body); err != nil || string(body) != `{"ticket":"7"}` {
					t.Errorf("%q, %v", body, err)
				}
				c.answer(w, r)
			}))
			defer server.Close()
			at, err := url.Parse(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			port, err := strconv.ParseUint(at.Port(), 10, 16)
			if err != nil {
				t.Fatal(err)
			}
			endpoint, err := webhook.New(webhook.Options{
				URL: server.URL, Plaintext: true, Ports: []uint16{uint16(port)}, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			})
			if err != nil {
				t.Fatal(err)
			}
			w := consign.Work[closed]{Kind: "tickets.closed", Idempotent: c.idempotent}
			got := consigntest.Deliver(t, w, func(ctx context.Context, d *consign.Delivery, in closed) error {
				return endpoint.Post(ctx, d, in)
			}, closed{"7"}, nil)
			if got.Status != c.status || got.Code != c.code || got.Uncertain != c.uncertain || posts.Load() != c.posts || len(keys) != 1 {
				t.Errorf("%s %s, uncertain %v, after %d posts with %d keys", got.Status, got.Code, got.Uncertain, posts.Load(), len(keys))
			}
		})
	}
}

// answers gives one status after another; the last one repeats.
func answers(status ...int) http.HandlerFunc {
	n := 0
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status[min(n, len(status)-1)])
		n++
	}
}
