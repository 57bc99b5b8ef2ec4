package webhook

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// onBothTransports runs a test in clear and over TLS.
func onBothTransports(t *testing.T, test func(t *testing.T, conf *tls.Config)) {
	t.Run("plain", func(t *testing.T) { test(t, nil) })
	t.Run("tls", func(t *testing.T) { test(t, serverTLS()) })
}

// once checks that one attempt put at most one request on the wire, on one
// connection.
func once(t *testing.T, what string, p *peer, conns, complete int64) {
	t.Helper()
	for end := time.Now().Add(patience); p.conns.Load() < conns || p.complete.Load() < complete; time.Sleep(time.Millisecond) {
		if time.Now().After(end) { // whoever gave up waiting may have done so before the peer had read it
			break
		}
	}
	if p.conns.Load() != conns || p.complete.Load() != complete {
		t.Errorf("%s: %d connections and %d complete requests, want %d and %d", what, p.conns.Load(), p.complete.Load(), conns, complete)
	}
}

const okay = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Said: x-said\r\n\r\nhello"

func TestAnswerCutAtEachByte(t *testing.T) {
	onBothTransports(t, func(t *testing.T, conf *tls.Config) {
		var cut atomic.Int64
		p := listen(t, conf, func(v *visit) {
			if v.request() {
				v.say(okay[:cut.Load()])
				if cut.Load()%2 == 0 {
					v.reset()
				}
			}
		})
		s := endpoint(t, local(p))
		header := int64(strings.Index(okay, "\r\n\r\n") + 4)
		for i := range int64(len(okay) + 1) {
			cut.Store(i)
			what := fmt.Sprintf("cut at %d", i)
			err := s.post(t.Context(), "")
			switch v, _ := verdict(err); {
			case i < header:
				want(t, what, err, Unknown)
			case i%2 == 0 && v == Unknown: // the RST may overtake what was said
			default:
				want(t, what, err, Accepted)
				if got := s.observed().Note; (got == NoteBody) != (i < int64(len(okay))) && i%2 == 1 {
					t.Errorf("%s: note %q", what, got)
				}
			}
			once(t, what, p, i+1, i+1)
		}
	})
}

func TestResetAtEachByteOfTheRequest(t *testing.T) {
	onBothTransports(t, func(t *testing.T, conf *tls.Config) {
		var stop atomic.Int64
		p := listen(t, conf, func(v *visit) {
			io.CopyN(io.Discard, v.r, stop.Load())
			v.reset()
		})
		s := endpoint(t, local(p))
		whole := endpoint(t, local(listen(t, conf, answers(okay))))
		want(t, "whole", whole.post(t.Context(), ""), Accepted)
		size := int64(whole.observed().Sent)
		for i := range size {
			stop.Store(i)
			err := s.post(t.Context(), "")
			// Whether the connection took something before the reset came is for the
			// count to say; the verdict has to agree with it.
			v := Unknown
			if s.observed().Sent == 0 {
				v = NotSent
			}
			want(t, fmt.Sprintf("reset after %d bytes, %d taken", i, s.observed().Sent), err, v)
		}
		once(t, "resets", p, size, 0)
	})
}

func TestHostileReceivers(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	z.Write(make([]byte, 10<<20))
	z.Close()
	forever := func(v *visit, first, more string) {
		if !v.request() {
			return
		}
		v.say(first)
		for {
			if _, err := io.WriteString(v, more); err != nil {
				return
			}
		}
	}
	drip := func(v *visit, first, more string) {
		if !v.request() {
			return
		}
		v.say(first)
		for i := 0; ; i++ {
			if _, err := io.WriteString(v, more[i%len(more):i%len(more)+1]); err != nil {
				return
			}
			time.Sleep(5 * time.Millisecond) // what makes a drip
		}
	}
	for name, c := range map[string]struct {
		serve    func(v *visit)
		verdict  Verdict
		complete int64
		note     string
		cause    error
	}{
		"hangs up after the request":  {func(v *visit) { v.request() }, Unknown, 1, "", errCut},
		"resets after the request":    {func(v *visit) { v.request(); v.reset() }, Unknown, 1, "", nil},
		"says nothing":                {func(v *visit) { v.request(); v.gone() }, Unknown, 1, "", errTimeout},
		"reads nothing, says nothing": {func(v *visit) { v.gone() }, Unknown, 0, "", errTimeout},
		"headers in drips":            {func(v *visit) { drip(v, "HTTP/1.1 200 OK\r\nX-Drip: ", "x") }, Unknown, 1, "", errTimeout},
		"status line in drips":        {func(v *visit) { drip(v, "", "HTTP/1.1 200 OKAY") }, Unknown, 1, "", errTimeout},
		"endless headers":             {func(v *visit) { forever(v, "HTTP/1.1 200 OK\r\n", "X-More: "+strings.Repeat("x", 999)+"\r\n") }, Unknown, 1, "", errHeaderLimit},
		"one endless header":          {func(v *visit) { forever(v, "HTTP/1.1 200 OK\r\nX-Endless: ", strings.Repeat("x", 999)) }, Unknown, 1, "", errHeaderLimit},
		"an endless status line":      {func(v *visit) { forever(v, "HTTP/1.1 200 ", strings.Repeat("x", 999)) }, Unknown, 1, "", errHeaderLimit},
		"1xx for ever":                {func(v *visit) { forever(v, "", "HTTP/1.1 102 Processing\r\n\r\n") }, Unknown, 1, "", errHeaderLimit},
		"1xx in drips":                {func(v *visit) { drip(v, "", "HTTP/1.1 103 Early\r\n\r\n") }, Unknown, 1, "", errTimeout},
		"1xx, then an answer":         {answers("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: </x>\r\n\r\n" + okay), Accepted, 1, "", nil},
		"switches protocols":          {answers("HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), Unknown, 1, "", nil},
		"an endless body":             {func(v *visit) { forever(v, "HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 4096)) }, Accepted, 1, NoteBody, nil},
		"an endless chunked body":     {func(v *visit) { forever(v, "HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n") }, Unknown, 1, NoteBody, nil},
		"an endless chunk extension": {func(v *visit) {
			forever(v, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", strings.Repeat("x", 999))
		}, Accepted, 1, NoteBody, nil},
		"endless trailers":        {func(v *visit) { forever(v, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "X: y\r\n") }, Accepted, 1, NoteBody, nil},
		"a body in drips":         {func(v *visit) { drip(v, "HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", "x") }, Accepted, 1, NoteBody, nil},
		"a gzip bomb":             {answers("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: " + fmt.Sprint(bomb.Len()) + "\r\n\r\n" + bomb.String()), Accepted, 1, "", nil},
		"garbage":                 {answers("x-said s3cr3t garbage\r\n\r\n"), Unknown, 1, "", errNotHTTP},
		"a broken header":         {answers("HTTP/1.1 200 OK\r\nx-said s3cr3t\r\n\r\n"), Unknown, 1, "", errNotHTTP},
		"two lengths":             {answers("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), Unknown, 1, "", errNotHTTP},
		"HTTP/2 frames":           {answers("\x00\x00\x00\x04\x00\x00\x00\x00\x00" + strings.Repeat("\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", 50)), Unknown, 1, "", errCut},
		"RST_STREAM frames":       {answers(strings.Repeat("\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x07", 500)), Unknown, 1, "", errCut},
		"a status line of HTTP/2": {answers("HTTP/2.0 200 OK\r\n\r\n"), Unknown, 1, "", errNotHTTP},
		"HTTP/1.0":                {answers("HTTP/1.0 200 OK\r\n\r\nhello"), Accepted, 1, "", nil},
		"a redirect to itself":    {answers("HTTP/1.1 307 X\r\nLocation: /hook\r\nContent-Length: 0\r\n\r\n"), Rejected, 1, "", nil},
		"a redirect to a GET":     {answers("HTTP/1.1 303 X\r\nLocation: /hook\r\nContent-Length: 0\r\n\r\n"), Unknown, 1, "", nil},
		"two answers":             {answers(okay + "HTTP/1.1 500 X\r\n\r\n"), Accepted, 1, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothTransports(t, func(t *testing.T, conf *tls.Config) {
				p := listen(t, conf, c.serve)
				o := local(p)
				if c.cause == errTimeout {
					o.HeaderTimeout = 300 * time.Millisecond
				}
				if c.note == NoteBody {
					o.BodyTimeout = 300 * time.Millisecond
				}
				s := endpoint(t, o)
				out := want(t, name, s.post(t.Context(), ""), c.verdict)
				once(t, name, p, 1, c.complete)
				if got := s.observed().Note; got != c.note {
					t.Errorf("note %q, want %q", got, c.note)
				}
				if c.cause != nil && out.Cause != c.cause {
					t.Errorf("cause %v, want %v", out.Cause, c.cause)
				}
			})
		})
	}
}

func TestCancellationDuringTheAnswerIsUnknown(t *testing.T) {
	onBothTransports(t, func(t *testing.T, conf *tls.Config) {
		ctx, cancel := context.WithCancel(t.Context())
		p := listen(t, conf, func(v *visit) { v.request(); cancel(); v.gone() })
		out := want(t, "cancelled", endpoint(t, local(p)).post(ctx, ""), Unknown)
		if out.Cause != context.Canceled {
			t.Errorf("cause %v", out.Cause)
		}
		once(t, "cancelled", p, 1, 1)
	})
	late := &lateContext{t.Context(), make(chan struct{})}
	p := listen(t, nil, func(v *visit) { v.request(); close(late.over); v.gone() })
	if out := want(t, "too late", endpoint(t, local(p)).post(late, ""), Unknown); out.Cause != context.DeadlineExceeded {
		t.Errorf("cause %v", out.Cause)
	}
}

// lateContext is a context whose deadline passes when the test says so.
type lateContext struct {
	context.Context
	over chan struct{}
}

func (c *lateContext) Done() <-chan struct{} { return c.over }

func (c *lateContext) Err() error {
	select {
	case <-c.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestPeersOfTLS(t *testing.T) {
	okayPeer := answers(okay)
	other := serverTLS()
	other.Certificates = []tls.Certificate{httptestCertificate(t)}
	h2 := serverTLS()
	h2.NextProtos = []string{"h3"} // Go's own server lets HTTP/1.1 in where only h2 is offered
	both := serverTLS()
	both.NextProtos = []string{"h2", "http/1.1"}
	client := serverTLS()
	client.ClientAuth = tls.RequireAnyClientCert
	old := serverTLS()
	old.MaxVersion = tls.VersionTLS11
	old.MinVersion = tls.VersionTLS10
	for name, c := range map[string]struct {
		conf    *tls.Config
		verdict Verdict
		stage   string
		cause   error
	}{
		"trusted":             {serverTLS(), Accepted, "", nil},
		"not trusted":         {other, NotSent, "tls", errTrust},
		"no HTTP/1.1":         {h2, NotSent, "tls", errAlert},
		"HTTP/2 and HTTP/1.1": {both, Accepted, "", nil},
		"an old version only": {old, NotSent, "tls", errAlert},
		"client certificate (after TLS 1.3's handshake)": {client, Unknown, "answer", errAlert},
	} {
		p := listen(t, c.conf, okayPeer)
		s := endpoint(t, local(p))
		out := want(t, name, s.post(t.Context(), ""), c.verdict)
		if out != nil && (out.Stage != c.stage || out.Cause != c.cause) {
			t.Errorf("%s: %v, want %s: %v", name, out, c.stage, c.cause)
		}
		if n := p.complete.Load(); (n == 1) != (c.verdict == Accepted) || n > 1 {
			t.Errorf("%s: %d requests arrived", name, n)
		}
	}
	plain := listen(t, nil, func(v *visit) { io.ReadFull(v.r, make([]byte, 5)); v.say("HTTP/1.1 400 not TLS\r\n\r\n") })
	o := local(plain)
	o.URL = strings.Replace(plain.url, "http:", "https:", 1)
	want(t, "a peer without TLS", endpoint(t, o).post(t.Context(), ""), NotSent)
	silent := listen(t, nil, func(v *visit) { v.gone() })
	o = local(silent)
	o.URL, o.TLSTimeout = strings.Replace(silent.url, "http:", "https:", 1), 50*time.Millisecond
	want(t, "a handshake that never ends", endpoint(t, o).post(t.Context(), ""), NotSent)
}

// Why a certificate was not accepted is told, without what is in it.
func TestCertificatesThatAreNotAccepted(t *testing.T) {
	for name, c := range map[string]struct {
		change func(o *tls.Config)
		cause  error
	}{
		"another name":      {func(o *tls.Config) { o.ServerName = "s3cr3t.test" }, errName},
		"expired":           {func(o *tls.Config) { o.Time = func() time.Time { return time.Now().Add(24 * time.Hour) } }, errExpired},
		"not yet valid":     {func(o *tls.Config) { o.Time = func() time.Time { return time.Now().Add(-24 * time.Hour) } }, errExpired},
		"another authority": {func(o *tls.Config) { o.RootCAs = x509.NewCertPool() }, errTrust},
	} {
		p := listen(t, serverTLS(), answers(okay))
		o := local(p)
		c.change(o.TLS)
		if out := want(t, name, endpoint(t, o).post(t.Context(), ""), NotSent); out.Stage != "tls" || out.Cause != c.cause {
			t.Errorf("%s: %v", name, out)
		}
		once(t, name, p, 1, 0)
	}
}

// A real server that prefers HTTP/2 is spoken to in HTTP/1.1.
func TestServerOfHTTP2GetsOneRequestOfHTTP1(t *testing.T) {
	var requests atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.ProtoMajor != 1 {
			t.Errorf("came as %s", r.Proto)
		}
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	ap := netip.MustParseAddrPort(srv.Listener.Addr().String())
	s := endpoint(t, Options{
		URL: srv.URL, Ports: []uint16{ap.Port()}, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		TLS: &tls.Config{RootCAs: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs},
	})
	want(t, "HTTP/2 server", s.post(t.Context(), ""), Accepted)
	if requests.Load() != 1 {
		t.Errorf("%d requests", requests.Load())
	}
}

func httptestCertificate(t *testing.T) tls.Certificate {
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	return srv.TLS.Certificates[0]
}
