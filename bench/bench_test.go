package bench

import (
	"context"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if child, err := Child(context.Background()); child {
		if err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestEverySubjectCompletes runs all measures once, so small that their figures
// mean nothing: each subject must complete what it was given, and every
// comparison must find both of its sides.
func TestEverySubjectCompletes(t *testing.T) {
	cluster, err := StartCluster("", map[string]string{"shared_buffers": "64MB", "min_wal_size": "80MB"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	s := &Suite{URL: cluster.URL(), Config: Config{
		N: 300, InsertBatch: 100, Workers: 50, Calls: 40, Memory: 300, SQLite: 100, Rate: 200, Paced: 100,
		SnapshotAge: 1, Churn: 100, Old: 2000, Posts: 100, Fresh: 100, Visits: 2, Runs: 1,
	}}
	if err := s.Open(ctx); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := Results{Config: s.Config, Measures: Measures}
	if r.Machine, err = s.Machine(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(ctx, Measures, func(x Sample) { r.Samples = append(r.Samples, x) }); err != nil {
		t.Fatal(err)
	}
	lines := Compare(r.Samples, Measures)
	if len(lines) != len(comparisons) {
		t.Errorf("%d lines for %d comparisons", len(lines), len(comparisons))
	}
	for _, l := range lines {
		if !(l.Ratio > 0) || math.IsInf(l.Ratio, 0) {
			t.Errorf("%s %s: %v", l.Measure, l.What, l.Ratio)
		}
	}
	var out strings.Builder
	r.PrintConfiguration(&out)
	Print(&out, lines)
	for _, want := range []string{"fsync = on", "synchronous_commit = on", "pool of 8", "work drained, to River"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in what is printed:\n%s", want, &out)
		}
	}
}

func TestRatiosAreOfMediansAndRangesOfRounds(t *testing.T) {
	samples := []Sample{
		{Subject: Work, PerSec: 30}, {Subject: River, PerSec: 10},
		{Subject: Work, PerSec: 60}, {Subject: River, PerSec: 40},
		{Subject: Work, PerSec: 50}, {Subject: River, PerSec: 20},
	}
	lines := Compare(samples, Measures)
	if len(lines) == 0 {
		t.Fatal("no line")
	}
	l := lines[0]
	if l.Measure != "P1" || l.Ours != 50 || l.Theirs != 20 || l.Ratio != 2.5 || l.Low != 1.5 || l.High != 3 || !l.Met {
		t.Errorf("%+v", l)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{3, 1}, 2}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := Median(c.in); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.in, got, c.want)
		}
	}
}

func TestCountdownEndsOnceAtZero(t *testing.T) {
	c := newCountdown(3)
	c.add(1)
	select {
	case <-c.done:
		t.Fatal("done with two left")
	default:
	}
	c.add(2)
	if err := c.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.add(1) // one too many is found by the count of what is stored
}

func TestInputsHaveTheSizeAskedFor(t *testing.T) {
	for _, n := range []int{0, 7, 123456} {
		row, err := newWork(n, 100)
		if err != nil || len(row.Payload) != 100 {
			t.Errorf("%d bytes: %s, %v", len(row.Payload), row.Payload, err)
		}
	}
}

func TestQuantilesAreOfWhatWasMeasured(t *testing.T) {
	var took []time.Duration
	for i := 1000; i > 0; i-- {
		took = append(took, time.Duration(i)*time.Millisecond)
	}
	d := newDistribution(took)
	if d.Count != 1000 || len(d.Quantiles) != 24 {
		t.Fatalf("%+v", d)
	}
	for q, want := range map[float64]float64{0: 1, 0.05: 50, 0.5: 500, 0.95: 950, 0.99: 990, 0.999: 999, 0.9999: 1000, 1: 1000} {
		if got := d.at(q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if d := newDistribution(nil); d != nil || !math.IsNaN(d.at(0.5)) {
		t.Errorf("of nothing: %+v", d)
	}
}
