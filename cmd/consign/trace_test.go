package main

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// spans is a collector of traces on a real socket.
type spans struct {
	url string
	mu  sync.Mutex
	got []*trace.Span
	raw []byte
}

func newSpans(t *testing.T) *spans {
	c := &spans{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var req collector.ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &req) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.raw = append(c.raw, body...)
		for _, r := range req.ResourceSpans {
			for _, s := range r.ScopeSpans {
				c.got = append(c.got, s.Spans...)
			}
		}
	}))
	t.Cleanup(s.Close)
	c.url = s.URL
	return c
}

// TestDeliveryIsLinkedToWhatEnqueuedIt: the context of the caller is kept with the
// message, and the daemon's span of its delivery, a trace of its own, links to it.
// Nothing that is sent, and nobody it is sent to, is in a span.
func TestDeliveryIsLinkedToWhatEnqueuedIt(t *testing.T) {
	onEach(t, func(t *testing.T, p *place) {
		const caller, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
		r, c := newReceiver(t), newSpans(t)
		d := p.serve(t, "--webhook", r.webhook("crm", ""), "--trace-endpoint", c.url)
		traced := &place{dir: p.dir, env: append([]string{"TRACEPARENT=00-" + caller + "-" + span + "-01"}, p.env...)}
		with := traced.enqueue(t, `{"secret-content":"content-secret"}`, "--channel", "crm", "--session", "secret-subject")
		without := p.enqueue(t, `{}`, "--channel", "crm")
		p.becomes(t, with, "delivered")
		p.becomes(t, without, "delivered")
		d.stop() // which exports what there is
		c.mu.Lock()
		defer c.mu.Unlock()
		byRef := map[string]*trace.Span{}
		for _, s := range c.got {
			for _, a := range s.Attributes {
				if a.Key == "consign.ref" {
					byRef[a.Value.GetStringValue()] = s
				}
			}
		}
		linked, alone := byRef[with], byRef[without]
		if linked == nil || alone == nil {
			t.Fatalf("%d spans, none for one of the two", len(c.got))
		}
		if l := linked.Links; len(l) != 1 || hex.EncodeToString(l[0].TraceId) != caller || hex.EncodeToString(l[0].SpanId) != span {
			t.Errorf("links %v", l)
		}
		if hex.EncodeToString(linked.TraceId) == caller || len(linked.ParentSpanId) > 0 {
			t.Error("the delivery is no trace of its own")
		}
		if linked.Name != "deliver crm" || len(alone.Links) != 0 {
			t.Errorf("name %q, links of the other %v", linked.Name, alone.Links)
		}
		for _, content := range []string{"secret", r.url, "127.0.0.1"} {
			if strings.Contains(string(c.raw), content) {
				t.Errorf("%s is in what was exported", content)
			}
		}
	})
}
