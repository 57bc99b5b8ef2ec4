package webhook

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/dispatch"
)

// patience is more than anything takes that a test does not hold up. It keeps a test
// from hanging for ever.
const patience = 2 * time.Minute

// peer is a receiver on a real socket that does what a test says with each
// connection, and counts what it really got.
type peer struct {
	url      string
	port     uint16
	conns    atomic.Int64 // connections accepted
	complete atomic.Int64 // complete requests that arrived
	mu       sync.Mutex
	last     *http.Request // the newest of them
	body     []byte
	done     sync.WaitGroup
}

// visit is one connection in the hands of a test.
type visit struct {
	net.Conn
	r    *bufio.Reader
	peer *peer
	raw  *net.TCPConn
}

// reset ends the connection with a RST.
func (v *visit) reset() {
	v.raw.SetLinger(0)
	v.raw.Close()
}

// request reads one whole request and counts it.
func (v *visit) request() bool {
	req, err := http.ReadRequest(v.r)
	if err != nil {
		return false
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return false
	}
	v.peer.mu.Lock()
	v.peer.last, v.peer.body = req, body
	v.peer.mu.Unlock()
	v.peer.complete.Add(1)
	return true
}

func (v *visit) say(text string) { io.WriteString(v, text) }

// gone waits until the other end has hung up.
func (v *visit) gone() { io.Copy(io.Discard, v.r) }

func (p *peer) request() (*http.Request, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last, string(p.body)
}

// listen starts a peer. With conf it speaks TLS.
func listen(t testing.TB, conf *tls.Config, serve func(v *visit)) *peer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{port: uint16(l.Addr().(*net.TCPAddr).Port)}
	scheme := "http://127.0.0.1:"
	if conf != nil {
		scheme = "https://127.0.0.1:"
	}
	p.url = scheme + strconv.Itoa(int(p.port)) + "/hook?token=s3cr3t"
	ctx, stop := context.WithCancel(context.Background())
	p.done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.conns.Add(1)
			p.done.Go(func() {
				defer c.Close()
				defer context.AfterFunc(ctx, func() { c.Close() })()
				v := &visit{Conn: c, peer: p, raw: c.(*net.TCPConn)}
				if conf != nil {
					over := tls.Server(c, conf)
					if over.Handshake() != nil {
						return
					}
					v.Conn = over
				}
				v.r = bufio.NewReader(v.Conn)
				serve(v)
			})
		}
	})
	t.Cleanup(func() { stop(); l.Close(); p.done.Wait() })
	return p
}

// answers is a peer's behaviour: each request gets the text, then the connection
// is closed.
func answers(text string) func(*visit) {
	return func(v *visit) {
		if v.request() {
			v.say(text)
		}
	}
}

// local are options under which a test's peer may be called.
func local(p *peer) Options {
	return Options{
		URL: p.url, Plaintext: true, Ports: []uint16{p.port}, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		TLS:         &tls.Config{RootCAs: authority().pool},
		DialTimeout: patience, TLSTimeout: patience, HeaderTimeout: patience, BodyTimeout: patience,
	}
}

// testCA is a certificate for the tests' names, trusted by local.
type testCA struct {
	cert tls.Certificate
	pool *x509.CertPool
}

var authority = sync.OnceValue(func() *testCA {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"receiver.test"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	ca := &testCA{cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool: x509.NewCertPool()}
	ca.pool.AddCert(cert)
	return ca
})

func serverTLS() *tls.Config { return &tls.Config{Certificates: []tls.Certificate{authority().cert}} }

// sent is an endpoint whose observations are kept.
type sent struct {
	*Endpoint
	mu   sync.Mutex
	seen []Observation
}

func endpoint(t testing.TB, o Options) *sent {
	t.Helper()
	s := &sent{}
	o.Observe = func(ob Observation) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen = append(s.seen, ob)
	}
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	s.Endpoint = e
	return s
}

func (s *sent) observed() Observation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[len(s.seen)-1]
}

const (
	testKey  = "0198f000-0000-7000-8000-000000000001"
	testBody = `{"event":"ticket.triaged","secret":"s3cr3t"}`
)

// post sends one message through the endpoint's channel.
func (s *sent) post(ctx context.Context, to string) error {
	return s.Channel("crm").Deliver(ctx, consign.Message{To: to}, consign.Attempt{Key: testKey, Request: []byte(testBody), Number: 1})
}

// verdict is what the engine would understand of an error.
func verdict(err error) (Verdict, *Error) {
	var out *Error
	errors.As(err, &out)
	if err == nil {
		return Accepted, nil
	}
	d, ok := err.(*dispatch.Definite)
	if !ok {
		return Unknown, out
	}
	return map[string]Verdict{"not_sent": NotSent, "refused": Refused, "rejected": Rejected}[d.Event.String()], out
}

// want fails the test unless the error has the verdict.
func want(t *testing.T, what string, err error, v Verdict) *Error {
	t.Helper()
	got, out := verdict(err)
	if err != nil {
		for _, text := range []string{"s3cr3t", "token", "127.0.0.1", "hook", "triaged", "x-said"} {
			if contains(err.Error(), text) || contains(fmt.Sprintf("%+v", err), text) || contains(fmt.Sprint(out.Cause), text) {
				t.Errorf("%s: the error tells %q: %v", what, text, err)
			}
		}
	}
	if got != v {
		t.Errorf("%s: %s (%v), want %s", what, got, err, v)
	}
	if out != nil && out.Verdict != got {
		t.Errorf("%s: the error says %s, the engine understands %s", what, out.Verdict, got)
	}
	return out
}

func contains(s, part string) bool { return strings.Contains(s, part) }
