package webhook

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"
)

// dialer opens connections under an endpoint's policy.
type dialer struct {
	opt    *Options
	direct net.Dialer
	proxy  *url.URL
	toward net.Dialer  // the proxy
	tls    *tls.Config // cloned for each handshake
}

func newDialer(o *Options, g *guard) *dialer {
	d := &dialer{opt: o}
	d.direct = net.Dialer{Resolver: o.Resolver, Control: g.control, KeepAlive: -1}
	if o.ReuseIdle > 0 {
		d.direct.KeepAlive = 0 // the default
	}
	d.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	if o.TLS != nil {
		d.tls = o.TLS.Clone()
	}
	d.tls.NextProtos = []string{"http/1.1"} // a peer that speaks none of it refuses the handshake: not sent
	if d.tls.ClientSessionCache == nil {
		d.tls.ClientSessionCache = tls.NewLRUClientSessionCache(256)
	}
	d.toward = d.direct
	d.toward.Control = nil
	if o.Proxy != "" {
		d.proxy, _ = url.Parse(o.Proxy) // checked by New
	}
	return d
}

// spent is how long the parts of a request took.
type spent struct{ dial, tls time.Duration }

// open connects to the target. Whatever goes wrong here, nothing of the request
// has been written: the verdict is NotSent.
func (d *dialer) open(ctx context.Context, t *target) (*wire, spent, *Error) {
	var took spent
	began := time.Now()
	tcp, err := d.connect(ctx, t)
	took.dial = time.Since(began)
	if err != nil {
		return nil, took, err
	}
	w := newWire(tcp.socket, tcp.tunnel)
	w.over(w.counted)
	if t.tls {
		began = time.Now()
		over, err := d.handshake(ctx, w.counted, t.name)
		took.tls = time.Since(began)
		if err != nil {
			tcp.socket.Close()
			return nil, took, notSent("tls", ctx, err)
		}
		w.over(over)
	}
	return w, took, nil
}

// path is a socket and what leads through it to the target: itself, or a tunnel.
type path struct{ socket, tunnel net.Conn }

func (d *dialer) connect(ctx context.Context, t *target) (path, *Error) {
	ctx, cancel := context.WithTimeout(ctx, d.opt.DialTimeout)
	defer cancel()
	if d.proxy == nil {
		c, err := d.direct.DialContext(ctx, "tcp", t.addr)
		if err != nil {
			return path{}, notSent(stageOf(err), ctx, err)
		}
		return path{c, c}, nil
	}
	port := d.proxy.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[d.proxy.Scheme]
	}
	c, err := d.toward.DialContext(ctx, "tcp", net.JoinHostPort(d.proxy.Hostname(), port))
	if err != nil {
		return path{}, notSent("proxy", ctx, err)
	}
	tunnel, status, err := d.tunnel(ctx, c, t)
	if err != nil {
		c.Close()
		e := notSent("proxy", ctx, err)
		e.Status = status
		return path{}, e
	}
	return path{c, tunnel}, nil
}

// errProxy: the proxy did not open the tunnel.
var errProxy = errors.New("the proxy did not open a tunnel")

// tunnel asks the proxy for a way through to the target (RFC 9110 section 9.3.6).
func (d *dialer) tunnel(ctx context.Context, c net.Conn, t *target) (net.Conn, int, error) {
	socket := c
	defer context.AfterFunc(ctx, func() { socket.SetDeadline(longAgo) })()
	if d.proxy.Scheme == "https" {
		over, err := d.handshake(ctx, c, d.proxy.Hostname())
		if err != nil {
			return nil, 0, err
		}
		c = over
	}
	ask := "CONNECT " + t.addr + " HTTP/1.1\r\nHost: " + t.addr + "\r\n"
	if u := d.proxy.User; u != nil {
		password, _ := u.Password()
		ask += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password)) + "\r\n"
	}
	if _, err := c.Write([]byte(ask + "\r\n")); err != nil {
		return nil, 0, err
	}
	r := bufio.NewReader(&limited{Conn: c, left: d.opt.MaxHeader})
	resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	switch {
	case err != nil:
		return nil, 0, err
	case resp.StatusCode < 200 || resp.StatusCode > 299 || r.Buffered() > 0: // no receiver speaks first
		return nil, resp.StatusCode, errProxy
	}
	return c, resp.StatusCode, nil
}

func (d *dialer) handshake(ctx context.Context, c net.Conn, name string) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.opt.TLSTimeout)
	defer cancel()
	conf := d.tls.Clone()
	if conf.ServerName == "" || d.proxy != nil && name == d.proxy.Hostname() {
		conf.ServerName = name
	}
	over := tls.Client(c, conf)
	if err := over.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return over, nil
}

// stageOf tells resolving from connecting, and our own policy from both.
func stageOf(err error) string {
	var dns *net.DNSError
	switch {
	case errors.Is(err, errBlocked):
		return "policy"
	case errors.As(err, &dns):
		return "resolve"
	}
	return "dial"
}

// notSent is the failure of a stage before the request.
func notSent(stage string, ctx context.Context, err error) *Error {
	cause := plain(err)
	if ctx.Err() == context.Canceled {
		cause = context.Canceled
	}
	return &Error{Verdict: NotSent, Stage: stage, Cause: cause}
}
