package effort_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/effort"
)

// A long run does what a long run is to do, for as long as it is told, and what was
// done is kept line by line.
func TestLongRunsDoMoreAndKeepWhatTheyDid(t *testing.T) {
	t.Setenv("CONSIGN_EFFORT", "")
	t.Setenv("CONSIGN_SOAK", "1h")
	if effort.Of(1, 2) != 1 || effort.Soak(t, time.Second) != time.Second {
		t.Error("a run of every change does as much as a long one")
	}
	t.Setenv("CONSIGN_EFFORT", "long")
	if effort.Of(1, 2) != 2 || effort.Soak(t, time.Second) != time.Hour {
		t.Error("a long run does no more than one of every change")
	}
	file := filepath.Join(t.TempDir(), "summary")
	t.Setenv("CONSIGN_SUMMARY", file)
	effort.Note(t, "%d kills", 3)
	effort.Note(t, "%d restarts", 4)
	got, err := os.ReadFile(file)
	if want := t.Name() + ": 3 kills\n" + t.Name() + ": 4 restarts\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}
