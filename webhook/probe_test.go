package webhook

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"testing"
)

// TestProbeConnectsAndSendsNothing: the receiver sees a connection that ends without
// a byte, an address that nobody listens on is told from one that may not be called.
func TestProbeConnectsAndSendsNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	url := "http://localhost:" + strconv.Itoa(int(port)) + "/hook"
	options := Options{URL: url, Plaintext: true, Ports: []uint16{port}, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}
	got := make(chan int, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			got <- -1
			return
		}
		n, _ := c.Read(make([]byte, 1))
		c.Close()
		got <- n
	}()
	probe := func(o Options) error {
		t.Helper()
		e, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		return e.Probe(t.Context())
	}
	if err := probe(options); err != nil {
		t.Error(err)
	}
	if n := <-got; n != 0 {
		t.Errorf("the receiver read %d bytes", n)
	}
	l.Close()
	stage := func(err error) string {
		var e *Error
		if !errors.As(err, &e) {
			return ""
		}
		return e.Stage
	}
	if err := probe(options); stage(err) != "dial" {
		t.Errorf("nobody listens: %v", err)
	}
	options.Allow = nil
	if err := probe(options); stage(err) != "policy" {
		t.Errorf("a private address: %v", err)
	}
	if err := probe(Options{}); err != nil {
		t.Errorf("no URL: %v", err)
	}
}
