// Package effort tells proofs how much to do, and keeps what they did.
//
// Every change gets a small run of each proof. A long run is asked for by
// CONSIGN_EFFORT=long, which ./test.sh long sets together with CONSIGN_SUMMARY, the
// file that gets a line from each proof.
package effort

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// Long reports whether this is a long run.
func Long() bool { return os.Getenv("CONSIGN_EFFORT") == "long" }

// Of returns how much to do: of every change, and in a long run.
func Of[T int | time.Duration](every, long T) T {
	if Long() {
		return long
	}
	return every
}

// Soak is how long something that can go on for ever goes on. CONSIGN_SOAK sets it
// for a long run. Default: 10 minutes then, and every otherwise.
func Soak(t testing.TB, every time.Duration) time.Duration {
	t.Helper()
	raw := os.Getenv("CONSIGN_SOAK")
	if !Long() || raw == "" {
		return Of(every, 10*time.Minute)
	}
	d, err := time.ParseDuration(raw)
	if err != nil || d < every {
		t.Fatalf("CONSIGN_SOAK=%q: want a duration of %s or more, such as 24h", raw, every)
	}
	return d
}

// Note keeps what a proof did: in the test's log, and as a line of the summary file
// where there is to be one.
func Note(t testing.TB, format string, args ...any) {
	t.Helper()
	text := fmt.Sprintf(format, args...)
	t.Log(text)
	file := os.Getenv("CONSIGN_SUMMARY")
	if file == "" {
		return
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Error(err)
		return
	}
	_, err = fmt.Fprintf(f, "%s: %s\n", t.Name(), text)
	if closed := f.Close(); err != nil || closed != nil {
		t.Error("the summary was not written")
	}
}
