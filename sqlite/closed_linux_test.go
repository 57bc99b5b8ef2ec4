package sqlite_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestClosedPoolLeavesNoFileOpen: a statement that is left open keeps SQLite's
// connection, its files and its locks after the program has closed its pool.
func TestClosedPoolLeavesNoFileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "closed.db")
	open := func() (n int) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if file, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(file, path) {
				n++
			}
		}
		return n
	}
	db := modernc.Open(t, path, 4)
	b, transition := stocked(t, db)
	for name, call := range writes(b, transition) {
		if err := call(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if open() == 0 {
		t.Fatal("nothing was ever open")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if n := open(); n != 0 {
		t.Errorf("%d files are open after the pool was closed", n)
	}
}
