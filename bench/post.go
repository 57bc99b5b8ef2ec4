package bench

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/postgres"
	"github.com/consign-go/consign/webhook"
)

const (
	postSize = 500 // bytes of a body of P13
	senders  = 64  // posts at once; what Consign's workers are by default
)

// postModes are the two ways of P13 to use connections.
var postModes = []struct {
	name  string
	reuse bool
	n     func(Config) int
}{
	{", fresh connections", false, func(c Config) int { return c.Fresh }},
	{", reused connections", true, func(c Config) int { return c.Posts }},
}

// poster posts one body under a key.
type poster func(ctx context.Context, key string, body []byte) error

// barePoster is net/http's transport and a request written out by hand, with no
// policy, no signature and no opinion about the answer.
func (r *receiver) barePoster(reuse bool) (post poster, end func(), err error) {
	trust, err := r.trust()
	transport := &http.Transport{
		DisableKeepAlives: !reuse, MaxIdleConnsPerHost: senders, DisableCompression: true, TLSClientConfig: trust,
	}
	url := r.url()
	return func(ctx context.Context, key string, body []byte) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.GetBody = nil // nothing is sent twice
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Webhook-Id", key)
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return errors.Join(err, resp.Body.Close())
	}, transport.CloseIdleConnections, err
}

func (r *receiver) url() string { return "https://" + r.Address.String() + "/hook" }

// endpoint is the receiver as package webhook sees it. Each post is signed.
func (r *receiver) endpoint(reuse bool) (*webhook.Endpoint, error) {
	trust, err := r.trust()
	if err != nil {
		return nil, err
	}
	key, err := webhook.ParseKey("whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32)))
	if err != nil {
		return nil, err
	}
	o := webhook.Options{
		URL: r.url(), TLS: trust, Ports: []uint16{r.Address.Port()}, Credentials: webhook.Credentials{Keys: []webhook.Key{key}},
		Allow: []netip.Prefix{netip.PrefixFrom(r.Address.Addr(), 32)},
	}
	if reuse {
		o.ReuseIdle = 5 * time.Second
	}
	return webhook.New(o)
}

// posted has so many senders post n bodies.
func posted(ctx context.Context, name string, n int, post poster) (Sample, error) {
	out := Sample{Subject: name, N: n}
	body, err := json.Marshal(newInput(0, postSize))
	if err != nil {
		return out, err
	}
	out.Drain, err = spentHere(func() error {
		return inParts(ctx, n, senders, 1, func(ctx context.Context, i, _ int) error {
			return post(ctx, "bench-"+strconv.Itoa(i), body)
		})
	})
	out.PerSec = float64(n) / out.Drain.Seconds
	return out, err
}

// hooks is the subject of P13: messages on a channel that posts, through the public
// API and with its defaults.
type hooks struct {
	messages
	endpoint *webhook.Endpoint
}

func (h hooks) outbox(pool *pgxpool.Pool, settled func()) (*consign.Outbox[pgx.Tx], error) {
	store, err := postgres.New(pool, nil)
	if err != nil {
		return nil, err
	}
	o := &consign.Options{Program: "bench", Workers: senders, Channels: []consign.Channel{h.endpoint.Channel(channelName)}}
	o.Observe = func(o consign.Observation) {
		if o.Event == "settle" && o.Status == consign.StatusDelivered {
			settled()
		}
	}
	return consign.New(store, o)
}

func (h hooks) enqueue(ctx context.Context, pool *pgxpool.Pool, first, n int) error {
	outbox, err := h.outbox(pool, nil)
	if err != nil {
		return err
	}
	batch := make([]consign.Message, n)
	for i := range batch {
		batch[i] = consign.Message{Channel: channelName, Payload: newInput(first+i, postSize)}
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := outbox.EnqueueAll(ctx, tx, batch)
		return err
	})
}

func (h hooks) drain(ctx context.Context, pool *pgxpool.Pool, n int) (took, stopping time.Duration, err error) {
	count := newCountdown(n)
	outbox, err := h.outbox(pool, func() { count.add(1) })
	if err != nil {
		return 0, 0, err
	}
	return serve(ctx, outbox.Serve, count)
}

// posts runs P13 once: fresh connections and reused ones, the bare loop, the
// endpoint alone, and messages drained through it.
func (s *Suite) posts(ctx context.Context, add func(Sample)) (err error) {
	p, err := s.start(ctx, task{Role: "receive"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	var r receiver
	if err := p.hear(&r); err != nil {
		return err
	}
	total := 0
	for _, mode := range postModes {
		n := mode.n(s.Config)
		bare, end, err := r.barePoster(mode.reuse)
		if err != nil {
			return err
		}
		sample, err := posted(ctx, BarePost+mode.name, n, bare)
		if end(); err != nil {
			return fmt.Errorf("%s: %w", sample.Subject, err)
		}
		add(sample)
		endpoint, err := r.endpoint(mode.reuse)
		if err != nil {
			return err
		}
		deliver := endpoint.Channel(channelName).Deliver
		sample, err = posted(ctx, Post+mode.name, n, func(ctx context.Context, key string, body []byte) error {
			ctx, cancel := context.WithTimeout(ctx, 30*time.Second) // of the channel's contract
			defer cancel()
			return deliver(ctx, consign.Message{}, consign.Attempt{Key: key, Request: body})
		})
		if err == nil {
			add(sample)
			sample, err = s.run(ctx, Hooks+mode.name, hooks{messages{config: s.Config}, endpoint}, n)
		}
		if endpoint.Close(); err != nil {
			return fmt.Errorf("%s: %w", sample.Subject, err)
		}
		add(sample)
		total += 3 * n
	}
	return received(p, total)
}
