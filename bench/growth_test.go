package bench

import (
	"context"
	"testing"
	"time"
)

// TestEveryCurveCompletes takes every point of every growth curve, so small that the
// figures mean nothing: whatever is not cut short must be drained whole.
func TestEveryCurveCompletes(t *testing.T) {
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
	s := &Suite{URL: cluster.URL(), Config: Config{InsertBatch: 100, Growth: 100, Backlog: 100, Workers: 50, PointSeconds: 60}}
	if err := s.Open(ctx); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	points := map[string]int{}
	err = s.grow(ctx, Curves, func(x Sample) {
		points[x.Curve]++
		if x.Partial || x.Items < 100 && x.Curve != "attempts" || !(x.PerSec > 0) || !(x.Drain.Client > 0) {
			t.Errorf("%+v", x)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Curves {
		if points[name] == 0 {
			t.Errorf("%s has no point", name)
		}
	}
	if points["workers"] != 7 || points["kinds"] != 4 || points["payload"] != 6 {
		t.Errorf("%v", points)
	}
}

// TestPointIsCutWhenItsTimeIsOver holds that a drain that has grown beyond all
// patience is told with what it did get done.
func TestPointIsCutWhenItsTimeIsOver(t *testing.T) {
	c := newCountdown(10)
	c.add(3)
	c.cut()
	if err := c.wait(t.Context()); err != nil || c.left.Load() != 7 {
		t.Errorf("%v, %d left", err, c.left.Load())
	}
	c.add(7) // what was under way; the countdown has ended already
	c.cut()
}

func TestSelectKnowsSets(t *testing.T) {
	all, err := Select([]string{"all"})
	if err != nil || len(all) != len(Everything()) {
		t.Errorf("%v, %v", all, err)
	}
	some, err := Select([]string{"order", "P4", "P1", "P4"})
	if err != nil || len(some) != 3 || some[0] != "P1" || some[2] != "order" {
		t.Errorf("%v, %v", some, err)
	}
	if _, err := Select([]string{"P99"}); err == nil {
		t.Error("P99 is accepted")
	}
}
