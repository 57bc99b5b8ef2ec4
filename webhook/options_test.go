package webhook

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign"
)

func TestNewReportsEveryFaultAtOnce(t *testing.T) {
	public, err := ParseKey("whpk_" + base64.StdEncoding.EncodeToString(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(Options{
		URL:         "http://user:s3cr3t@example.org/?token=s3cr3t",
		Credentials: Credentials{Keys: []Key{public, public, public, public, public}, Bearer: "s3cr3t s3cr3t", Proofs: []Key{{}}},
		Header:      http.Header{"content-length": {"1"}, "Bad Name": {"x"}, "X-Ok": {"s3cr3t\r\nX: y"}, "webhook-id": {"x"}},
		Overrides:   map[int]Verdict{199: Refused, 500: NotSent},
		Allow:       []netip.Prefix{{}, netip.MustParsePrefix("127.0.0.1/8")},
		Proxy:       "ftp://me:s3cr3t@proxy", TLS: &tls.Config{InsecureSkipVerify: true},
		MaxRetryAfter: 25 * time.Hour, DialTimeout: -1, TLSTimeout: time.Microsecond, HeaderTimeout: 2 * time.Hour, BodyTimeout: -1,
		ContinueTimeout: -1, MaxHeader: 255, MaxBody: 1<<20 + 1, ReuseIdle: time.Minute, MaxIdle: 1001, UserAgent: "a\nb",
	})
	var e *consign.Error
	if !errors.Is(err, consign.ErrInvalid) || !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{
		"url is not an https URL", "credentials.keys more than 4", "credentials.keys[0] cannot sign", "credentials.bearer", "credentials.proofs[0] is no key",
		"header.content-length is set by this package", "header has a name", "header.X-Ok", "header.webhook-id is set", "overrides status 199, limit 200 to 599",
		"overrides of 500", "allow[0]", "allow[1]", "proxy is not", "tls skips", "max_retry_after 25h0m0s, limit 1s to 24h0m0s", "dial_timeout", "tls_timeout",
		"header_timeout", "body_timeout", "continue_timeout", "max_header 255, limit 256 to 1048576", "max_body 1048577", "reuse_idle 1m0s, limit 0s to 30s",
		"max_idle 1001", "user_agent",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
	if contains(err.Error(), "s3cr3t") {
		t.Errorf("the error tells a secret: %v", err)
	}
	if _, err := ParseKey("whsec_s3cr3t"); !errors.Is(err, consign.ErrInvalid) || contains(err.Error(), "s3cr3t") {
		t.Errorf("a bad key: %v", err)
	}
	if _, err := New(Options{Lookup: nil}); err != nil {
		t.Errorf("the zero value: %v", err)
	}
}

func TestCredentialsAreNeverShown(t *testing.T) {
	o := Options{Credentials: Credentials{Keys: []Key{secretKey(t, "k")}, Bearer: "s3cr3t"}}
	for _, shown := range []string{
		fmt.Sprint(o.Credentials), fmt.Sprintf("%+v", o), fmt.Sprintf("%#v", o), fmt.Sprintf("%v", &o.Credentials), fmt.Sprintf("%s", o.Credentials),
	} {
		if contains(shown, "s3cr3t") || contains(shown, "kkkk") || contains(shown, "107 107") || contains(shown, "0x6b") || !contains(shown, "1 keys, 0 for proofs, a bearer token") {
			t.Errorf("shown as %s", shown)
		}
	}
}

// An endpoint that gets into a log by mistake shows nothing of its options.
func TestEndpointsAreShownWithoutTheirOptions(t *testing.T) {
	e, err := New(Options{
		URL: "https://example.org/?token=s3cr3t", Proxy: "http://me:s3cr3t@proxy", Header: http.Header{"X-Api-Key": {"s3cr3t"}},
		Credentials: Credentials{Keys: []Key{secretKey(t, "k")}, Bearer: "s3cr3t"},
	})
	if err != nil {
		t.Fatal(err)
	}
	inside := struct{ E *Endpoint }{e}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		for _, v := range []any{e, inside, &inside, e.Channel("crm")} {
			if shown := fmt.Sprintf(format, v); contains(shown, "s3cr3t") || contains(shown, "107 107") || contains(shown, "0x6b, 0x6b") {
				t.Errorf("%s shows %s", format, shown)
			}
		}
	}
}

func TestChannelDeclaresWhatTheOptionsSay(t *testing.T) {
	for _, idempotent := range []bool{false, true} {
		c := endpoint(t, Options{Idempotent: idempotent}).Channel("crm")
		if c.Name != "crm" || c.Idempotent != idempotent || c.Retry != consign.OnSchedule || c.Deliver == nil {
			t.Errorf("channel %+v", c)
		}
	}
}

// A panic of the observer does not change what is known.
func TestObserverCannotSpoilAnOutcome(t *testing.T) {
	p := listen(t, nil, answers(okay))
	o := local(p)
	o.Observe = func(Observation) { panic("s3cr3t") }
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "post", (&sent{Endpoint: e}).post(t.Context(), ""), Accepted)
}
