package webhook

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/dispatch"
)

// every status from 200 to 599 and what it means, written out again here so that a
// slip in the table shows.
func expected(status int, retryAfter bool) Verdict {
	switch {
	case status >= 200 && status <= 299:
		return Accepted
	case status == 407, status == 511:
		return NotSent
	case status == 408, status == 425, status == 429, status == 421:
		return Refused
	case status == 503 && retryAfter, status == 413 && retryAfter:
		return Refused
	case status == 301, status == 307, status == 308, status == 501, status == 505:
		return Rejected
	case status == 409:
		return Unknown
	case status >= 400 && status <= 499:
		return Rejected
	}
	return Unknown
}

func TestEveryStatusOnTheWireHasItsVerdict(t *testing.T) {
	status, extra := 0, ""
	p := listen(t, nil, func(v *visit) {
		for v.request() { // a loop, so that a second request on the connection would be counted
			v.say(fmt.Sprintf("HTTP/1.1 %03d Whatever\r\n%sLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", status, extra))
		}
	})
	s := endpoint(t, local(p))
	n := int64(0)
	for status = 200; status <= 650; status++ {
		for _, extra = range []string{"", "Retry-After: 7\r\n"} {
			what := fmt.Sprintf("%d %q", status, extra)
			out := want(t, what, s.post(t.Context(), ""), expected(status, extra != ""))
			n++
			if got := p.complete.Load(); got != n || p.conns.Load() != n {
				t.Fatalf("%s: %d requests on %d connections for %d attempts", what, got, p.conns.Load(), n)
			}
			if out != nil && (out.Status != status || s.observed().Status != status) {
				t.Errorf("%s: says status %d", what, out.Status)
			}
			if wait := s.observed().Wait; (wait == 7*time.Second) != (extra != "") {
				t.Errorf("%s: wait %s", what, wait)
			}
		}
	}
}

func TestNotesOfAnswers(t *testing.T) {
	for status, note := range map[int]string{
		200: "", 202: NoteNotFinal, 207: NoteNotFinal, 409: NoteInProgress, 410: NoteGone, 422: NoteDigest, 500: "",
	} {
		p := listen(t, nil, answers(fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n", status)))
		s := endpoint(t, local(p))
		s.post(t.Context(), "")
		if got := s.observed().Note; got != note {
			t.Errorf("%d: note %q, want %q", status, got, note)
		}
	}
}

func TestOverridesDecideAndAreShown(t *testing.T) {
	status := 0
	p := listen(t, nil, func(v *visit) {
		if v.request() {
			v.say(fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n", status))
		}
	})
	o := local(p)
	o.Overrides = map[int]Verdict{500: Refused, 404: Refused, 202: Unknown, 409: Accepted, 410: Rejected}
	s := endpoint(t, o)
	for st, v := range o.Overrides {
		status = st
		out := want(t, fmt.Sprint(st), s.post(t.Context(), ""), v)
		if out != nil && (!out.Override || !contains(out.Error(), v.String()+" by the endpoint's own rule")) {
			t.Errorf("%d: the override is not shown: %v", st, out)
		}
		if !s.observed().Override {
			t.Errorf("%d: the override is not observed", st)
		}
	}
	status = 502
	if want(t, "502", s.post(t.Context(), ""), Unknown).Override {
		t.Error("502 is marked as overridden")
	}
	rs := s.Rules()
	if len(rs) != len(rules)+5 || !rs[0].Override || rs[0].From != 202 || rs[4].From != 500 || rs[5].Override {
		t.Errorf("the overrides do not stand first: %+v", rs[:6])
	}
	rs[0].Verdict = Rejected
	if s.Rules()[0].Verdict != Unknown {
		t.Error("a caller can change the table")
	}
}

func TestRetryAfterIsReadAndCapped(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const date = "Fri, 02 Jan 2026 03:05:05 GMT"
	for name, c := range map[string]struct {
		header string
		wait   time.Duration
		asked  bool
	}{
		"seconds":           {"Retry-After: 120\r\n", 2 * time.Minute, true},
		"zero":              {"Retry-After: 0\r\n", 0, true},
		"over the cap":      {"Retry-After: 999999\r\n", time.Hour, true},
		"beyond counting":   {"Retry-After: 99999999999999999999999\r\n", time.Hour, true},
		"date":              {"Retry-After: " + date + "\r\n", time.Minute, true},
		"date, other clock": {"Date: Fri, 02 Jan 2026 03:05:00 GMT\r\nRetry-After: " + date + "\r\n", 5 * time.Second, true},
		"date in the past":  {"Retry-After: Thu, 01 Jan 2026 00:00:00 GMT\r\n", 0, true},
		"date over the cap": {"Retry-After: Sat, 02 Jan 2027 00:00:00 GMT\r\n", time.Hour, true},
		"negative":          {"Retry-After: -5\r\n", 0, false},
		"fraction":          {"Retry-After: 1.5\r\n", 0, false},
		"words":             {"Retry-After: soon\r\n", 0, false},
		"empty":             {"Retry-After: \r\n", 0, false},
	} {
		p := listen(t, nil, answers("HTTP/1.1 503 X\r\n"+c.header+"Content-Length: 0\r\n\r\n"))
		o := local(p)
		o.MaxRetryAfter, o.Now = time.Hour, func() time.Time { return now }
		s := endpoint(t, o)
		err := s.post(t.Context(), "")
		if c.asked {
			want(t, name, err, Refused)
		} else {
			want(t, name, err, Unknown) // what cannot be read asks for nothing
		}
		if d, ok := err.(*dispatch.Definite); !ok || d.Wait != c.wait || d.HTTP != 503 {
			t.Errorf("%s: the engine is told %+v, want wait %s", name, err, c.wait)
		}
	}
}

func TestCancelledBeforehandSendsNothing(t *testing.T) {
	p := listen(t, nil, answers("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	s := endpoint(t, local(p))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	want(t, "cancelled", s.post(ctx, ""), NotSent)
	if p.conns.Load() != 0 {
		t.Error("a connection was made")
	}
}
