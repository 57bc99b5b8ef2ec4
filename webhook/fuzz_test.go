package webhook

import (
	"bytes"
	"net"
	"testing"
)

// FuzzAnswer lets a receiver answer anything: there is always a verdict, a success
// only for a complete header section of HTTP/1, and an error never repeats what
// was said.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		okay, okay[:20], "HTTP/1.1 503 X\r\nRetry-After: 9\r\n\r\n", "HTTP/1.1 100 C\r\n\r\n" + okay, "HTTP/2.0 200 OK\r\n\r\n", "HTTP/1.1 200 OK\n\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nX: \x00\r\n\r\n", "",
	} {
		f.Add([]byte(s))
	}
	e, err := New(Options{URL: "https://example.org/", MaxBody: 1000, MaxHeader: 1000})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		near, far := net.Pipe()
		done := make(chan bool)
		go func() {
			defer close(done)
			defer far.Close()
			far.Read(make([]byte, 4096))
			far.Write(said)
		}()
		w := newWire(near, near)
		w.over(w.counted)
		x := &exchange{endpoint: e, wire: w}
		r := &request{target: e.fixed, key: testKey, body: []byte("{}"), creds: &Credentials{}}
		resp, err := x.run(t.Context(), r)
		near.Close()
		<-done
		var out *Error
		if err != nil {
			out = x.failed(t.Context(), err)
		} else {
			out = e.judge(x, r, resp, &Observation{})
		}
		if out.Verdict == Accepted && (!bytes.HasPrefix(said, []byte("HTTP/1.")) || !bytes.Contains(said, []byte("\n\r\n")) && !bytes.Contains(said, []byte("\n\n"))) {
			t.Errorf("%q is a success", said)
		}
		if err != nil && out.Verdict != Unknown {
			t.Errorf("%q: %s without an answer", said, out.Verdict)
		}
		for _, fixed := range []error{errCut, errNotHTTP, errHeaderLimit, nil} {
			if out.Cause == fixed {
				return
			}
		}
		t.Errorf("%q: cause %v", said, out.Cause)
	})
}
