package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain lets the demonstration start this program again as its worker.
func TestMain(m *testing.M) {
	if os.Getenv("CONSIGN_DEMO_WORKER") != "" {
		os.Exit(run(context.Background(), []string{"demo"}, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func TestDemoHoldsItsPromisesAndLeavesNothing(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	var out, errOut bytes.Buffer
	if code := run(t.Context(), []string{"demo"}, &out, &errOut); code != 0 || errOut.Len() > 0 {
		t.Fatalf("exit code %d\n%s%s", code, &out, &errOut)
	}
	if n := strings.Count(out.String(), "   ok: "); n != 10 || !strings.Contains(out.String(), "All 10 promises") {
		t.Errorf("%d promises were shown:\n%s", n, &out)
	}
	left, err := filepath.Glob(filepath.Join(temp, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestDemoThatCannotRunSaysSo(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	var out, errOut bytes.Buffer
	if code := run(t.Context(), []string{"demo"}, &out, &errOut); code != 1 || !strings.HasPrefix(errOut.String(), "consign: demo: ") {
		t.Errorf("exit code %d: %s", code, &errOut)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"serve"}, {"demo", "x"}} {
		var out, errOut bytes.Buffer
		if code := run(t.Context(), args, &out, &errOut); code != 2 || !strings.HasPrefix(errOut.String(), "usage: consign demo") || out.Len() > 0 {
			t.Errorf("%v: exit code %d\n%s%s", args, code, &out, &errOut)
		}
	}
	var out, errOut bytes.Buffer
	if code := run(t.Context(), []string{"--help"}, &out, &errOut); code != 0 || out.String() != usage || errOut.Len() > 0 {
		t.Errorf("help: exit code %d\n%s%s", code, &out, &errOut)
	}
	if info, err := os.Stat("main.go"); err != nil || info.Size() > 3000 {
		t.Errorf("main is to stay tiny: %v", err)
	}
}
