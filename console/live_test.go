package console

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/consign-go/consign/consigntest"
	"github.com/consign-go/consign/internal/scene"
)

func storeOf(*testing.T) *consigntest.Store[*consigntest.Tx] { return consigntest.NewStore() }

// TestLiveNumbersAreSharedAndConditional: an unchanged one is answered with nothing.
func TestLiveNumbersAreSharedAndConditional(t *testing.T) {
	d := open(t, Options{})
	d.Message("mail", scene.Once)
	vera := d.person("vera")
	first := vera.get("/live")
	d.want(first, 200)
	var texts map[string]string
	if err := json.Unmarshal([]byte(first.body), &texts); err != nil || texts["n:message:mail:pending"] != "1" || texts["review"] != "0" {
		t.Errorf("%v, %v", texts, err)
	}
	again := vera.with("If-None-Match", first.header.Get("ETag"))
	d.want(again.get("/live"), 304)
	d.Unknown(d.Message("mail", scene.Once))
	d.want(again.get("/live"), 200, `"review":"1"`)
}

// TestDatabaseIsAskedOnceForAll: however many look, within the time that the numbers
// may be old.
func TestDatabaseIsAskedOnceForAll(t *testing.T) {
	d := open(t, Options{})
	d.console.o.Refresh = time.Minute
	var all sync.WaitGroup
	var different atomic.Int32
	first, err := d.console.snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		all.Go(func() {
			if s, err := d.console.snapshot(t.Context()); err != nil || s != first {
				different.Add(1)
			}
		})
	}
	all.Wait()
	if different.Load() != 0 {
		t.Errorf("%d asked anew", different.Load())
	}
	d.console.shared.forget()
	if s, _ := d.console.snapshot(t.Context()); s == first {
		t.Error("what was done is not seen")
	}
	d.clock.pass(2 * time.Minute)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.console.snapshot(gone); err != nil {
		t.Errorf("who went away takes the others along: %v", err)
	}
}

// TestSlowDatabaseIsNotWaitedForLong: a page ends at the timeout, says so, and puts no
// more than the fault into the log.
func TestSlowDatabaseIsNotWaitedForLong(t *testing.T) {
	var log strings.Builder
	d := open(t, Options{Timeout: time.Nanosecond, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	d.Text = "the secret text"
	ref := d.Message("mail", scene.Once)
	p := d.somebody()
	p.signIn("vera", password)
	for _, page := range []string{"/", "/intents", "/intents/" + ref.String(), "/review", "/kinds", "/audit", "/approvals"} {
		d.want(p.get(page), 503, "did not answer in time")
	}
	if !strings.Contains(log.String(), "a page failed") || strings.Contains(log.String(), "secret") {
		t.Errorf("logged %s", log.String())
	}
}
