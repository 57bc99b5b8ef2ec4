package webhook

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/webhook/internal/signature"
)

func secretKey(t testing.TB, fill string) Key {
	t.Helper()
	k, err := ParseKey("whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(fill, 32))))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestRequestOnTheWire(t *testing.T) {
	onBothTransports(t, func(t *testing.T, conf *tls.Config) {
		p := listen(t, conf, answers(okay))
		older, newer := secretKey(t, "o"), secretKey(t, "n")
		o := local(p)
		now := time.Unix(1_800_000_000, 0)
		o.Now = func() time.Time { return now }
		o.Credentials = Credentials{Keys: []Key{newer, older}, Bearer: "b34r3r"}
		o.IdempotencyKey, o.UserAgent = true, "desk/1"
		o.Header = http.Header{"x-team": {"support", "billing"}}
		s := endpoint(t, o)
		o.Header.Set("X-Team", "changed later")
		want(t, "post", s.post(t.Context(), ""), Accepted)
		req, body := p.request()
		if body != testBody || req.Method != "POST" || req.RequestURI != "/hook?token=s3cr3t" || req.Proto != "HTTP/1.1" {
			t.Errorf("%s %s %s: %s", req.Method, req.RequestURI, req.Proto, body)
		}
		if req.Host != "127.0.0.1:"+strconv.Itoa(int(p.port)) || req.ContentLength != int64(len(testBody)) {
			t.Errorf("host %s, length %d", req.Host, req.ContentLength)
		}
		for name, value := range map[string]string{
			"Webhook-Id": testKey, "Webhook-Timestamp": "1800000000", "Idempotency-Key": `"` + testKey + `"`,
			"Authorization": "Bearer b34r3r", "User-Agent": "desk/1", "Content-Type": "application/json", "Accept-Encoding": "", "Expect": "",
		} {
			if got := req.Header.Get(name); got != value {
				t.Errorf("%s: %q, want %q", name, got, value)
			}
		}
		if got := req.Header["X-Team"]; len(got) != 2 || got[0] != "support" {
			t.Errorf("X-Team: %q", got)
		}
		header := req.Header.Get("Webhook-Signature")
		for _, k := range []Key{older, newer} {
			if !signature.CheckRequest([]Key{k}, header, testKey, now.Unix(), []byte(body)) {
				t.Error("a receiver with one of the two secrets cannot check it")
			}
		}
		now = now.Add(time.Hour) // the next attempt: same key, its own timestamp
		want(t, "again", s.post(t.Context(), ""), Accepted)
		req, _ = p.request()
		if req.Header.Get("Webhook-Id") != testKey || req.Header.Get("Webhook-Timestamp") != "1800003600" {
			t.Errorf("second attempt: %v", req.Header)
		}
	})
}

func TestIdempotencyKeyAndSignatureOnlyWhereAsked(t *testing.T) {
	p := listen(t, nil, answers(okay))
	want(t, "post", endpoint(t, local(p)).post(t.Context(), ""), Accepted)
	req, _ := p.request()
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key", "Webhook-Signature", "Authorization"} {
		if _, there := req.Header[name]; there {
			t.Errorf("%s is sent", name)
		}
	}
	s := endpoint(t, local(p))
	for _, key := range []string{"", "a.b", "a b", "a\r\nX: y", `a"b`, strings.Repeat("k", 129), "ä"} {
		err := s.Channel("crm").Deliver(t.Context(), consign.Message{}, consign.Attempt{Key: key, Request: []byte("{}")})
		want(t, "key "+key, err, NotSent)
	}
	once(t, "unsound keys", p, 1, 1)
}

// The receiver is asked before a large body is sent.
func TestLargeBodyAsksFirst(t *testing.T) {
	for name, c := range map[string]struct {
		serve   func(v *visit)
		verdict Verdict
		bodies  int64
		note    string
	}{
		"continue": {func(v *visit) { head(v); v.say("HTTP/1.1 100 Continue\r\n\r\n"); drain(v); v.say(okay) }, Accepted, 1, ""},
		"another interim first": {func(v *visit) {
			head(v)
			v.say("HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
			drain(v)
			v.say(okay)
		}, Accepted, 1, ""},
		"never answered": {func(v *visit) { head(v); drain(v); v.say(okay) }, Accepted, 1, ""},
		"too large":      {func(v *visit) { head(v); v.say("HTTP/1.1 413 X\r\nContent-Length: 0\r\n\r\n"); v.gone() }, Rejected, 0, ""},
		"later": {func(v *visit) {
			head(v)
			v.say("HTTP/1.1 429 X\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n")
			v.gone()
		}, Refused, 0, ""},
		"fails it":       {func(v *visit) { head(v); v.say("HTTP/1.1 417 X\r\nContent-Length: 0\r\n\r\n"); v.gone() }, Rejected, 0, ""},
		"success unseen": {func(v *visit) { head(v); v.say(okay); v.gone() }, Unknown, 0, NoteEarly},
		"hangs up":       {func(v *visit) { head(v) }, Unknown, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothTransports(t, func(t *testing.T, conf *tls.Config) {
				p := listen(t, conf, c.serve)
				o := local(p)
				o.ContinueAbove, o.ContinueTimeout = len(testBody), patience
				if name == "never answered" {
					o.ContinueTimeout = 20 * time.Millisecond
				}
				s := endpoint(t, o)
				want(t, name, s.post(t.Context(), ""), c.verdict)
				if p.complete.Load() != c.bodies || p.conns.Load() != 1 || s.observed().Note != c.note {
					t.Errorf("%d bodies on %d connections, note %q", p.complete.Load(), p.conns.Load(), s.observed().Note)
				}
			})
		})
	}
}

// Interim answers do not buy a receiver time: neither for the leave to send the body
// nor for the answer.
func TestInterimAnswersDoNotLengthenTheTimeouts(t *testing.T) {
	onBothTransports(t, func(t *testing.T, conf *tls.Config) {
		for name, o := range map[string]Options{
			"leave":  {ContinueTimeout: 100 * time.Millisecond, HeaderTimeout: time.Hour},
			"answer": {ContinueTimeout: time.Hour, HeaderTimeout: 100 * time.Millisecond},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			p := listen(t, conf, func(v *visit) {
				head(v)
				body := make(chan bool)
				v.peer.done.Go(func() { drain(v); close(body) })
				for tick := time.NewTicker(5 * time.Millisecond); ; { // what makes a drip
					select {
					case <-body:
						v.say(okay)
						return
					case <-tick.C:
						if _, err := io.WriteString(v, "HTTP/1.1 103 Early\r\n\r\n"); err != nil {
							return
						}
					}
				}
			})
			own := local(p)
			own.ContinueAbove, own.ContinueTimeout, own.HeaderTimeout, own.MaxHeader = 1, o.ContinueTimeout, o.HeaderTimeout, 1<<20
			s := endpoint(t, own)
			switch err := s.post(ctx, ""); name {
			case "leave":
				want(t, name, err, Accepted)
			case "answer":
				if out := want(t, name, err, Unknown); out.Cause != errTimeout {
					t.Errorf("cause %v", out.Cause)
				}
			}
		}
	})
}

// head reads a header section that asks to go on.
func head(v *visit) {
	for {
		line, err := v.r.ReadString('\n')
		if err != nil || line == "\r\n" {
			return
		}
	}
}

// drain reads the body of the tests and counts it.
func drain(v *visit) {
	if _, err := io.ReadFull(v.r, make([]byte, len(testBody))); err == nil {
		v.peer.complete.Add(1)
	}
}

// A receiver that answers and hangs up while the body is still on its way is
// heard, where its answer can be.
func TestAnswerBeforeTheBodyWasTaken(t *testing.T) {
	p := listen(t, nil, func(v *visit) {
		head(v)
		v.say("HTTP/1.1 413 X\r\nContent-Length: 0\r\n\r\n")
		v.raw.CloseWrite()
		v.gone()
	})
	o := local(p)
	o.ContinueAbove = -1
	s := endpoint(t, o)
	big := make([]byte, 1<<20)
	for i := range big {
		big[i] = 'x'
	}
	err := s.Channel("crm").Deliver(t.Context(), consign.Message{}, consign.Attempt{Key: testKey, Request: big})
	want(t, "413", err, Rejected)
}

func TestProofOfTheReceiverSettlesWhatIsUnknown(t *testing.T) {
	proofs, stranger := secretKey(t, "p"), secretKey(t, "s")
	digest := sha256.Sum256([]byte(testBody))
	valid := signature.Proof([]Key{proofs}, testKey, digest)
	for name, c := range map[string]struct {
		status int
		proof  string
		want   Verdict
	}{
		"500 with it":          {500, valid, Accepted},
		"502 with it":          {502, valid, Accepted},
		"409 with it":          {409, valid, Accepted},
		"303 with it":          {303, valid, Accepted},
		"429 with it":          {429, valid, Accepted},
		"200 with it":          {200, valid, Accepted},
		"400 with it":          {400, valid, Rejected}, // says two things; the final no is looked into
		"500 without":          {500, "", Unknown},
		"of another key":       {500, signature.Proof([]Key{proofs}, "0198f000-0000-7000-8000-000000000002", digest), Unknown},
		"of another body":      {500, signature.Proof([]Key{proofs}, testKey, sha256.Sum256(nil)), Unknown},
		"by a stranger":        {500, signature.Proof([]Key{stranger}, testKey, digest), Unknown},
		"our own signature":    {500, signature.Request([]Key{proofs}, testKey, 1, []byte(testBody)), Unknown},
		"200 without, as ever": {200, "", Accepted},
	} {
		p := listen(t, nil, answers("HTTP/1.1 "+strconv.Itoa(c.status)+" X\r\nConsign-Proof: "+c.proof+"\r\nContent-Length: 0\r\n\r\n"))
		o := local(p)
		o.Credentials = Credentials{Proofs: []Key{secretKey(t, "x"), proofs}}
		s := endpoint(t, o)
		want(t, name, s.post(t.Context(), ""), c.want)
		if s.observed().Proof != (c.proof == valid) {
			t.Errorf("%s: observed %t", name, s.observed().Proof)
		}
	}
}

func TestCredentialsAreLookedUpForEachAttempt(t *testing.T) {
	p := listen(t, nil, answers(okay))
	o := local(p)
	o.URL = ""
	var found Credentials
	var fails error
	var asked []string
	o.Lookup = func(_ context.Context, url string) (Credentials, error) {
		asked = append(asked, url)
		if fails != nil && fails.Error() == "panic" {
			panic("s3cr3t")
		}
		return found, fails
	}
	s := endpoint(t, o)
	for _, bearer := range []string{"one", "two"} {
		found.Bearer = bearer
		want(t, bearer, s.post(t.Context(), p.url), Accepted)
		if req, _ := p.request(); req.Header.Get("Authorization") != "Bearer "+bearer {
			t.Errorf("sent %q", req.Header.Get("Authorization"))
		}
	}
	for _, fails = range []error{errors.New("s3cr3t vault"), errors.New("panic")} {
		if out := want(t, "look-up", s.post(t.Context(), p.url), NotSent); out.Stage != "credentials" {
			t.Errorf("stage %s", out.Stage)
		}
	}
	fails, found.Bearer = nil, "two words s3cr3t"
	want(t, "bad credentials", s.post(t.Context(), p.url), NotSent)
	once(t, "look-ups", p, 2, 2)
	if len(asked) != 5 || asked[0] != p.url {
		t.Errorf("asked for %q", asked)
	}
}

// handler stands for the delivery of a work handler: it canonicalises nothing, and
// hands the request over as JSON.
type handler struct {
	request []byte
	calls   int
}

func (h *handler) Effect(ctx context.Context, request any, send func(context.Context, consign.Attempt) error) error {
	h.calls++
	h.request, _ = json.Marshal(request)
	return send(ctx, consign.Attempt{Key: testKey, Request: h.request, Number: 2})
}

func TestPostIsTheEffectOfAHandler(t *testing.T) {
	p := listen(t, nil, answers(okay))
	o := local(p)
	o.Header = http.Header{"X-Team": {"support"}}
	s := endpoint(t, o)
	h := &handler{}
	want(t, "post", s.Post(t.Context(), h, json.RawMessage(testBody)), Accepted)
	if _, body := p.request(); body != testBody || h.calls != 1 {
		t.Errorf("%d calls, body %s", h.calls, body)
	}
	var bound struct {
		Method, URL string
		Header      map[string][]string
		Body        json.RawMessage
	}
	if err := json.Unmarshal(h.request, &bound); err != nil || bound.Method != "POST" || bound.URL != p.url ||
		bound.Header["X-Team"][0] != "support" || string(bound.Body) != testBody {
		t.Errorf("bound %s", h.request)
	}
	o.URL = ""
	want(t, "post to", endpoint(t, o).PostTo(t.Context(), &handler{}, p.url, map[string]int{"n": 1}), Accepted)
	if _, body := p.request(); body != `{"n":1}` {
		t.Errorf("body %s", body)
	}
	want(t, "nowhere", endpoint(t, o).Post(t.Context(), &handler{}, map[string]int{"n": 1}), NotSent)
	if s.observed().Attempt != 2 {
		t.Errorf("attempt %d", s.observed().Attempt)
	}
}

func TestMessageGoesToTheURLItNames(t *testing.T) {
	a, b := listen(t, nil, answers(okay)), listen(t, nil, answers(okay))
	o := local(a)
	o.URL, o.Ports = "", []uint16{a.port, b.port}
	s := endpoint(t, o)
	want(t, "to a", s.post(t.Context(), a.url), Accepted)
	want(t, "to b", s.post(t.Context(), b.url), Accepted)
	want(t, "to nowhere", s.post(t.Context(), ""), NotSent)
	once(t, "a", a, 1, 1)
	once(t, "b", b, 1, 1)
}
