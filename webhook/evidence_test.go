package webhook

import (
	"crypto/tls"
	"errors"
	"net"
	"testing"
)

// short is a socket that takes so many bytes more and then breaks.
type short struct {
	net.Conn
	left int
}

func (s *short) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p[:min(len(p), s.left)])
	s.left -= n
	if err == nil && n < len(p) {
		s.Conn.Close()
		err = errors.New("broken")
	}
	return n, err
}

// The evidence is what the socket took: nothing means not sent, anything means
// unknown, also where TLS has not finished a record and so reports nothing written.
func TestVerdictFollowsTheBytesTaken(t *testing.T) {
	onBothTransports(t, func(t *testing.T, conf *tls.Config) {
		p := listen(t, conf, func(v *visit) { v.request() })
		s := endpoint(t, local(p))
		for _, taken := range []int{0, 1, 2, 5, 20, 100} {
			w, failed := s.connection(t.Context(), s.fixed, &Observation{})
			if failed != nil {
				t.Fatal(failed)
			}
			w.counted.Conn = &short{Conn: w.counted.Conn, left: taken}
			x := &exchange{endpoint: s.Endpoint, wire: w}
			_, err := x.run(t.Context(), &request{target: s.fixed, key: testKey, body: []byte(testBody), creds: &Credentials{}})
			w.close()
			v := Unknown
			if taken == 0 {
				v = NotSent
			}
			if err == nil || x.failed(t.Context(), err).Verdict != v {
				t.Errorf("%d bytes taken: %v, want %s", taken, err, v)
			}
			if conf != nil && x.taken != 0 {
				t.Errorf("%d bytes taken: TLS reports %d", taken, x.taken)
			}
		}
		if p.complete.Load() != 0 {
			t.Errorf("%d complete requests", p.complete.Load())
		}
	})
}
