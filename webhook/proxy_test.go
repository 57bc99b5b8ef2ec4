package webhook

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// forward is a proxy's behaviour: it opens the tunnel to the named peer.
func forward(to *peer, seen *http.Request) func(*visit) {
	return func(v *visit) {
		req, err := http.ReadRequest(v.r)
		if err != nil {
			return
		}
		*seen = *req
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", to.port))
		if err != nil {
			return
		}
		v.say("HTTP/1.1 200 Connection established\r\n\r\n")
		v.peer.done.Go(func() { io.Copy(c, v.r); c.Close() })
		io.Copy(v, c)
	}
}

func TestProxyTunnelsEveryConnection(t *testing.T) {
	for _, proxyTLS := range []*tls.Config{nil, serverTLS()} {
		onBothTransports(t, func(t *testing.T, conf *tls.Config) {
			p := listen(t, conf, answers(okay))
			var seen http.Request
			proxy := listen(t, proxyTLS, forward(p, &seen))
			o := local(p)
			scheme := "http"
			if proxyTLS != nil {
				scheme = "https"
			}
			o.Proxy = fmt.Sprintf("%s://me:s3cr3t@127.0.0.1:%d", scheme, proxy.port)
			s := endpoint(t, o)
			want(t, "tunnelled", s.post(t.Context(), ""), Accepted)
			once(t, "tunnelled", p, 1, 1)
			user, password, _ := (&http.Request{Header: http.Header{"Authorization": seen.Header["Proxy-Authorization"]}}).BasicAuth()
			if seen.Method != "CONNECT" || seen.Host != fmt.Sprintf("127.0.0.1:%d", p.port) || user != "me" || password != "s3cr3t" {
				t.Errorf("the proxy was asked %s %s", seen.Method, seen.Host)
			}
			if req, _ := p.request(); req.Header.Get("Proxy-Authorization") != "" {
				t.Error("the receiver got the proxy's credentials")
			}
		})
	}
}

func TestProxyThatDoesNotTunnelIsNotSent(t *testing.T) {
	p := listen(t, nil, answers(okay))
	for name, text := range map[string]string{
		"wants a password": "HTTP/1.1 407 X\r\n\r\n", "cannot reach it": "HTTP/1.1 502 X\r\n\r\n", "redirects": "HTTP/1.1 302 X\r\nLocation: /\r\n\r\n",
		"talks on": "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "garbage": "x-said garbage\r\n\r\n", "nothing": "",
		"endless": "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20),
	} {
		proxy := listen(t, nil, func(v *visit) {
			if _, err := http.ReadRequest(v.r); err == nil {
				v.say(text)
			}
		})
		o := local(p)
		o.Proxy = fmt.Sprintf("http://127.0.0.1:%d", proxy.port)
		if out := want(t, name, endpoint(t, o).post(t.Context(), ""), NotSent); out.Stage != "proxy" {
			t.Errorf("%s: %v", name, out)
		}
	}
	once(t, "never reached", p, 0, 0)
	o := local(p)
	o.Proxy, o.Allow = "http://127.0.0.1:1", nil
	if _, err := New(o); err == nil {
		t.Error("a blocked address is hidden behind a proxy")
	}
}

// The environment's proxy is not asked.
func TestProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	proxy := listen(t, nil, func(v *visit) { v.gone() })
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, fmt.Sprintf("http://127.0.0.1:%d", proxy.port))
	}
	p := listen(t, nil, answers(okay))
	want(t, "direct", endpoint(t, local(p)).post(t.Context(), ""), Accepted)
	once(t, "the proxy", proxy, 0, 0)
}
