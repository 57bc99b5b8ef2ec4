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
