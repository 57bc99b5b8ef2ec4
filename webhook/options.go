package webhook

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/webhook/internal/signature"
)

// Key is a key that signs or checks; see [ParseKey]. Its text never shows it.
type Key = signature.Key

// ParseKey reads a key as Standard Webhooks writes it: "whsec_" and 24 to 64 bytes
// in base64, a secret that both ends share (HMAC-SHA256, v1); "whsk_" and the
// 32-byte seed or 64-byte private key (Ed25519, v1a), to sign; or "whpk_" and the
// 32-byte public key, to check. The error never quotes the text.
func ParseKey(text string) (Key, error) {
	k, err := signature.Parse(text)
	if err != nil {
		return Key{}, invalid([]consign.Fault{{Field: "key", Rule: err.Error()}})
	}
	return k, nil
}

// Credentials are what an endpoint identifies itself with, and knows the receiver
// by. They come from the program's configuration, never from a payload.
type Credentials struct {
	// Keys sign each request, with one signature per key: while a secret is being
	// rotated give the new and the old one. At most 4. Default: not signed.
	Keys []Key

	// Bearer is sent as "Authorization: Bearer …": up to 4,096 bytes of printable
	// ASCII without spaces. Default: none.
	Bearer string

	// Proofs are the keys by which the receiver signs proofs: the shared secret, or
	// its own public key. At most 4. Default: no answer counts as a proof.
	Proofs []Key
}

// String says how many credentials there are, and shows none.
func (c Credentials) String() string {
	s := strconv.Itoa(len(c.Keys)) + " keys, " + strconv.Itoa(len(c.Proofs)) + " for proofs"
	if c.Bearer != "" {
		s += ", a bearer token"
	}
	return s
}

// GoString is String: %#v shows no secret either.
func (c Credentials) GoString() string { return c.String() }

// Options describe an endpoint. The zero value sends each message over https to
// the URL in its To, unsigned, on a fresh connection.
type Options struct {
	// URL is where every request goes; a message must name no other then. It has no
	// user information and no fragment, and at most 2,048 bytes. Default: each
	// message's To.
	URL string

	// Credentials are used for every request. Default: none.
	Credentials Credentials

	// Lookup gives the credentials for a URL, once in each attempt, in the place of
	// Credentials. Its error means not sent, and its text is not kept. Default: none.
	Lookup func(ctx context.Context, url string) (Credentials, error)

	// Header is sent with every request. Names that this package sets itself
	// (Content-Length, Webhook-…, Idempotency-Key, …) are refused. At most 32, of up
	// to 4,096 bytes. They are part of the request that [Endpoint.Post] binds: work
	// that was started with other ones stops with REQUEST_CHANGED. Default: none.
	Header http.Header

	// IdempotencyKey also sends the delivery key as Idempotency-Key, a quoted string,
	// for receivers that ask for it. Default: off.
	IdempotencyKey bool

	// Idempotent declares that the receiver drops a repeated delivery key. It is
	// what [Endpoint.Channel] puts into its channel. Default: false.
	Idempotent bool

	// Overrides change what answers with a status (200 to 599) mean to Refused,
	// Rejected, Unknown or Accepted: a receiver known to be transactional may call its
	// 500 a refusal. They are part of the contract, are returned by [Endpoint.Rules],
	// and mark the errors that they decided. Default: none.
	Overrides map[int]Verdict

	// MaxRetryAfter caps what a receiver may ask to be left alone for, 1 s to 24 h.
	// Default: 24 h.
	MaxRetryAfter time.Duration

	// Plaintext allows http URLs. Default: https only.
	Plaintext bool

	// Ports are those that URLs may name. Default: 443, and 80 with Plaintext.
	Ports []uint16

	// Allow lists networks that may be called although they are private, loopback or
	// otherwise not public. A cloud's metadata address is allowed only by itself
	// (/32, /128), and one that carries an IPv4 address (NAT64, 6to4) only where that
	// may be called too. Default: none.
	Allow []netip.Prefix

	// Proxy is the URL of a proxy (http or https, with user information if need be)
	// through which every connection is tunnelled by CONNECT. The proxy's own address
	// is not guarded, and it, not this program, resolves the receivers' names, so
	// guarding those is the proxy's duty. The environment is never asked. Default: none.
	Proxy string

	// Resolver looks names up. Default: net.DefaultResolver.
	Resolver *net.Resolver

	// TLS is cloned and limited to HTTP/1.1: roots, client certificates. Skipping
	// verification is refused. Without a session cache it gets one of 256 receivers,
	// so that fresh connections need no full handshake; early data is never sent.
	// Default: TLS 1.2 or newer and the system's roots.
	TLS *tls.Config

	// DialTimeout is for resolving and connecting. Default: 5 s.
	DialTimeout time.Duration
	// TLSTimeout is for the handshake. Default: 5 s.
	TLSTimeout time.Duration
	// HeaderTimeout is from the first byte of the request to the end of the answer's
	// header section. Default: 20 s.
	HeaderTimeout time.Duration
	// BodyTimeout is for reading the answer's body. Default: 5 s.
	BodyTimeout time.Duration

	// MaxHeader caps the answer's header section, interim answers included, in
	// bytes, 256 to 1 MiB. Default: 16 KiB.
	MaxHeader int

	// MaxBody caps what is read of an answer's body, in bytes, up to 1 MiB. It is
	// not kept. Default: 64 KiB.
	MaxBody int

	// ContinueAbove is the size of body, in bytes, from which on the receiver is asked
	// first (Expect: 100-continue), so that the answer to a body that it does not
	// want is not lost. Negative: never. Default: 64 KiB.
	ContinueAbove int

	// ContinueTimeout is how long its answer is waited for before the body is sent
	// all the same. Default: 1 s.
	ContinueTimeout time.Duration

	// ReuseIdle keeps connections for so long after a request to use them again, at
	// most 30 s. Its proof is weaker: a receiver that closes an idle connection just
	// then leaves the outcome unknown, where a fresh connection would have shown that
	// nothing was sent. So it is for trusted, fast receivers. Default: a fresh
	// connection for each request.
	ReuseIdle time.Duration

	// MaxIdle is how many idle connections are kept per receiver, up to 1,000.
	// Default: 64.
	MaxIdle int

	// UserAgent names the program: up to 128 bytes of printable ASCII.
	// Default: "consign-webhook".
	UserAgent string

	// Observe is told what became of each request. It is called before the outcome is
	// written down, so it must be quick. Default: none.
	Observe func(Observation)

	// Now is the clock that stamps signatures. Default: time.Now.
	Now func() time.Time
}

const (
	maxKeys   = 4
	maxBearer = 4096
)

// filled returns the options with their defaults.
func (o Options) filled() Options {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	number := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	set(&o.MaxRetryAfter, 24*time.Hour)
	set(&o.DialTimeout, 5*time.Second)
	set(&o.TLSTimeout, 5*time.Second)
	set(&o.HeaderTimeout, 20*time.Second)
	set(&o.BodyTimeout, 5*time.Second)
	set(&o.ContinueTimeout, time.Second)
	number(&o.MaxHeader, 16<<10)
	number(&o.MaxBody, 64<<10)
	number(&o.ContinueAbove, 64<<10)
	number(&o.MaxIdle, 64)
	if len(o.Ports) == 0 {
		o.Ports = []uint16{443}
		if o.Plaintext {
			o.Ports = []uint16{443, 80}
		}
	}
	if o.UserAgent == "" {
		o.UserAgent = "consign-webhook"
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Header, o.Ports, o.Allow = o.Header.Clone(), slices.Clone(o.Ports), slices.Clone(o.Allow)
	return o
}

// check reports everything that is wrong with filled options.
func (o *Options) check() (fs []consign.Fault) {
	add := func(field, rule string) { fs = append(fs, consign.Fault{Field: field, Rule: rule}) }
	span := func(field string, d, min, max time.Duration) {
		if d < min || d > max {
			add(field, d.String()+", limit "+min.String()+" to "+max.String())
		}
	}
	count := func(field string, n, min, max int) {
		if n < min || n > max {
			add(field, strconv.Itoa(n)+", limit "+strconv.Itoa(min)+" to "+strconv.Itoa(max))
		}
	}
	span("max_retry_after", o.MaxRetryAfter, time.Second, 24*time.Hour)
	for field, d := range map[string]time.Duration{
		"dial_timeout": o.DialTimeout, "tls_timeout": o.TLSTimeout, "header_timeout": o.HeaderTimeout,
		"body_timeout": o.BodyTimeout, "continue_timeout": o.ContinueTimeout,
	} {
		span(field, d, time.Millisecond, time.Hour)
	}
	span("reuse_idle", o.ReuseIdle, 0, 30*time.Second)
	count("max_header", o.MaxHeader, 256, 1<<20)
	count("max_body", o.MaxBody, 1, 1<<20)
	count("max_idle", o.MaxIdle, 1, 1000)
	count("ports", len(o.Ports), 1, 1000)
	if !printable(o.UserAgent, 128) {
		add("user_agent", "is not 1 to 128 bytes of printable ASCII")
	}
	for status, v := range o.Overrides {
		if status < 200 || status > 599 {
			add("overrides", "status "+strconv.Itoa(status)+", limit 200 to 599")
		}
		if v != Refused && v != Rejected && v != Unknown && v != Accepted {
			add("overrides", "of "+strconv.Itoa(status)+" is none of Refused, Rejected, Unknown and Accepted: an answer shows that something was sent")
		}
	}
	for i, p := range o.Allow {
		if !p.IsValid() || p != p.Masked() {
			add("allow["+strconv.Itoa(i)+"]", "is not a network without host bits")
		}
	}
	if o.TLS != nil && o.TLS.InsecureSkipVerify && o.TLS.VerifyConnection == nil {
		add("tls", "skips verification: give it the receiver's roots")
	}
	if o.Lookup != nil && (len(o.Credentials.Keys) > 0 || len(o.Credentials.Proofs) > 0 || o.Credentials.Bearer != "") {
		add("credentials", "are given beside lookup")
	}
	fs = append(fs, o.Credentials.check()...)
	fs = append(fs, checkHeader(o.Header)...)
	return append(fs, checkProxy(o.Proxy)...)
}

// check reports what is wrong with credentials, without showing them.
func (c *Credentials) check() (fs []consign.Fault) {
	add := func(field, rule string) { fs = append(fs, consign.Fault{Field: "credentials." + field, Rule: rule}) }
	if len(c.Keys) > maxKeys || len(c.Proofs) > maxKeys {
		add("keys", "more than "+strconv.Itoa(maxKeys)+" of a kind")
	}
	for i, k := range c.Keys {
		if !k.CanSign() {
			add("keys["+strconv.Itoa(i)+"]", "cannot sign")
		}
	}
	for i, k := range c.Proofs {
		if k.IsZero() {
			add("proofs["+strconv.Itoa(i)+"]", "is no key")
		}
	}
	if c.Bearer != "" && (!printable(c.Bearer, maxBearer) || strings.Contains(c.Bearer, " ")) {
		add("bearer", "is not up to 4096 bytes of printable ASCII without spaces")
	}
	return fs
}

// ours are headers that this package sets or that would change how a request is
// framed.
var ours = []string{
	"Authorization", "Connection", "Content-Length", "Content-Type", "Expect", "Host", "Idempotency-Key", "Keep-Alive",
	"Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent",
	"X-Idempotency-Key", signature.HeaderID, signature.HeaderTimestamp, signature.HeaderSignature, signature.HeaderProof,
}

func checkHeader(h http.Header) (fs []consign.Fault) {
	n := 0
	for name, values := range h {
		n += len(values)
		switch {
		case !token(name):
			fs = append(fs, consign.Fault{Field: "header", Rule: "has a name that is not a token of RFC 9110"})
			continue
		case http.CanonicalHeaderKey(name) == "Authorization":
			fs = append(fs, consign.Fault{Field: "header." + name, Rule: "is set by this package, from credentials.bearer"})
		case slices.Contains(ours, http.CanonicalHeaderKey(name)):
			fs = append(fs, consign.Fault{Field: "header." + name, Rule: "is set by this package"})
		}
		for _, v := range values {
			if v != "" && !printable(v, 4096) || strings.TrimSpace(v) != v {
				fs = append(fs, consign.Fault{Field: "header." + name, Rule: "is not up to 4096 bytes of printable ASCII without outer spaces"})
			}
		}
	}
	if n > 32 {
		fs = append(fs, consign.Fault{Field: "header", Rule: strconv.Itoa(n) + " values, limit 32"})
	}
	return fs
}

func checkProxy(text string) []consign.Fault {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return []consign.Fault{{Field: "proxy", Rule: "is not an http or https URL with a host"}}
	}
	return nil
}

// printable reports whether s has 1 to max bytes, all printable ASCII.
func printable(s string, max int) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) > 0 && len(s) <= max
}

func token(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

func invalid(fs []consign.Fault) error {
	return &consign.Error{Op: "webhook", Faults: fs, Err: consign.ErrInvalid}
}
