package webhook

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

func TestGuardBlocksWhatIsNotPublic(t *testing.T) {
	g := &guard{}
	for _, s := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254",
		"169.254.0.1", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.170", "192.0.2.1", "192.88.99.1",
		"192.168.0.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1",
		"255.255.255.255", "168.63.129.16", "100.100.100.200",
		"::", "::1", "::1%lo", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::7f00:1",
		"::ffff:0:127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b:1::1", "100::1", "2001::1", "2001:0:1::1", "2001:2::1", "2001:10::1", "2001:20::1",
		"2001:db8::1", "2002:7f00:1::1", "3fff::1", "4000::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fd20:ce::254", "fe80::1", "fe80::1%eth0",
		"fec0::1", "ff02::1",
	} {
		if g.permits(netip.MustParseAddr(s)) {
			t.Errorf("%s is permitted", s)
		}
	}
	for _, s := range []string{
		"1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0",
		"172.15.255.255", "172.32.0.0", "192.0.1.0", "192.0.3.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0",
		"223.255.255.255", "::ffff:1.1.1.1", "2000::1", "2001:200::1", "2606:4700::1111", "2a00:1450::1", "3ffe::1",
	} {
		if !g.permits(netip.MustParseAddr(s)) {
			t.Errorf("%s is blocked", s)
		}
	}
	if g.permits(netip.Addr{}) {
		t.Error("no address is permitted")
	}
}

func TestAllowedNetworksDoNotAllowMetadata(t *testing.T) {
	g := &guard{allow: prefixes("169.254.0.0/16", "10.1.0.0/16", "fd00::/8", "0.0.0.0/0")}
	for s, want := range map[string]bool{
		"10.1.2.3": true, "127.0.0.1": true, "::ffff:10.1.2.3": true, "169.254.1.1": true, "fd00::1": true,
		"169.254.169.254": false, "::ffff:169.254.169.254": false, "168.63.129.16": false, "fd00:ec2::254": false, "fe80::1": false,
	} {
		if got := g.permits(netip.MustParseAddr(s)); got != want {
			t.Errorf("%s: %t", s, got)
		}
	}
	for _, a := range metadata {
		g := &guard{allow: prefixes("0.0.0.0/0", "::/0")}
		if g.permits(a) {
			t.Errorf("%s is allowed by everything", a)
		}
	}
	g.allow = append(g.allow, netip.MustParsePrefix("169.254.169.254/32"))
	if !g.permits(netip.MustParseAddr("169.254.169.254")) {
		t.Error("by itself it must be allowed")
	}
}

// A network of translated addresses does not open what is private behind it.
func TestAllowedTranslationDoesNotAllowWhatItLeadsTo(t *testing.T) {
	for _, allow := range []string{"64:ff9b::/96", "2002::/16", "::/0"} {
		g := &guard{allow: prefixes(allow, "10.1.0.0/16")}
		for inner, want := range map[string]bool{
			"1.1.1.1": true, "10.1.2.3": true, "10.2.2.3": false, "127.0.0.1": false, "169.254.169.254": false, "168.63.129.16": false,
		} {
			a4 := netip.MustParseAddr(inner).As4()
			for _, in := range []string{fmt.Sprintf("64:ff9b::%x%02x:%x%02x", a4[0], a4[1], a4[2], a4[3]), fmt.Sprintf("2002:%x%02x:%x%02x::1", a4[0], a4[1], a4[2], a4[3])} {
				a := netip.MustParseAddr(in)
				if got, want := g.permits(a), want && netip.MustParsePrefix(allow).Contains(a); got != want {
					t.Errorf("%s leads to %s, %s allowed: %t", in, inner, allow, got)
				}
			}
		}
	}
}

// names is a name server whose answers a test gives one after another.
type names struct {
	mu      sync.Mutex
	answers []string // the last one repeats; "" means that there is no such name
	asked   int
}

func (n *names) next() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.answers[min(n.asked, len(n.answers)-1)]
	n.asked++
	return a
}

func (n *names) set(answers ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answers, n.asked = answers, 0
}

// resolver starts the name server and returns a resolver that asks it.
func (n *names) resolver(t *testing.T) *net.Resolver {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			size, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			c.WriteTo(n.reply(buf[:size]), from)
		}
	}()
	t.Cleanup(func() { c.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", c.LocalAddr().String())
	}}
}

// reply answers a query for an IPv4 address; there is none of IPv6.
func (n *names) reply(q []byte) []byte {
	end := 12
	for q[end] != 0 {
		end += int(q[end]) + 1
	}
	end += 5
	out := append([]byte{}, q[:2]...)
	out = append(out, 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0)
	out = append(out, q[12:end]...)
	if binary.BigEndian.Uint16(q[end-4:]) != 1 {
		return out
	}
	text := n.next()
	if text == "" {
		out[3] |= 3
		return out
	}
	ip := netip.MustParseAddr(text).As4()
	out[7] = 1
	out = append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
	return append(out, ip[:]...)
}

func TestRebindingDoesNotPassTheGuard(t *testing.T) {
	p := listen(t, nil, answers(okay))
	n := &names{answers: []string{"127.0.0.1"}}
	o := local(p)
	o.URL, o.Resolver = fmt.Sprintf("http://receiver.test:%d/", p.port), n.resolver(t)
	s := endpoint(t, o)
	want(t, "allowed", s.post(t.Context(), ""), Accepted)

	o.Allow = nil
	for _, addr := range []string{"127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0"} {
		// The first look-up gives a public address: a check made before the dial
		// would be content. What is dialled is what the look-up gives then.
		n.set("93.184.216.34", addr)
		n.next()
		s = endpoint(t, o)
		out := want(t, addr, s.post(t.Context(), ""), NotSent)
		if out.Stage != "policy" || out.Cause != errBlocked {
			t.Errorf("%s: %v", addr, out)
		}
	}
	if p.conns.Load() != 1 {
		t.Errorf("%d connections", p.conns.Load())
	}
	n.set("")
	if out := want(t, "no such name", s.post(t.Context(), ""), NotSent); out.Stage != "resolve" || out.Cause != errNoHost {
		t.Errorf("no such name: %v", out)
	}
	if !strings.Contains(s.observed().Cause.Error(), "resolve") {
		t.Errorf("observed %+v", s.observed())
	}
}

func TestURLsAreCheckedBeforeTheDial(t *testing.T) {
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &sent{Endpoint: e}
	for url, cause := range map[string]error{
		"": errURLLong,
		"https://example.org/" + strings.Repeat("x", 2048): errURLLong,
		"/path":                            errURLScheme,
		"https:opaque":                     errURLSyntax,
		"https://exa mple.org/":            errURLSyntax,
		"https://example.org/\r\nX: y":     errURLSyntax,
		"https://exämple.org/":             errURLSyntax,
		"https://example.org/%zz":          errURLSyntax,
		"http://example.org/":              errURLScheme,
		"ftp://example.org/":               errURLScheme,
		"https://user:s3cr3t@example.org/": errURLUser,
		"https://s3cr3t@example.org/":      errURLUser,
		"https://example.org/#token":       errURLFragment,
		"https://example.org/#":            errURLFragment,
		"https:///path":                    errURLHost,
		"https://example..org/":            errURLHost,
		"https://127.1/":                   errURLHost,
		"https://2130706433/":              errURLHost,
		"https://0x7f.0.0.1/":              errURLHost,
		"https://0x7f000001/":              errURLHost,
		"https://example.org:8443/":        errURLPort,
		"https://example.org:22/":          errURLPort,
		"https://example.org:65999/":       errURLPort,
		"https://127.0.0.1/":               errURLAddress,
		"https://169.254.169.254/latest":   errURLAddress,
		"https://[::1]/":                   errURLAddress,
		"https://[::ffff:127.0.0.1]/":      errURLAddress,
		"https://[fe80::1%25eth0]/":        errURLAddress,
		"https://[fd00:ec2::254]/":         errURLAddress,
		"https://127.0.0.1./":              errURLAddress,
	} {
		if out := want(t, url, s.post(t.Context(), url), NotSent); out.Stage != "policy" || out.Cause != cause {
			t.Errorf("%q: %v, want %v", url, out, cause)
		}
	}
	for _, url := range []string{"https://example.org", "https://example.org:443/", "https://EXAMPLE.org./a?b=c", "https://a-b_c.example/", "https://[2606:4700::1111]/"} {
		if _, err := e.parseURL(url); err != nil {
			t.Errorf("%q: %v", url, err)
		}
	}
	link, err := New(Options{URL: "https://[fe80::1%25eth0]:8443/", Allow: prefixes("fe80::/10"), Ports: []uint16{8443}})
	if err != nil || link.fixed.addr != "[fe80::1%eth0]:8443" || link.fixed.host != "[fe80::1]:8443" {
		t.Errorf("a zone leaves this machine: %+v, %v", link.fixed, err)
	}
	fixed := endpoint(t, Options{URL: "https://example.org/hook"})
	if out := want(t, "another URL", fixed.post(t.Context(), "https://example.org/other"), NotSent); out.Cause != errOtherURL {
		t.Errorf("another URL: %v", out)
	}
}
