package consign_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/consigntest"
)

// post sends one request over a connection of its own and follows nothing.
func post(ctx context.Context, url string, body []byte) error {
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

// Only what certainly made no connection is not sent.
func TestUnreachedTakesOnlyWhatMadeNoConnection(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing := "http://" + free.Addr().String()
	free.Close()
	cuts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		conn, _, _ := w.(http.Hijacker).Hijack()
		conn.Close()
	}))
	defer cuts.Close()
	secret := httptest.NewTLSServer(http.NotFoundHandler())
	defer secret.Close()
	secret.Config.ErrorLog = nil

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	refused := post(t.Context(), refusing, nil)
	for name, c := range map[string]struct {
		err     error
		certain bool
	}{
		"connection refused":            {refused, true},
		"name not found":                {post(t.Context(), "http://no-such-host.invalid", nil), true},
		"unknown certificate authority": {post(t.Context(), secret.URL, nil), true},
		"wrapped":                       {fmt.Errorf("crm: %w", refused), true},
		"connection cut":                {post(t.Context(), cuts.URL, []byte("{}")), false},
		"an error response":             {post(t.Context(), secret.URL[:4]+"://"+cuts.Listener.Addr().String(), nil), false},
		"joined with another":           {errors.Join(refused, io.EOF), false},
		"ended before":                  {post(ended, refusing, nil), false},
		"a read that failed":            {&net.OpError{Op: "read", Err: io.EOF}, false},
		"a bare certificate error":      {x509.UnknownAuthorityError{}, false},
	} {
		if c.err == nil {
			t.Fatalf("%s: no error", name)
		}
		far := consigntest.NewReceiver(consign.Unreached(c.err))
		i := consigntest.Deliver(t, triaged, func(ctx context.Context, d *consign.Delivery, in noticeInput) error {
			return d.Effect(ctx, in, far.Send)
		}, noticeInput{Ticket: "41"}, &consigntest.Case{Visits: 1})
		// The kind is not idempotent: what is unknown ends there, what was not sent is tried again.
		want := map[bool]consign.Status{true: consign.StatusPending, false: consign.StatusReconciliationRequired}[c.certain]
		if i.Status != want || i.Uncertain == c.certain || len(far.Attempts()) != 1 {
			t.Errorf("%s (%v): %s, want %s", name, c.err, i.Status, want)
		}
	}
	if consign.Unreached(nil) != nil {
		t.Error("nil became an error")
	}
}
