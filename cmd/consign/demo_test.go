package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestDemoHoldsItsPromisesAndLeavesNothing(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	p := newPlace(t, "TMPDIR="+temp)
	out := p.must(t, "demo")
	if n := strings.Count(out, "   ok: "); n != 10 || !strings.Contains(out, "All 10 promises") {
		t.Errorf("%d promises were shown:\n%s", n, out)
	}
	left, err := filepath.Glob(filepath.Join(temp, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestDemoThatCannotRunSaysSo(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "TMPDIR="+filepath.Join(t.TempDir(), "missing"))
	if r := p.run(t, "", "demo"); r.code != 1 || !strings.HasPrefix(r.err, "consign: demo: ") {
		t.Errorf("exit code %d: %s", r.code, r.err)
	}
}
