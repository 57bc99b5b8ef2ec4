package webhook

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/consign-go/consign/webhook/internal/signature"
)

// request is what one attempt sends.
type request struct {
	target *target
	key    string
	body   []byte
	creds  *Credentials
	ask    bool               // Expect: 100-continue
	keep   func(proof string) // what the receiver has signed
}

// headerLines renders the headers that every request of an endpoint has.
func headerLines(o *Options) string {
	s := "\r\nUser-Agent: " + o.UserAgent + "\r\nContent-Type: application/json\r\n"
	if o.ReuseIdle == 0 {
		s += "Connection: close\r\n"
	}
	names := make([]string, 0, len(o.Header))
	for name := range o.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, v := range o.Header[name] {
			s += http.CanonicalHeaderKey(name) + ": " + v + "\r\n"
		}
	}
	return s
}

// head renders the request line and the header section. Everything in it was
// checked: the URL by parseURL, names and values by New, the key by deliver.
func (e *Endpoint) head(r *request) []byte {
	at := e.opt.Now().Unix()
	b := make([]byte, 0, 768+len(e.lines)+len(r.target.path)+len(r.body))
	b = append(b, "POST "...)
	b = append(b, r.target.path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, r.target.host...)
	b = append(b, e.lines...)
	line := func(name, value string) {
		b = append(b, name...)
		b = append(b, ": "...)
		b = append(b, value...)
		b = append(b, "\r\n"...)
	}
	line("Content-Length", strconv.Itoa(len(r.body)))
	line(signature.HeaderID, r.key)
	line(signature.HeaderTimestamp, strconv.FormatInt(at, 10))
	if len(r.creds.Keys) > 0 {
		line(signature.HeaderSignature, signature.Request(r.creds.Keys, r.key, at, r.body))
	}
	if e.opt.IdempotencyKey {
		line("Idempotency-Key", `"`+r.key+`"`)
	}
	if r.creds.Bearer != "" {
		line("Authorization", "Bearer "+r.creds.Bearer)
	}
	if r.ask {
		line("Expect", "100-continue")
	}
	return append(b, "\r\n"...)
}
