package webhook

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/webhook"
	"github.com/consign-go/consign/webhook/receive"
)

const id = "0198f000-0000-7000-8000-000000000001"

func secret(fill string) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(fill, 32)))
}

func key(t *testing.T, text string) webhook.Key {
	t.Helper()
	k, err := webhook.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// What Consign sends is accepted by the specification's library, also while a
// secret is rotated, and refused without the secret.
func TestConsignToTheStandardLibrary(t *testing.T) {
	for name, c := range map[string]struct {
		signs []string
		taken bool
	}{
		"the secret":     {[]string{secret("a")}, true},
		"both, rotating": {[]string{secret("b"), secret("a")}, true},
		"another secret": {[]string{secret("b")}, false},
		"nothing":        {nil, false},
	} {
		got := ""
		h, err := Receiver(secret("a"), func(key string, body []byte) error { got = key + " " + string(body); return nil })
		if err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewServer(h)
		var keys []webhook.Key
		for _, s := range c.signs {
			keys = append(keys, key(t, s))
		}
		e, err := webhook.New(webhook.Options{
			URL: srv.URL, Plaintext: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
			Ports:       []uint16{netip.MustParseAddrPort(srv.Listener.Addr().String()).Port()},
			Credentials: webhook.Credentials{Keys: keys},
		})
		if err != nil {
			t.Fatal(err)
		}
		body := `{"event":"ticket.triaged","ä":"é\u2028"}`
		err = e.Channel("crm").Deliver(t.Context(), consign.Message{}, consign.Attempt{Key: id, Request: []byte(body)})
		if (err == nil) != c.taken || c.taken != (got == id+" "+body) {
			t.Errorf("%s: %v, the receiver got %q", name, err, got)
		}
		srv.Close()
	}
}

// What the specification's library signs is accepted by Consign's receiving end.
func TestStandardLibraryToConsign(t *testing.T) {
	signer, err := standardwebhooks.NewWebhook(secret("a"))
	if err != nil {
		t.Fatal(err)
	}
	now, body := time.Now(), []byte(`{"event":"ticket.triaged"}`)
	signature, err := signer.Sign(id, now, body)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {strconv.FormatInt(now.Unix(), 10)}, "Webhook-Signature": {signature}}
	for fill, taken := range map[string]bool{"a": true, "b": false} {
		v, err := receive.NewVerifier(receive.Options{Keys: []receive.Key{key(t, secret(fill))}})
		if err != nil {
			t.Fatal(err)
		}
		if d, err := v.Verify(h, body); (err == nil) != taken || taken && d.Key != id {
			t.Errorf("secret %s: %+v, %v", fill, d, err)
		}
	}
}
