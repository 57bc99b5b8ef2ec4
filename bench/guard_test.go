package bench

import (
	"strings"
	"testing"
)

// steady are rounds in which every subject drains so many a second.
func steady(perSecond map[string]float64, wal int64) (all []Sample) {
	for round := range 3 {
		wobble := 1 + 0.01*float64(round-1)
		for _, name := range subjects[Speed] {
			n := 1000
			all = append(all, Sample{
				Subject: name, Round: round + 1, N: n, PerSec: perSecond[name] * wobble, Enqueue: Spent{Seconds: 1, WAL: wal / 2},
				Drain: Spent{Seconds: 1, Client: 10 / perSecond[name], Server: 10 / perSecond[name], WAL: wal / 2, Allocs: 20_000, AllocBytes: 3_000_000},
			})
		}
	}
	return all
}

func TestGuardTellsWhatIsBeyondTheNoise(t *testing.T) {
	usual := map[string]float64{River: 20_000, Work: 50_000, Floor: 60_000, Messages: 52_000}
	record := &Record{}
	record.Add(Results{Measures: []string{Speed}, Samples: steady(usual, 1_500_000)})
	verdicts := func(perSecond map[string]float64, wal int64) map[string]Verdict {
		t.Helper()
		all, err := Judge(record, steady(perSecond, wal))
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]Verdict{}
		for _, j := range all {
			out[j.Now.What] = j.Verdict
		}
		return out
	}
	for what, v := range verdicts(usual, 1_500_000) {
		if v != Same {
			t.Errorf("%s is %s and nothing has changed", what, v)
		}
	}
	// A machine half as fast changes no ratio.
	for what, v := range verdicts(map[string]float64{River: 10_000, Work: 25_000, Floor: 30_000, Messages: 26_000}, 1_500_000) {
		if v != Same {
			t.Errorf("%s is %s on a slower machine", what, v)
		}
	}
	slower := verdicts(map[string]float64{River: 20_000, Work: 40_000, Floor: 60_000, Messages: 60_000}, 1_800_000)
	for what, want := range map[string]Verdict{
		"work drained, to River": Worse, "work by processor time, to the floor": Worse, "messages drained, to River": Better,
		"WAL of work": Worse, "allocations in the drain of work": Same,
	} {
		if slower[what] != want {
			t.Errorf("%s: %s, want %s", what, slower[what], want)
		}
	}
}

func TestGuardNeedsARecord(t *testing.T) {
	_, err := Judge(&Record{}, nil)
	if err == nil || !strings.Contains(err.Error(), "0 of 12") {
		t.Error(err)
	}
}
