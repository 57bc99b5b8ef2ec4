package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/webhook"
)

// channel reads one channel and makes its endpoint.
func (l *loader) channel(t *table, name string) Channel {
	before := len(l.faults)
	o, from := l.endpoint(t)
	c := Channel{Signed: len(o.Credentials.Keys) > 0, HasURL: o.URL != ""}
	c.Channel = l.contract(t)
	c.Name, c.Idempotent = name, o.Idempotent
	t.done()
	endpoint, err := webhook.New(o)
	var e *consign.Error
	if errors.As(err, &e) {
		for _, f := range e.Faults {
			key := f.Field
			if other := from[key]; other != "" {
				key = other
			}
			if !l.told(before, t.full(key)) {
				t.fault(key, strings.ReplaceAll(f.Rule, "credentials.bearer", "bearer_env or bearer_file"))
			}
		}
	}
	if len(l.faults) > before {
		return c
	}
	if l.secrets { // without its secrets it must not send
		way := endpoint.Channel(name)
		c.Endpoint, c.Deliver, c.CheckProof = endpoint, way.Deliver, way.CheckProof
	}
	return c
}

// told reports whether one of the faults from the n-th on is about a path: nobody needs
// to hear that twice.
func (l *loader) told(n int, path string) bool {
	return slices.ContainsFunc(l.faults[n:], func(f Fault) bool { return f.Key == path })
}

// endpoint reads where and how a channel sends. from says which key a field of the
// options was read from, where that has another name.
func (l *loader) endpoint(t *table) (webhook.Options, map[string]string) {
	o := webhook.Options{}
	from := map[string]string{}
	l.address(t, &o, from)
	t.flag("idempotent", &o.Idempotent)
	t.flag("idempotency_key", &o.IdempotencyKey)
	t.flag("plaintext", &o.Plaintext)
	t.text("user_agent", &o.UserAgent)
	t.duration("max_retry_after", &o.MaxRetryAfter)
	t.duration("dial_timeout", &o.DialTimeout)
	t.duration("tls_timeout", &o.TLSTimeout)
	t.duration("header_timeout", &o.HeaderTimeout)
	t.duration("body_timeout", &o.BodyTimeout)
	t.duration("reuse_idle", &o.ReuseIdle)
	for _, n := range t.numbers("ports") {
		if n < 1 || n > 65535 {
			t.fault("ports", strconv.FormatInt(n, 10)+", limit 1 to 65535")
			continue
		}
		o.Ports = append(o.Ports, uint16(n))
	}
	o.Allow = t.networks("allow")
	l.credentials(t, &o, from)
	l.headers(t, &o, from)
	l.overrides(t, &o)
	l.roots(t, &o)
	return o, from
}

// address reads where a channel sends: its URL, or the permission to take it from
// each message.
func (l *loader) address(t *table, o *webhook.Options, from map[string]string) {
	any := false
	t.text("url", &o.URL)
	given := o.URL != ""
	if s := t.secret("url"); s.text != "" {
		if given {
			t.fault("url", "is given twice")
		}
		o.URL, given = s.text, true
		from["url"] = s.from
	}
	_, env := t.get("url_env")
	_, file := t.get("url_file")
	t.flag("any_url", &any)
	switch given = given || env || file; {
	case !given && !any:
		t.fault("url", "is missing; any_url = true takes it from each message")
	case given && any:
		t.fault("any_url", "contradicts url")
	}
	t.text("proxy", &o.Proxy)
	if u, err := url.Parse(o.Proxy); err == nil && u.User != nil {
		t.fault("proxy", "holds user information: put the URL into the environment, and name it by proxy_env")
	}
	if s := t.secret("proxy"); s.text != "" {
		o.Proxy, from["proxy"] = s.text, s.from
	}
	if u, err := url.Parse(o.URL); err == nil && len(o.Ports) == 0 && u.Port() != "" && o.URL != "" {
		// Whoever wrote the URL down meant its port.
		if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
			o.Ports = []uint16{uint16(n)}
		}
	}
}

// credentials reads the secrets.
func (l *loader) credentials(t *table, o *webhook.Options, from map[string]string) {
	keys := func(key string) (out []webhook.Key) {
		for _, s := range t.secrets(key) {
			k, err := webhook.ParseKey(s.text)
			if err != nil {
				t.fault(s.from, `is no key: want "whsec_" and 24 to 64 bytes in base64, "whsk_" or "whpk_"`)
				continue
			}
			out = append(out, k)
		}
		return out
	}
	o.Credentials.Keys = keys("secret")
	o.Credentials.Proofs = keys("proof")
	bearer := t.secret("bearer")
	o.Credentials.Bearer, from["credentials.bearer"] = bearer.text, bearer.from
}

// headers reads fixed headers, and those whose value is a secret.
func (l *loader) headers(t *table, o *webhook.Options, from map[string]string) {
	o.Header = http.Header{}
	add := func(table, name, value string) {
		o.Header.Add(name, value)
		from["header"], from["header."+http.CanonicalHeaderKey(name)] = table, table+"."+name
	}
	for name, v := range t.below("headers") {
		add("headers", name, v)
	}
	for name, variable := range t.below("headers_env") {
		s := strings.TrimSpace(os.Getenv(variable))
		if s == "" && l.secrets {
			t.fault("headers_env."+name, "the environment variable "+variable+" is not set")
		}
		add("headers_env", name, s)
	}
}

// overrides reads what statuses mean to this receiver.
func (l *loader) overrides(t *table, o *webhook.Options) {
	verdicts := map[string]webhook.Verdict{
		"unknown": webhook.Unknown, "refused": webhook.Refused, "rejected": webhook.Rejected, "accepted": webhook.Accepted,
	}
	for status, word := range t.below("overrides") {
		n, err := strconv.Atoi(status)
		v, known := verdicts[word]
		switch {
		case err != nil:
			t.fault("overrides."+status, "is no HTTP status")
		case !known:
			t.fault("overrides."+status, "is none of accepted, refused, rejected, unknown")
		default:
			if o.Overrides == nil {
				o.Overrides = map[int]webhook.Verdict{}
			}
			o.Overrides[n] = v
		}
	}
}

// roots reads the authorities that the receiver's certificate may come from.
func (l *loader) roots(t *table, o *webhook.Options) {
	name := ""
	if t.text("ca_file", &name); name == "" {
		return
	}
	raw, err := os.ReadFile(name)
	pool := x509.NewCertPool()
	switch {
	case err != nil:
		t.fault("ca_file", "the file "+name+" cannot be read")
	case !pool.AppendCertsFromPEM(raw):
		t.fault("ca_file", "the file "+name+" holds no certificate in PEM")
	default:
		o.TLS = &tls.Config{RootCAs: pool}
	}
}

// contract reads who tries again, how often and how long.
func (l *loader) contract(t *table) consign.Channel {
	c := consign.Channel{Retry: consign.OnSchedule}
	retry := "schedule"
	switch t.text("retry", &retry); retry {
	case "process":
		c.Retry = consign.InProcess
	case "schedule":
	default:
		t.fault("retry", `is neither "process" nor "schedule"`)
	}
	t.number("attempts", &c.MaxAttempts)
	for _, s := range t.texts("waits") {
		c.Waits = append(c.Waits, t.parsed("waits", s))
	}
	t.duration("timeout", &c.Timeout)
	t.duration("lease", &c.Lease)
	t.number("rejections", &c.Rejections)
	t.duration("max_age", &c.MaxAge)
	t.number("payload_limit", &c.PayloadLimit)
	return c
}
