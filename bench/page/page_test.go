package page

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/consign-go/consign/bench"
)

const docs = "../../docs"

// kept makes the page from what the repository holds.
func kept(t *testing.T) map[string][]byte {
	t.Helper()
	record, err := bench.LoadRecord(filepath.Join(docs, Raw))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(docs, Text))
	if err != nil {
		t.Fatal(err)
	}
	files, err := Make(record, string(text))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestPageIsWhatTheRawResultsMake holds that nobody edits a figure, a table or a
// chart by hand, and that none of them is older than the raw results.
func TestPageIsWhatTheRawResultsMake(t *testing.T) {
	files := kept(t)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(docs, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/%s is not what the raw results make (%v); run: cd bench && %s -render", name, err, repeat)
		}
	}
	charts, err := Charts(docs)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range charts {
		if files[name] == nil {
			t.Errorf("docs/%s is on no page; run: cd bench && %s -render", name, repeat)
		}
	}
	if len(files) < 4 {
		t.Errorf("only %d files are made", len(files))
	}
}

func sample(subject string, round int, perSecond float64) bench.Sample {
	return bench.Sample{
		Subject: subject, Round: round, N: 1000, PerSec: perSecond,
		Drain: bench.Spent{Seconds: 1, Client: 0.02, Server: 0.03, WAL: 700_000}, Enqueue: bench.Spent{Seconds: 1, WAL: 900_000},
	}
}

func TestFiguresComeFromTheRawResults(t *testing.T) {
	r := &bench.Record{}
	r.Add(bench.Results{Measures: []string{"P1", "P4"}, Config: bench.Config{N: 1000}, Samples: []bench.Sample{
		sample(bench.River, 1, 100), sample(bench.Work, 1, 270), sample(bench.Floor, 1, 500),
	}})
	text := `{{value "P1" "work drained, to River"}}, {{value "P3" "work with a large payload, to P1"}}
{{caution}}{{goals}}{{measure "P4"}}{{measure "P10"}}{{runs}}`
	files, err := Make(r, text)
	if err != nil {
		t.Fatal(err)
	}
	got := string(files[Document])
	for _, want := range []string{
		"2.70, (not measured yet)", "| P1 | work drained, to River | ≥ 2.5 | 2.70 | 2.70 to 2.70 | yes |",
		"| P4 | work, to the floor | ≥ 0.7 | 0.54 | 0.54 to 0.54 | **no** |", unmeasured, "[Run 1](#run-1)", "### Run 1", "was a quick look",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if _, err := Make(r, `{{value "P1" "what nobody compares"}}`); err == nil {
		t.Error("a figure that there is not was not refused")
	}
}

// A subject that other measures need too is shown as it was beside the others, not as
// it was in another database later.
func TestCostsAreOfOneRun(t *testing.T) {
	r := &bench.Record{}
	r.Add(bench.Results{Measures: []string{"P1"}, Samples: []bench.Sample{sample(bench.River, 1, 100), sample(bench.Work, 1, 270)}})
	r.Add(bench.Results{Measures: []string{"P8"}, Samples: []bench.Sample{sample(bench.Work, 1, 50)}})
	m := &maker{record: r}
	names, of := m.drained()
	if !slices.Equal(names, []string{bench.River, bench.Work}) || of[bench.Work][0].PerSec != 270 {
		t.Errorf("%v, work at %v a second, want 270", names, of[bench.Work][0].PerSec)
	}
}

func TestFullRunsAreNotCautionedAgainst(t *testing.T) {
	full := bench.Config{}.Filled()
	guard := full
	guard.N = full.Guarded
	r := &bench.Record{}
	r.Add(bench.Results{Measures: []string{"P1"}, Config: full})
	r.Add(bench.Results{Measures: []string{bench.Speed}, Config: guard})
	if got := (&maker{record: r}).caution(); got != "" {
		t.Error(got)
	}
}

func TestLinesThatSayTheSameStandAlone(t *testing.T) {
	lines := []bench.Line{{What: "posts, fresh connections"}, {What: "the same, reused ones"}, {What: "the same by processor time"}}
	for i, want := range []string{"posts, fresh connections", "posts, reused ones", "posts, fresh connections by processor time"} {
		if got := alone(lines, i); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestPartialRunReplacesItsMeasuresOnly holds that what was not measured again
// stays as it was, with its own machine and time.
func TestPartialRunReplacesItsMeasuresOnly(t *testing.T) {
	r := &bench.Record{}
	both := bench.Results{Measures: []string{"P1", "P4"}, Machine: bench.Machine{Load: "old"}}
	r.Add(both)
	r.Add(bench.Results{Measures: []string{"P4"}, Machine: bench.Machine{Load: "new"}})
	if len(r.Runs) != 2 || r.Of("P1").Machine.Load != "old" || r.Of("P4").Machine.Load != "new" || r.Of("P3") != nil {
		t.Errorf("%+v", r.Runs)
	}
	r.Add(bench.Results{Measures: []string{"P1"}, Machine: bench.Machine{Load: "newest"}})
	if len(r.Runs) != 2 || r.Of("P1").Machine.Load != "newest" {
		t.Errorf("a run without a measure is kept: %+v", r.Runs)
	}
	name := filepath.Join(t.TempDir(), "results.json")
	if err := r.Save(name); err != nil {
		t.Fatal(err)
	}
	again, err := bench.LoadRecord(name)
	if err != nil || len(again.Runs) != 2 || !slices.Equal(again.Runs[1].Measures, []string{"P1"}) {
		t.Errorf("%+v, %v", again, err)
	}
}
