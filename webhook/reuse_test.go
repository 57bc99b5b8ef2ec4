package webhook

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// reusing is an endpoint that keeps connections for long.
func reusing(p *peer) Options {
	o := local(p)
	o.ReuseIdle = 30 * time.Second
	return o
}

func TestReuseKeepsOneConnection(t *testing.T) {
	onBothTransports(t, func(t *testing.T, conf *tls.Config) {
		p := listen(t, conf, func(v *visit) {
			for v.request() {
				v.say(okay)
			}
		})
		s := endpoint(t, reusing(p))
		for i := range int64(20) {
			want(t, "reused", s.post(t.Context(), ""), Accepted)
			once(t, "reused", p, 1, i+1)
			if s.observed().Reused != (i > 0) {
				t.Errorf("request %d: reused is %t", i, s.observed().Reused)
			}
		}
		if req, _ := p.request(); req.Close {
			t.Error("asks to close a connection that is to be kept")
		}
		s.Close()
		want(t, "after Close", s.post(t.Context(), ""), Accepted)
		want(t, "after Close", s.post(t.Context(), ""), Accepted)
		once(t, "after Close", p, 3, 22)
	})
}

func TestFreshConnectionsAreTheDefault(t *testing.T) {
	p := listen(t, nil, func(v *visit) {
		for v.request() {
			v.say(okay)
		}
	})
	s := endpoint(t, local(p))
	for range 3 {
		want(t, "fresh", s.post(t.Context(), ""), Accepted)
	}
	once(t, "fresh", p, 3, 3)
	if req, _ := p.request(); !req.Close {
		t.Error("does not say that the connection will be closed")
	}
}

// What does not leave the connection as it was is not used again.
func TestReuseOnlyOfWhatIsClean(t *testing.T) {
	for name, text := range map[string]string{
		"closes":           "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
		"old":              "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
		"until the end":    "HTTP/1.1 200 OK\r\n\r\n",
		"too large":        "HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + strings.Repeat("x", 2000),
		"a second answer":  okay + "HTTP/1.1 204 X\r\n\r\n",
		"timed out":        "HTTP/1.1 408 X\r\nContent-Length: 0\r\n\r\n",
		"misdirected":      "HTTP/1.1 421 X\r\nContent-Length: 0\r\n\r\n",
		"another protocol": "HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			p := listen(t, nil, func(v *visit) {
				for v.request() {
					v.say(text)
					if name == "until the end" {
						return
					}
				}
			})
			o := reusing(p)
			o.MaxBody = 1000
			s := endpoint(t, o)
			for i := range int64(3) {
				s.post(t.Context(), "")
				once(t, name, p, i+1, i+1)
			}
		})
	}
}

// A connection that was closed while idle, or on which something came that nobody
// asked for, is found out before anything is written.
func TestIdleConnectionsAreLookedAt(t *testing.T) {
	onBothTransports(t, func(t *testing.T, conf *tls.Config) {
		for _, last := range []string{"", "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"} {
			now, done := make(chan bool), make(chan bool)
			p := listen(t, conf, func(v *visit) {
				if !v.request() {
					return
				}
				v.say(okay)
				<-now
				v.say(last)
				if last == "" {
					v.Close()
				}
				done <- true
				v.gone()
			})
			s := endpoint(t, reusing(p))
			for i := range int64(3) {
				want(t, "fresh", s.post(t.Context(), ""), Accepted)
				once(t, "fresh", p, i+1, i+1)
				w := s.idle(t)
				now <- true
				<-done
				for quiet(w.tcp) { // until the network has carried it over
					time.Sleep(time.Millisecond)
				}
			}
		}
	})
}

// bundle holds back what is written until it is let go, in one piece.
type bundle struct {
	net.Conn
	mu   sync.Mutex
	held []byte
	hold bool
}

func (b *bundle) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hold {
		b.held = append(b.held, p...)
		return len(p), nil
	}
	return b.Conn.Write(p)
}

func (b *bundle) keep() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hold = true
}

func (b *bundle) letGo() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Conn.Write(b.held)
	b.held, b.hold = nil, false
}

// A second answer that came in a record of its own, but together with the first, is
// not taken for the answer to the next request.
func TestAnswerInAdvanceIsNotTheNextAnswer(t *testing.T) {
	p := listen(t, nil, func(v *visit) {
		b := &bundle{Conn: v.Conn}
		v.Conn = tls.Server(b, serverTLS())
		v.r.Reset(v.Conn)
		if !v.request() {
			return
		}
		b.keep()
		v.say(okay)
		v.say("HTTP/1.1 429 X\r\nContent-Length: 0\r\n\r\n")
		b.letGo()
		v.gone()
	})
	o := reusing(p)
	o.URL = strings.Replace(p.url, "http:", "https:", 1)
	s := endpoint(t, o)
	for i := range int64(3) {
		want(t, "post", s.post(t.Context(), ""), Accepted)
		once(t, "post", p, i+1, i+1)
	}
}

// idle returns the one idle connection.
func (s *sent) idle(t *testing.T) *wire {
	t.Helper()
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	for _, all := range s.pool.idle {
		return all[0]
	}
	t.Fatal("no connection is idle")
	return nil
}

// A reused connection that ends after the request was written is unknown, and the
// request is not written again: not on this connection, not on another.
func TestReusedConnectionThatBreaksIsNeverReplayed(t *testing.T) {
	onBothTransports(t, func(t *testing.T, conf *tls.Config) {
		p := listen(t, conf, func(v *visit) {
			if v.request() {
				v.say(okay)
				v.request()
				v.reset()
			}
		})
		o := reusing(p)
		o.IdempotencyKey = true // with which net/http would replay
		s := endpoint(t, o)
		for i := range int64(5) {
			want(t, "first", s.post(t.Context(), ""), Accepted)
			out := want(t, "second", s.post(t.Context(), ""), Unknown)
			once(t, "second", p, i+1, 2*i+2)
			if !s.observed().Reused || out.Status != 0 {
				t.Errorf("observed %+v", s.observed())
			}
			if len(s.pool.idle) != 0 {
				t.Errorf("%d receivers without a connection are remembered", len(s.pool.idle))
			}
		}
	})
}

func TestIdleConnectionsAreClosedInTime(t *testing.T) {
	ended := make(chan bool, 1)
	p := listen(t, nil, func(v *visit) {
		for v.request() {
			v.say(okay)
		}
		ended <- true
	})
	o := reusing(p)
	o.ReuseIdle = 20 * time.Millisecond
	s := endpoint(t, o)
	want(t, "first", s.post(t.Context(), ""), Accepted)
	<-ended
	want(t, "next", s.post(t.Context(), ""), Accepted)
	<-ended
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if len(s.pool.idle) != 0 {
		t.Errorf("%d receivers are remembered", len(s.pool.idle))
	}
}

// Each caller has its own connection, and no more of them than allowed stay.
func TestConcurrentPostsShareNothing(t *testing.T) {
	onBothTransports(t, func(t *testing.T, conf *tls.Config) {
		p := listen(t, conf, func(v *visit) {
			for v.request() {
				v.say(okay)
			}
		})
		o := reusing(p)
		o.MaxIdle = 2
		s := endpoint(t, o)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for i := range 50 {
					ctx, cancel := context.WithCancel(t.Context())
					if i%10 == 9 { // a cancellation that races with the answer
						go cancel()
					}
					if v, out := verdict(s.post(ctx, "")); v != Accepted && i%10 != 9 {
						t.Errorf("%s: %v", v, out)
					}
					cancel()
				}
			})
		}
		all.Wait()
		s.pool.mu.Lock()
		defer s.pool.mu.Unlock()
		for _, idle := range s.pool.idle {
			if len(idle) > 2 {
				t.Errorf("%d idle connections", len(idle))
			}
		}
		if n := p.complete.Load(); n > 400 {
			t.Errorf("%d requests for 400 attempts", n)
		}
	})
}
