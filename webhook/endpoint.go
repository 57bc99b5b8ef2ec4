package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/webhook/internal/signature"
)

// Endpoint sends to receivers under one policy. It is safe for concurrent use.
type Endpoint struct {
	opt    Options
	guard  guard
	dialer *dialer
	pool   *pool   // nil: a fresh connection for each request
	fixed  *target // Options.URL
	lines  string
	rules  []Rule
}

// New checks the options, without IO. The error is a *consign.Error with every
// fault, and wraps consign.ErrInvalid.
func New(o Options) (*Endpoint, error) {
	e := &Endpoint{opt: o.filled()}
	fs := e.opt.check()
	e.guard.allow = e.opt.Allow
	e.rules = withOverrides(e.opt.Overrides)
	e.lines = headerLines(&e.opt)
	if o.URL != "" {
		t, err := e.parseURL(o.URL)
		if err != nil {
			fs = append(fs, consign.Fault{Field: "url", Rule: err.Error()})
		}
		e.fixed = t
	}
	if len(fs) > 0 {
		return nil, invalid(fs)
	}
	e.dialer = newDialer(&e.opt, &e.guard)
	if e.opt.ReuseIdle > 0 {
		e.pool = &pool{max: e.opt.MaxIdle}
	}
	return e, nil
}

// String names the kind of thing, and shows none of its options: they hold secrets.
func (e *Endpoint) String() string { return "webhook endpoint" }

// GoString is String: %#v shows no secret either.
func (e *Endpoint) GoString() string { return e.String() }

// Close closes idle connections. What is on its way is not disturbed, and the
// endpoint works on without keeping connections.
func (e *Endpoint) Close() {
	if e.pool != nil {
		e.pool.close()
	}
}

// Channel returns a channel that posts its messages' payloads: on the schedule,
// since receivers are down for hours at times, and idempotent where
// [Options.Idempotent] says so. It checks proofs that are handed in by the credentials of
// that moment. Change what else the contract needs before it goes
// into consign.Options.
func (e *Endpoint) Channel(name string) consign.Channel {
	return consign.Channel{
		Name: name, Retry: consign.OnSchedule, Idempotent: e.opt.Idempotent,
		Deliver: func(ctx context.Context, m consign.Message, a consign.Attempt) error {
			return e.deliver(ctx, m.To, a, a.Request)
		},
		CheckProof: e.checkProof,
	}
}

// Effector is the part of a work handler's delivery that a post needs;
// *consign.Delivery is one.
type Effector interface {
	Effect(ctx context.Context, request any, send func(ctx context.Context, a consign.Attempt) error) error
}

// Post is the effect of a work handler: it binds method, URL, the endpoint's own
// headers and body as the request of d, posts the body to [Options.URL], and returns
// what the effect returned: nil only for a known success. body is a struct, a map
// with string keys or a json.RawMessage; with its surroundings it has at most 16 KiB
// and 7 levels in canonical form, and those bytes are what is sent.
func (e *Endpoint) Post(ctx context.Context, d Effector, body any) error {
	return e.PostTo(ctx, d, e.opt.URL, body)
}

// PostTo is [Endpoint.Post] to a URL of the handler's choice, where the endpoint has
// none of its own.
func (e *Endpoint) PostTo(ctx context.Context, d Effector, url string, body any) error {
	request := map[string]any{"method": http.MethodPost, "url": url, "body": body}
	if len(e.opt.Header) > 0 {
		request["header"] = map[string][]string(e.opt.Header)
	}
	return d.Effect(ctx, request, func(ctx context.Context, a consign.Attempt) error {
		var bound struct {
			Body json.RawMessage `json:"body"` // as it was digested, byte for byte
		}
		if err := json.Unmarshal(a.Request, &bound); err != nil || len(bound.Body) == 0 {
			return (&Error{Verdict: NotSent, Stage: "policy", Cause: errNoBody}).outcome(0)
		}
		return e.deliver(ctx, url, a, bound.Body)
	})
}

// Causes of our own policy.
var (
	errNoBody     = errors.New("the bound request has no body")
	errOtherURL   = errors.New("the message names another URL than the endpoint's")
	errKey        = errors.New("the delivery key is not 1 to 128 bytes of printable ASCII without dots and quotes")
	errLookup     = errors.New("the credentials could not be looked up")
	errCredential = errors.New("the credentials are not valid")
)

// Observation is what became of one request: identifiers, numbers and durations,
// never content, address or recipient.
type Observation struct {
	Ref      consign.Ref
	Attempt  int // from 1
	Verdict  Verdict
	Status   int    // of the answer; 0: none
	Stage    string // where it ended, as in Error
	Note     string // one of the notes, or ""
	Override bool   // Options.Overrides decided
	Reused   bool   // the connection had been used before
	Proof    bool   // the receiver's proof was there and valid
	Sent     int    // bytes of the request that the connection took
	Wait     time.Duration
	Dial     time.Duration // with the name's resolution and the proxy
	TLS      time.Duration
	Total    time.Duration
	Cause    error // of a failure without an answer; its text is fixed words
}

// deliver posts the body once and returns what that has proven.
func (e *Endpoint) deliver(ctx context.Context, url string, a consign.Attempt, body []byte) error {
	began := time.Now()
	ob := Observation{Ref: a.Ref, Attempt: a.Number}
	out := e.attempt(ctx, url, a, body, &ob)
	if e.opt.Observe != nil {
		ob.Verdict, ob.Status, ob.Stage, ob.Note, ob.Override, ob.Cause = out.Verdict, out.Status, out.Stage, out.Note, out.Override, out.Cause
		ob.Total = time.Since(began)
		e.observe(ob)
	}
	return out.outcome(ob.Wait)
}

// observe contains a panic: what it watches has happened already, and must be
// written down as it was.
func (e *Endpoint) observe(ob Observation) {
	defer func() { _ = recover() }()
	e.opt.Observe(ob)
}

func (e *Endpoint) attempt(ctx context.Context, url string, a consign.Attempt, body []byte, ob *Observation) *Error {
	refuse := func(stage string, err error) *Error { return &Error{Verdict: NotSent, Stage: stage, Cause: err} }
	if !sound(a.Key) {
		return refuse("policy", errKey)
	}
	t, err := e.resolve(url)
	if err != nil {
		return refuse("policy", err)
	}
	creds, err := e.credentials(ctx, url)
	if err != nil {
		return refuse("credentials", err)
	}
	if err := ctx.Err(); err != nil {
		return refuse("dial", err)
	}
	w, failed := e.connection(ctx, t, ob)
	if failed != nil {
		return failed
	}
	r := &request{target: t, key: a.Key, body: body, creds: creds, keep: a.KeepProof}
	r.ask = e.opt.ContinueAbove >= 0 && len(body) >= e.opt.ContinueAbove
	x := &exchange{endpoint: e, wire: w}
	resp, err := x.run(ctx, r)
	ob.Sent, ob.Reused = x.taken, w.reused
	e.putBack(x)
	if err != nil {
		return x.failed(ctx, err)
	}
	return e.judge(x, r, resp, ob)
}

// resolve returns where the request goes.
func (e *Endpoint) resolve(url string) (*target, error) {
	if e.fixed == nil {
		return e.parseURL(url)
	}
	if url != "" && url != e.opt.URL {
		return nil, errOtherURL
	}
	return e.fixed, nil
}

// credentials are looked up anew for each attempt, so that a rotation reaches what
// is already enqueued. A panic of the look-up is a failed one: nothing was sent.
func (e *Endpoint) credentials(ctx context.Context, url string) (c *Credentials, err error) {
	if e.opt.Lookup == nil {
		return &e.opt.Credentials, nil
	}
	defer func() {
		if recover() != nil {
			c, err = nil, errLookup
		}
	}()
	if e.fixed != nil {
		url = e.opt.URL
	}
	found, err := e.opt.Lookup(ctx, url)
	switch {
	case err != nil:
		return nil, errLookup
	case len(found.check()) > 0:
		return nil, errCredential
	}
	return &found, nil
}

// connection returns an idle connection or a new one.
func (e *Endpoint) connection(ctx context.Context, t *target, ob *Observation) (*wire, *Error) {
	home := t.addr
	if t.tls {
		home = "tls " + home
	}
	if e.pool != nil {
		if w := e.pool.take(home); w != nil {
			return w, nil
		}
	}
	w, took, err := e.dialer.open(ctx, t)
	ob.Dial, ob.TLS = took.dial, took.tls
	if err != nil {
		return nil, err
	}
	w.home = home
	return w, nil
}

// putBack keeps a connection that is as it was before the exchange, or closes it.
func (e *Endpoint) putBack(x *exchange) {
	if e.pool == nil || !x.whole {
		x.wire.close()
		return
	}
	e.pool.put(x.wire, e.opt.ReuseIdle)
}

// failed is the verdict without an answer.
func (x *exchange) failed(ctx context.Context, err error) *Error {
	out := &Error{Verdict: Unknown, Stage: "answer", Cause: plain(err)}
	if x.untouched() {
		out.Verdict, out.Stage = NotSent, "write"
	}
	if ctx.Err() != nil {
		out.Cause = ctx.Err()
	}
	return out
}

// judge is the verdict of an answer.
func (e *Endpoint) judge(x *exchange, r *request, resp *http.Response, ob *Observation) *Error {
	rule := find(e.rules, resp.StatusCode)
	wait, asked := retryAfter(resp.Header, e.opt.Now(), e.opt.MaxRetryAfter)
	out := &Error{Verdict: rule.verdict(asked), Stage: "answer", Status: resp.StatusCode, Note: rule.Note, Override: rule.Override}
	if out.Note == "" {
		out.Note = x.note
	}
	if out.Verdict == Accepted && x.early {
		out.Verdict, out.Note = Unknown, NoteEarly // it cannot have had the body
	}
	ob.Wait = wait
	if len(r.creds.Proofs) > 0 && !x.early {
		proof := signature.FindProof(r.creds.Proofs, resp.Header.Get(signature.HeaderProof), r.key, sha256.Sum256(r.body))
		if ob.Proof = proof != ""; ob.Proof {
			r.keep(proof)
		}
		if ob.Proof && (out.Verdict == Unknown || out.Verdict == Refused) {
			out.Verdict, out.Note = Accepted, NoteProof
		}
	}
	return out
}

// sound reports whether a key can stand in a header and in what is signed: without
// a dot, which separates the parts of that.
func sound(key string) bool {
	for i := range len(key) {
		if c := key[i]; c <= ' ' || c > '~' || c == '.' || c == '"' || c == '\\' {
			return false
		}
	}
	return key != "" && len(key) <= 128
}
