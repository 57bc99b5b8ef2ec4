package receive_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/pgtest"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/postgres"
	"github.com/consign-go/consign/sqlite"
	"github.com/consign-go/consign/webhook"
	"github.com/consign-go/consign/webhook/receive"
)

// outbox is the sending end, whatever its database.
type outbox interface {
	EnqueueNow(ctx context.Context, m consign.Message) (consign.Ref, error)
	Find(ctx context.Context, ref consign.Ref) (consign.Intent, error)
	Serve(ctx context.Context) error
}

func open[TX any, S interface {
	consign.Store[TX]
	migrate.Store
}](t *testing.T, store S, c consign.Channel) outbox {
	t.Helper()
	if _, err := migrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	ob, err := consign.New(store, &consign.Options{Channels: []consign.Channel{c}, AutoDispatch: true})
	if err != nil {
		t.Fatal(err)
	}
	return ob
}

func sender(t *testing.T, kind string, c consign.Channel) outbox {
	t.Helper()
	if kind == "sqlite" {
		store, err := sqlite.New(openSQLite(t, "sender.db"), nil)
		if err != nil {
			t.Fatal(err)
		}
		return open(t, store, c)
	}
	store, err := postgres.New(pgtest.Pool(t), &postgres.Options{Schema: pgtest.Schema(t)})
	if err != nil {
		t.Fatal(err)
	}
	return open(t, store, c)
}

// spoiler handles a request in the place of the receiver.
type spoiler func(w http.ResponseWriter, r *http.Request, to http.Handler)

// trouble is what stands between the two ends.
type trouble struct {
	to    http.Handler
	spoil atomic.Value // spoiler
	seen  atomic.Int64
}

func (x *trouble) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x.seen.Add(1)
	if spoil, _ := x.spoil.Load().(spoiler); spoil != nil {
		spoil(w, r, x.to)
		return
	}
	x.to.ServeHTTP(w, r)
}

// lost lets the receiver work and hangs up in place of its answer.
func lost(w http.ResponseWriter, r *http.Request, to http.Handler) {
	to.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// gateway lets the receiver work and answers 502 in its place, with the header of
// its proof or without.
func gateway(proof bool) spoiler {
	return func(w http.ResponseWriter, r *http.Request, to http.Handler) {
		inner := httptest.NewRecorder()
		to.ServeHTTP(inner, r)
		if proof {
			w.Header().Set("Consign-Proof", inner.Header().Get("Consign-Proof"))
		}
		w.WriteHeader(http.StatusBadGateway)
	}
}

// lostThenProven loses the first answer and lets the second be a bare proof.
func lostThenProven() spoiler {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request, to http.Handler) {
		if n.Add(1) == 1 {
			lost(w, r, to)
		}
		gateway(true)(w, r, to)
	}
}

// ends are a sender and a receiver over TLS.
type ends struct {
	outbox outbox
	desk   *desk
	way    *trouble
}

func connect(t *testing.T, from string, d *desk, idempotent bool) *ends {
	t.Helper()
	e := &ends{desk: d, way: &trouble{}}
	e.way.to = d.handler(receive.Options{Keys: []receive.Key{key("k")}, Proofs: []receive.Key{key("p")}},
		func(receive.Delivery) (receive.Response, error) { return receive.Response{Status: 204}, nil })
	srv := httptest.NewTLSServer(e.way)
	t.Cleanup(srv.Close)
	port := netip.MustParseAddrPort(srv.Listener.Addr().String()).Port()
	end, err := webhook.New(webhook.Options{
		URL: srv.URL + "/hook", Ports: []uint16{port}, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		TLS: &tls.Config{RootCAs: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}, Idempotent: idempotent,
		Credentials: webhook.Credentials{Keys: []webhook.Key{key("k")}, Proofs: []webhook.Key{key("p")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := end.Channel("crm")
	c.Waits, c.MaxAttempts = []time.Duration{time.Millisecond}, 5
	e.outbox = sender(t, from, c)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- e.outbox.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return e
}

// deliver enqueues one message and waits for its end.
func (e *ends) deliver(t *testing.T, n int) consign.Intent {
	t.Helper()
	ref, err := e.outbox.EnqueueNow(t.Context(), consign.Message{Channel: "crm", Payload: map[string]any{"event": "ticket.triaged", "ticket": n}})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(2 * time.Millisecond) {
		i, err := e.outbox.Find(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if i.Status == consign.StatusDelivered || i.Status == consign.StatusFailed {
			return i
		}
		if time.Now().After(deadline) {
			t.Fatalf("still %s after %d attempts: %s", i.Status, i.Attempts, i.LastError)
		}
	}
}

// Both ends together: whatever happens to answers on the way, an idempotent channel
// delivers in the end, and each message is executed once.
func TestBothEndsExecuteOnceWhateverHappensToAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		from string
		to   func(t *testing.T) *desk
	}{
		"postgres to pgx": {"postgres", onPgx}, "postgres to sqlite": {"postgres", onSQLite},
		"sqlite to postgres": {"sqlite", onPostgresSQL}, "sqlite to sqlite": {"sqlite", onSQLite},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := c.to(t)
			e := connect(t, c.from, d, true)
			executed := 0
			for name, c := range map[string]struct {
				spoil    spoiler
				times    int64 // how often it happens
				attempts int
			}{
				"nothing happens":     {nil, 0, 1},
				"answers are lost":    {lost, 2, 3},
				"a gateway says 502":  {gateway(false), 2, 3},
				"502, with the proof": {gateway(true), 5, 1},
				"lost, then proven":   {lostThenProven(), 2, 2},
				"refused before":      {func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(429) }, 2, 3},
				"502 before":          {func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(502) }, 2, 3},
			} {
				left := &atomic.Int64{}
				left.Store(c.times)
				e.way.spoil.Store(spoiler(func(w http.ResponseWriter, r *http.Request, to http.Handler) {
					if c.spoil != nil && left.Add(-1) >= 0 {
						c.spoil(w, r, to)
						return
					}
					to.ServeHTTP(w, r)
				}))
				i := e.deliver(t, executed)
				executed++
				if i.Status != consign.StatusDelivered || i.Uncertain || i.Attempts != c.attempts {
					t.Errorf("%s: %s, uncertain %t, %d attempts: %s", name, i.Status, i.Uncertain, i.Attempts, i.LastError)
				}
				if d.executed() != executed || d.keys() != executed {
					t.Errorf("%s: %d executed and %d keys for %d messages", name, d.executed(), d.keys(), executed)
				}
			}
		})
	}
}

// A channel that does not call itself idempotent stops at the first lost answer.
func TestLostAnswerOfAChannelThatIsNotIdempotentIsKeptForAPerson(t *testing.T) {
	d := onSQLite(t)
	e := connect(t, "sqlite", d, false)
	e.way.spoil.Store(spoiler(lost))
	i := e.deliver(t, 1)
	if i.Status != consign.StatusFailed || i.Code != consign.CodeOutcomeUnknown || !i.Uncertain || i.Attempts != 1 || e.way.seen.Load() != 1 {
		t.Errorf("%s %s, uncertain %t, %d attempts, %d requests", i.Status, i.Code, i.Uncertain, i.Attempts, e.way.seen.Load())
	}
	e.way.spoil.Store(spoiler(gateway(true))) // a proof is a known success whoever retries
	if i := e.deliver(t, 2); i.Status != consign.StatusDelivered || i.Attempts != 1 {
		t.Errorf("with a proof: %s", i.Status)
	}
	e.way.spoil.Store(spoiler(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(410) }))
	i = e.deliver(t, 3)
	if i.Status != consign.StatusFailed || i.Code != consign.CodeRejected || i.Uncertain || i.LastError != fmt.Sprintf("rejected: answer 410: %s", webhook.NoteGone) {
		t.Errorf("gone: %s %s, uncertain %t: %s", i.Status, i.Code, i.Uncertain, i.LastError)
	}
}
