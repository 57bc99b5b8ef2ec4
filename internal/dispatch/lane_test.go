package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// echo is a lane that answers each request with itself after a second, and keeps
// its batches.
type echo struct {
	lane[int, int]
	mu      sync.Mutex
	batches [][]int
	running int
	most    int
	fail    func(batch []int) error
}

func newEcho(size, leaders int) *echo {
	e := &echo{}
	e.lane = lane[int, int]{size: size, leaders: leaders, run: e.answer}
	return e
}

func (e *echo) answer(_ context.Context, batch []int) ([]int, error) {
	e.mu.Lock()
	e.batches = append(e.batches, slices.Clone(batch))
	e.running++
	e.most = max(e.most, e.running)
	fail := e.fail
	e.mu.Unlock()
	time.Sleep(time.Second)
	e.mu.Lock()
	e.running--
	e.mu.Unlock()
	if fail != nil {
		if err := fail(batch); err != nil {
			return nil, err
		}
	}
	return slices.Clone(batch), nil
}

// send submits n requests one after another, each from a goroutine of its own,
// and returns the answers.
func (e *echo) send(n int, alone func(i int) bool) (answers []int, errs []error) {
	answers, errs = make([]int, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { answers[i], errs[i] = e.submit(context.Background(), i, alone(i)) })
		synctest.Wait() // it leads or stands in the queue
	}
	wg.Wait()
	return answers, errs
}

func never(int) bool { return false }

// A request that finds the lane free is served at once and alone; what comes while
// the leaders are busy becomes one batch, in the order of its coming.
func TestLaneBatchesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEcho(100, 1)
		began := time.Now()
		answers, errs := e.send(50, never)
		for i := range answers {
			if answers[i] != i || errs[i] != nil {
				t.Errorf("request %d: %d, %v", i, answers[i], errs[i])
			}
		}
		if len(e.batches) != 2 || len(e.batches[0]) != 1 || len(e.batches[1]) != 49 || !slices.IsSorted(e.batches[1]) {
			t.Errorf("batches %v", e.batches)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("took %s", took)
		}
	})
}

func TestLaneKeepsItsLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEcho(8, 3)
		e.send(100, never)
		seen := 0
		for _, b := range e.batches {
			seen += len(b)
			if len(b) > 8 {
				t.Errorf("a batch of %d", len(b))
			}
		}
		if seen != 100 || e.most != 3 {
			t.Errorf("%d requests, %d batches at once", seen, e.most)
		}
		if e.active != 0 || len(e.queue) != 0 {
			t.Errorf("%d leaders and %d waiting at the end", e.active, len(e.queue))
		}
	})
}

// A lead lasts for one batch: whoever has its answer goes on, however much waits.
func TestLaneLeadIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEcho(2, 1)
		began := time.Now()
		var first time.Duration
		var wg sync.WaitGroup
		wg.Go(func() {
			e.submit(context.Background(), -1, false)
			first = time.Since(began)
		})
		synctest.Wait()
		wg.Go(func() { e.send(50, never) })
		wg.Wait()
		if first != time.Second {
			t.Errorf("the first leader was kept for %s", first)
		}
	})
}

var errBatch = errors.New("no")

func TestLaneErrorReachesTheWholeBatchAndNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEcho(10, 1)
		e.fail = func(batch []int) error {
			if slices.Contains(batch, 5) {
				return errBatch
			}
			return nil
		}
		_, errs := e.send(21, never) // 0, then 1 to 10, then 11 to 20
		for i, err := range errs {
			if want := i >= 1 && i <= 10; (err == errBatch) != want {
				t.Errorf("request %d: %v", i, err)
			}
		}
	})
}

// What goes alone shares a batch with nobody, and takes its turn.
func TestLaneRequestMayGoAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEcho(100, 1)
		answers, _ := e.send(10, func(i int) bool { return i == 3 || i == 4 || i == 9 })
		want := [][]int{{0}, {1, 2}, {3}, {4}, {5, 6, 7, 8}, {9}}
		if !slices.EqualFunc(e.batches, want, slices.Equal) {
			t.Errorf("batches %v", e.batches)
		}
		for i, a := range answers {
			if a != i {
				t.Errorf("request %d: %d", i, a)
			}
		}
	})
}

// A leader that panics, or whose goroutine ends, does not leave the others waiting.
func TestLaneOutlivesItsLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEcho(100, 1)
		e.fail = func(batch []int) error {
			if batch[0] == 1 {
				panic("store")
			}
			return nil
		}
		var errs [6]error
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				if broken := contain(func() error { _, errs[i] = e.submit(context.Background(), i, i == 5); return nil }); broken != nil {
					errs[i] = broken
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		for i, err := range errs {
			if want := i >= 1 && i <= 4; (err != nil) != want {
				t.Errorf("request %d: %v", i, err)
			}
		}
		if e.active != 0 {
			t.Errorf("%d leaders at the end", e.active)
		}
	})
}

// A context that has ended neither takes a write back nor lets its caller go
// before it is known what became of it.
func TestLaneWaitsForWhatMayStillHappen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEcho(1, 1)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if out, err := e.submit(ctx, 7, false); out != 7 || err != nil {
			t.Errorf("%d, %v", out, err)
		}
	})
}

// A store that answers too few of a batch's requests answers none of them.
func TestLaneMistrustsAShortAnswer(t *testing.T) {
	l := lane[int, int]{size: 1, leaders: 1, run: func(context.Context, []int) ([]int, error) { return nil, nil }}
	if _, err := l.submit(context.Background(), 1, false); err == nil {
		t.Error("no error")
	}
}

// Many callers in real time: every one gets its own answer.
func TestLaneUnderLoad(t *testing.T) {
	l := lane[int, int]{size: 7, leaders: 2, run: func(_ context.Context, b []int) ([]int, error) { return slices.Clone(b), nil }}
	var wg sync.WaitGroup
	for g := range 32 {
		wg.Go(func() {
			for i := range 300 {
				in := g*1000 + i
				if out, err := l.submit(context.Background(), in, i%50 == 0); out != in || err != nil {
					t.Errorf("%d: %d, %v", in, out, err)
				}
			}
		})
	}
	wg.Wait()
	if l.active != 0 || len(l.queue) != 0 {
		t.Errorf("%d leaders and %d waiting at the end", l.active, len(l.queue))
	}
}
