package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/consign-go/consign/bench"
	"github.com/consign-go/consign/bench/page"
)

// TestGuardReportsAPlantedSlowdown measures, makes the record claim that work once
// took a hundredth of the log and was a thousand times as fast, and compares.
func TestGuardReportsAPlantedSlowdown(t *testing.T) {
	name := filepath.Join(t.TempDir(), "results.json")
	var out strings.Builder
	if err := run(t.Context(), []string{"-measures", "speed", "-guarded", "200", "-runs", "2", "-out", name}, &out); err != nil {
		t.Fatal(err)
	}
	record, err := bench.LoadRecord(name)
	if err != nil {
		t.Fatal(err)
	}
	samples := record.Of(bench.Speed).Samples
	for i := range samples {
		if s := &samples[i]; s.Subject == bench.Work {
			s.PerSec *= 1000
			s.Enqueue.WAL, s.Drain.WAL = s.Enqueue.WAL/100, s.Drain.WAL/100
		}
	}
	if err := record.Save(name); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := run(t.Context(), []string{"-guard", name}, &out); err != nil {
		t.Errorf("it is to report, not to fail: %v", err)
	}
	for _, what := range []string{"work drained, to River", "work drained, to the floor", "WAL of work"} {
		if !worse(out.String(), what) {
			t.Errorf("%s is not called worse:\n%s", what, &out)
		}
	}
	if worse(out.String(), "WAL of a message") {
		t.Errorf("what has not changed is called worse:\n%s", &out)
	}
	if err := run(t.Context(), []string{"-guard", name, "-strict"}, &out); err == nil || !strings.Contains(err.Error(), "worse") {
		t.Errorf("strict: %v", err)
	}
}

// worse reports whether the guard's line about something says so.
func worse(text, what string) bool {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, what+" ") && strings.Contains(line, "worse than the noise of rounds allows") {
			return true
		}
	}
	return false
}

// TestPartialRunMakesThePageAgain holds that one command measures, keeps the raw
// results and makes the page, and that what is not measured again stays.
func TestPartialRunMakesThePageAgain(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "performance"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := "# By hand\n\n{{measure \"P4\"}}{{curve \"order\"}}"
	if err := os.WriteFile(filepath.Join(dir, page.Text), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, measures := range []string{"P4", "order"} {
		err := run(t.Context(), []string{"-page", dir, "-measures", measures, "-n", "200", "-growth", "100", "-runs", "1"}, &out)
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(filepath.Join(dir, page.Document))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# By hand", "work, to the floor", "Run 1", "growth-order.svg", "Run 2"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "performance", "growth-order.svg")); err != nil {
		t.Error(err)
	}
	if err := run(t.Context(), []string{"-page", dir, "-render"}, &out); err != nil {
		t.Error(err)
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"-measures", "P99"}, {"-render"}, {"-strict"}, {"-guard", "x", "-page", "y"}, {"-page", "x", "-trace", "y"}, {"extra"},
	} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}
