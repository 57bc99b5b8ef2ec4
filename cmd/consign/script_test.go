package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs the stories in testdata/script with the real command. "exits N
// ARGS…" runs it and wants that exit code; each error is two lines on the other
// stream, and nothing but results is on the first.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", filepath.Dir(binary)+string(os.PathListSeparator)+os.Getenv("PATH"))
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits, "keep": keep},
	})
}

// exits runs the command and compares its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: exits CODE ARGS…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec("consign", args[1:]...)
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	said := ts.ReadFile("stderr")
	if code != want {
		ts.Fatalf("exit code %d, want %d\n%s%s", code, want, ts.ReadFile("stdout"), said)
	}
	lines := strings.Count(said, "\n")
	if code == 0 && said != "" || code != 0 && lines != 2 && !strings.Contains(said, "the configuration has") || code != 0 && !strings.HasPrefix(said, "consign: ") {
		ts.Fatalf("exit code %d, and on the other stream %d lines:\n%s", code, lines, said)
	}
}

// keep sets a variable to the last word that the last command printed: a ref.
func keep(ts *testscript.TestScript, neg bool, args []string) {
	words := strings.Fields(ts.ReadFile("stdout"))
	if neg || len(args) != 1 || len(words) == 0 {
		ts.Fatalf("usage: keep NAME, after a command that printed something")
	}
	ts.Setenv(args[0], words[len(words)-1])
}
