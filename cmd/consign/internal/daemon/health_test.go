package daemon

import (
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	_ "modernc.org/sqlite"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/cmd/consign/internal/database"
)

// TestReadyMeansServingAndAnAnswerOfTheDatabase, asked at most once a second.
func TestReadyMeansServingAndAnAnswerOfTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := database.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "a.db"), database.Options{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		p, err := db.Program(&consign.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var h health
		h.program.Store(p)
		if err := h.ready(t.Context()); !errors.Is(err, errNotServing) {
			t.Errorf("before it serves: %v", err)
		}
		h.serving.Store(true)
		if err := h.ready(t.Context()); err != nil {
			t.Errorf("serving: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if err := h.ready(t.Context()); err != nil {
			t.Errorf("the database was asked again at once: %v", err)
		}
		time.Sleep(2 * time.Second)
		if err := h.ready(t.Context()); !errors.Is(err, errDatabase) {
			t.Errorf("the database is gone: %v", err)
		}
		h.serving.Store(false)
		if err := h.ready(t.Context()); !errors.Is(err, errNotServing) {
			t.Errorf("while it stops: %v", err)
		}
	})
}

// TestReadyMeansThatWritesAreTaken: one failure is none, failures for a while are, and it
// is over with the next write, or when nothing has failed for long.
func TestReadyMeansThatWritesAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h health
		fails := func() { h.observe(consign.Observation{Event: "error", Err: errors.New("disk full")}) }
		want := func(when string, failing bool) {
			t.Helper()
			if err := h.writes(); errors.Is(err, errFailing) != failing {
				t.Errorf("%s: %v", when, err)
			}
		}
		fails()
		time.Sleep(time.Minute)
		want("after one failure", false)
		fails()
		time.Sleep(time.Second)
		fails()
		want("after a second of failures", false)
		time.Sleep(12 * time.Second)
		fails()
		want("when they go on", true)
		h.observe(consign.Observation{Event: "listen"})
		want("while nothing was written", true)
		h.serving.Store(true)
		if err := h.ready(t.Context()); !errors.Is(err, errFailing) {
			t.Errorf("ready: %v", err)
		}
		for _, written := range []string{"claim", "start", "settle", "sweep"} {
			h.observe(consign.Observation{Event: written})
			want("after a "+written, false)
			fails()
			time.Sleep(11 * time.Second)
			fails()
			want("failing again", true)
		}
		time.Sleep(calm + time.Second)
		want("when nothing has failed for long", false)
		h = health{}
		for range 5 {
			h.observe(consign.Observation{Event: "error", Ref: consign.NewRef(), Err: errors.New("a panic")})
			time.Sleep(5 * time.Second)
		}
		want("trouble of one delivery", false)
	})
}
