package dispatch

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// echo is a lane that answers each request with itself after a second, and keeps
// its batches.
type echo struct {
	*lane[int, int]
	takes   time.Duration
	mu      sync.Mutex
	batches [][]int
	running int
	most    int
	fail    func(batch []int) error
}

func newEcho(size, leaders int) *echo {
	e := &echo{takes: time.Second}
	e.lane = newLane(size, leaders, e.answer)
	return e
}

// eachWay runs a test on a lane whose callers lead, and on one with an assistant for
// each lead.
func eachWay(t *testing.T, size, leaders int, test func(t *testing.T, e *echo)) {
	for _, assisted := range []bool{false, true} {
		t.Run(map[bool]string{false: "callers lead", true: "assisted"}[assisted], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEcho(size, leaders)
				stop := make(chan struct{})
				var assistants sync.WaitGroup
				for range leaders {
					if assisted {
						assistants.Go(func() { e.assist(stop) })
					}
				}
				synctest.Wait()
				test(t, e)
				close(stop)
				assistants.Wait()
				if e.active != 0 || e.spare != 0 || len(e.queue) != 0 {
					t.Errorf("%d leads, %d assistants and %d waiting at the end", e.active, e.spare, len(e.queue))
				}
			})
		})
	}
}

func (e *echo) answer(_ context.Context, batch []int) ([]int, error) {
	e.mu.Lock()
	e.batches = append(e.batches, slices.Clone(batch))
	e.running++
	e.most = max(e.most, e.running)
	fail := e.fail
	e.mu.Unlock()
	time.Sleep(e.takes)
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
	eachWay(t, 100, 1, func(t *testing.T, e *echo) {
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
	eachWay(t, 8, 3, func(t *testing.T, e *echo) {
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
	})
}

// Beside a batch under way another begins as soon as it is as large, and not before:
// what comes one by one is not written one by one. When the other ends, whatever
// waits is served.
func TestLaneBeginsNoSmallerBatchBesideAnother(t *testing.T) {
	eachWay(t, 100, 2, func(t *testing.T, e *echo) {
		send := func(n int) (wait func()) {
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() { e.submit(context.Background(), 0, false) })
				synctest.Wait()
			}
			return wg.Wait
		}
		e.takes = 10 * time.Millisecond
		first := send(1) // a batch of one
		second := send(1)
		third := send(5) // wait for both
		time.Sleep(e.takes)
		synctest.Wait()
		e.mu.Lock()
		begun := len(e.batches)
		e.mu.Unlock()
		fourth := send(4) // not enough beside the five
		fifth := send(1)  // enough with these
		for _, wait := range []func(){first, second, third, fourth, fifth} {
			wait()
		}
		var sizes []int
		for _, b := range e.batches {
			sizes = append(sizes, len(b))
		}
		if !slices.Equal(sizes, []int{1, 1, 5, 5}) || begun != 3 || e.most != 2 {
			t.Errorf("batches of %v, %d begun when the first had ended, %d at once", sizes, begun, e.most)
		}
	})
}

// A batch that hangs holds up the others for a moment only.
func TestLaneGoesOnBesideABatchThatHangs(t *testing.T) {
	eachWay(t, 100, 2, func(t *testing.T, e *echo) {
		free := []chan struct{}{make(chan struct{}), make(chan struct{}), make(chan struct{})}
		e.takes = 0
		e.fail = func(batch []int) error {
			if kind := batch[0]; kind > 0 {
				<-free[kind-1]
			}
			return nil
		}
		var wg sync.WaitGroup
		for _, kind := range []int{1, 2, 3, 3, 3, 3, 3} { // both leads are taken, and five wait
			wg.Go(func() { e.submit(context.Background(), kind, false) })
			synctest.Wait()
		}
		close(free[0])
		synctest.Wait() // the five are one batch, which hangs
		close(free[1])
		synctest.Wait()
		began := time.Now()
		for range 3 {
			e.submit(context.Background(), 0, false)
		}
		if took := time.Since(began); took != 3*longestGather {
			t.Errorf("three that came one by one took %s", took)
		}
		close(free[2])
		wg.Wait()
	})
}

// A lead lasts for one batch: whoever has its answer goes on, however much waits.
func TestLaneLeadIsBounded(t *testing.T) {
	eachWay(t, 2, 1, func(t *testing.T, e *echo) {
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
	eachWay(t, 10, 1, func(t *testing.T, e *echo) {
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
	eachWay(t, 100, 1, func(t *testing.T, e *echo) {
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
	eachWay(t, 100, 1, func(t *testing.T, e *echo) {
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
	})
}

// A context that has ended neither takes a write back nor lets its caller go
// before it is known what became of it.
func TestLaneWaitsForWhatMayStillHappen(t *testing.T) {
	eachWay(t, 1, 1, func(t *testing.T, e *echo) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if out, err := e.submit(ctx, 7, false); out != 7 || err != nil {
			t.Errorf("%d, %v", out, err)
		}
	})
}

// A store that answers too few of a batch's requests answers none of them.
func TestLaneMistrustsAShortAnswer(t *testing.T) {
	l := newLane(1, 1, func(context.Context, []int) ([]int, error) { return nil, nil })
	if _, err := l.submit(context.Background(), 1, false); err == nil {
		t.Error("no error")
	}
}

// An assistant that is told to stop still takes the lead that it is given at that
// moment.
func TestLaneAssistantForgetsNobody(t *testing.T) {
	e := newEcho(10, 1)
	e.takes = 0
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		e.assist(stop)
		close(ended)
	}()
	for spare := 0; spare == 0; runtime.Gosched() {
		e.lane.mu.Lock()
		spare = e.spare
		e.lane.mu.Unlock()
	}
	e.lane.mu.Lock()
	close(stop) // it wants to go, and has to wait for mu
	time.Sleep(10 * time.Millisecond)
	e.active++
	g, _ := e.join(7, false)
	e.hand()
	e.lane.mu.Unlock()
	<-ended
	if _, lead := <-g.done; lead || g.err != nil || g.outs[0] != 7 || e.active != 0 || e.spare != 0 {
		t.Errorf("answered %v, %v, %d leads, %d assistants", g.outs, g.err, e.active, e.spare)
	}
}

// Many callers in real time, and assistants that come and go: every caller gets its
// own answer, and nobody is left waiting.
func TestLaneUnderLoad(t *testing.T) {
	l := newLane(7, 2, func(_ context.Context, b []int) ([]int, error) { return slices.Clone(b), nil })
	var callers, assistants sync.WaitGroup
	done := make(chan struct{})
	for range 3 {
		assistants.Go(func() {
			for i := 0; ; i++ {
				stop := make(chan struct{})
				timer := time.AfterFunc(time.Duration(i%5)*100*time.Microsecond, func() { close(stop) })
				l.assist(stop)
				timer.Stop()
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for g := range 32 {
		callers.Go(func() {
			for i := range 300 {
				in := g*1000 + i
				if out, err := l.submit(context.Background(), in, i%50 == 0); out != in || err != nil {
					t.Errorf("%d: %d, %v", in, out, err)
				}
			}
		})
	}
	callers.Wait()
	close(done)
	assistants.Wait()
	if l.active != 0 || l.spare != 0 || len(l.queue) != 0 || len(l.calls) != 0 {
		t.Errorf("%d leads, %d assistants and %d waiting at the end", l.active, l.spare, len(l.queue))
	}
}
