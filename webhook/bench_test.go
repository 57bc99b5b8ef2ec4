//go:build unix

package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/consign-go/consign"
)

// BenchmarkPost posts 500 bytes, signed, to a net/http server in this process. The
// bare loop is net/http's transport with one request written out by hand and no
// policy, verdict or signature, and connections handled in the same way.
//
// "cpu-µs/post" is user and system time of the whole process, the server included.
func BenchmarkPost(b *testing.B) {
	for _, c := range []struct {
		name       string
		tls, reuse bool
	}{
		{"reused/plain", false, true}, {"reused/tls", true, true}, {"fresh/plain", false, false}, {"fresh/tls", true, false},
	} {
		b.Run(c.name+"/endpoint", func(b *testing.B) {
			srv, got := sink(b, c.tls)
			o := Options{
				URL: srv.URL + "/hook", Plaintext: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
				Ports:       []uint16{netip.MustParseAddrPort(srv.Listener.Addr().String()).Port()},
				Credentials: Credentials{Keys: []Key{secretKey(b, "k")}}, TLS: roots(srv),
			}
			if c.reuse {
				o.ReuseIdle = 5 * time.Second
			}
			e, err := New(o)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(e.Close)
			deliver := e.Channel("crm").Deliver
			measure(b, got, func(ctx context.Context, body []byte) error {
				return deliver(ctx, consign.Message{}, consign.Attempt{Key: testKey, Request: body})
			})
		})
		b.Run(c.name+"/bare", func(b *testing.B) {
			srv, got := sink(b, c.tls)
			tr := &http.Transport{DisableKeepAlives: !c.reuse, MaxIdleConnsPerHost: 64, DisableCompression: true, TLSClientConfig: roots(srv)}
			b.Cleanup(tr.CloseIdleConnections)
			url := srv.URL + "/hook"
			measure(b, got, func(ctx context.Context, body []byte) error {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
				if err != nil {
					return err
				}
				req.GetBody = nil
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Webhook-Id", testKey)
				resp, err := tr.RoundTrip(req)
				if err != nil {
					return err
				}
				io.Copy(io.Discard, resp.Body)
				return resp.Body.Close()
			})
		})
	}
}

// roots are the client's half of a test server's TLS.
func roots(srv *httptest.Server) *tls.Config {
	if srv.TLS == nil {
		return nil
	}
	return &tls.Config{
		RootCAs:            srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs,
		ClientSessionCache: tls.NewLRUClientSessionCache(0),
	}
}

func sink(b *testing.B, overTLS bool) (*httptest.Server, *atomic.Int64) {
	got := &atomic.Int64{}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); err == nil && n == 500 {
			got.Add(1)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	if overTLS {
		srv.StartTLS()
	} else {
		srv.Start()
	}
	b.Cleanup(srv.Close)
	return srv, got
}

func measure(b *testing.B, got *atomic.Int64, send func(ctx context.Context, body []byte) error) {
	body := append(append([]byte(`{"a":"`), bytes.Repeat([]byte("x"), 492)...), `"}`...)
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	b.SetParallelism(8)
	b.ReportAllocs()
	before := cpu()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := send(ctx, body); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "posts/s")
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-µs/post")
	if got.Load() != int64(b.N) {
		b.Errorf("%d whole requests arrived for %d posts", got.Load(), b.N)
	}
}

// cpu is the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
