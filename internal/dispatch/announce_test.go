package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/consign-go/consign/internal/driver"
)

// wire carries hints between the programs of a test.
type wire struct {
	notify func(ctx context.Context) error
	fail   chan error // ends Listen
	heard  chan func(wake func(driver.ID), state func(error))
}

func newWire() *wire {
	return &wire{
		notify: func(context.Context) error { return nil }, fail: make(chan error), heard: make(chan func(func(driver.ID), func(error))),
	}
}

func (w *wire) Notify(ctx context.Context, _ driver.ID) error { return w.notify(ctx) }

func (w *wire) Listen(ctx context.Context, wake func(driver.ID), state func(err error)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-w.fail:
			return err
		case f := <-w.heard:
			f(wake, state)
		}
	}
}

// hint, works and breaks are what happens on the wire.
func (w *wire) hint()  { w.hintFrom(driver.ID{}) }
func (w *wire) works() { w.heard <- func(_ func(driver.ID), state func(error)) { state(nil) } }
func (w *wire) hintFrom(id driver.ID) {
	w.heard <- func(wake func(driver.ID), _ func(error)) { wake(id) }
}
func (w *wire) breaks(err error) {
	w.heard <- func(_ func(driver.ID), state func(error)) { state(err) }
}

// listens is what an engine said about the wire.
type listens struct {
	mu   sync.Mutex
	errs []error
}

func (l *listens) observe(o Observation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.Event == "listen" {
		l.errs = append(l.errs, o.Err)
	}
}

// However many commits are announced, one hint is under way, and one more stands
// for all that were announced meanwhile. Whoever waits, waits for one that was
// sent after its own commit.
func TestAnnouncementsCoalesce(t *testing.T) {
	inBubble(t, func(r *rig) {
		var sent, waited atomic.Int64
		w, gate := newWire(), make(chan error)
		w.notify = func(context.Context) error {
			sent.Add(1)
			return <-gate
		}
		e := New(Config{Store: r.store, Waker: w, Grace: time.Second})
		wait := func(n int, want error) {
			for range n {
				go func() {
					if err := e.Announce().Wait(r.Context()); err != want {
						r.Errorf("announced: %v, want %v", err, want)
					}
					waited.Add(1)
				}()
			}
			time.Sleep(time.Second)
		}
		is := func(s, w int64) {
			r.Helper()
			synctest.Wait()
			if sent.Load() != s || waited.Load() != w {
				r.Fatalf("%d sent, %d know of it, want %d and %d", sent.Load(), waited.Load(), s, w)
			}
		}
		wait(1, nil)
		is(1, 0)
		wait(1000, errBroken)
		is(1, 0)
		gate <- nil
		time.Sleep(time.Second)
		is(2, 1)
		gate <- errBroken
		is(2, 1001)
		wait(1, nil)
		gate <- nil
		is(3, 1002)

		e.Announce() // nobody waits for this one, nor for ever
		ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
		defer cancel()
		if err := e.Announce().Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			r.Errorf("announced while one hangs: %v", err)
		}
		close(gate)
	})
}

// hearing is an engine that has been idle for long and hears hints.
func (r *rig) hearing(claims *atomic.Int64) (e *Engine, w *wire, stop func() error) {
	w = newWire()
	e = r.patient(claims, r.served(kinds[2]))
	e.Waker = w
	stop = r.serve(e)
	w.works()
	time.Sleep(3 * time.Hour)
	return e, w, stop
}

// A hint of another program makes delivery begin at once.
func TestHintOfAnotherProgramIsTakenUpAtOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		var claims atomic.Int64
		_, w, stop := r.hearing(&claims)
		for range 3 {
			ref := r.enqueue(kinds[2], 1)[0]
			synctest.Wait()
			if n := len(r.far.arrivals(ref)); n != 0 {
				r.Errorf("sent %d times before the hint", n)
			}
			w.hint()
			synctest.Wait()
			if n := len(r.far.arrivals(ref)); n != 1 {
				r.Errorf("sent %d times after the hint", n)
			}
			time.Sleep(4 * time.Hour)
		}
		stop()
	})
}

// A hint that an engine sent itself comes back to it, and is no reason to look again.
func TestOwnHintIsNoReasonToLook(t *testing.T) {
	inBubble(t, func(r *rig) {
		var claims atomic.Int64
		e, w, stop := r.hearing(&claims)
		before := claims.Load()
		w.hintFrom(e.id)
		synctest.Wait()
		if n := claims.Load() - before; n != 0 {
			r.Errorf("%d claims after its own hint", n)
		}
		w.hintFrom(driver.NewID())
		synctest.Wait()
		if claims.Load() == before {
			r.Error("no claim after the hint of another")
		}
		stop()
	})
}

// An idle engine looks five times more rarely while hints are seen to arrive and to
// come for what there is, and no more rarely than ever otherwise.
func TestLooksStretchOnlyWhileHintsMakeThemNeedless(t *testing.T) {
	inBubble(t, func(r *rig) {
		var claims atomic.Int64
		w := newWire()
		e := r.patient(&claims, r.served(kinds[2]))
		e.Waker, e.Poll = w, time.Second
		stop := r.serve(e)
		looks := func(what string, least, most int64) {
			r.Helper()
			time.Sleep(20 * time.Second)
			before := claims.Load()
			time.Sleep(100 * time.Second)
			if n := claims.Load() - before; n < least || n > most { // a look is a claim, and now and then one for suspects
				r.Errorf("%s: %d claims in 100 s, want %d to %d", what, n, least, most)
			}
		}
		hinted := func() {
			time.Sleep(300 * time.Millisecond) // not at the instant of a poll
			r.enqueue(kinds[2], 1)
			w.hint()
		}
		looks("before anything is heard", 100, 210)
		w.works()
		looks("before a hint was of use", 100, 210)
		hinted()
		looks("while hints work", 20, 42)
		w.breaks(errBroken)
		looks("while the connection is lost", 100, 210)
		w.works()
		looks("when it is there again", 20, 42)
		r.settled(6*time.Second, r.enqueue(kinds[2], 1)...)
		looks("after something came without a hint", 100, 210)
		hinted()
		looks("after the next hint", 20, 42)
		stop()
	})
}

// Where no hints can be heard that is said once, and polling alone delivers.
func TestDeafProgramSaysSoOnceAndPolls(t *testing.T) {
	inBubble(t, func(r *rig) {
		var said listens
		w := newWire()
		e := r.engine(r.served(kinds[2]))
		e.Waker, e.Observe = w, said.observe
		stop := r.serve(e)
		w.works()
		w.breaks(errBroken)
		w.fail <- driver.ErrNoListen
		time.Sleep(time.Hour)
		r.settled(2*time.Second, r.enqueue(kinds[2], 1)...)
		stop()
		if !slices.Equal(said.errs, []error{nil, errBroken, driver.ErrNoListen}) {
			r.Errorf("said %v", said.errs)
		}
	})
}

// A program to which no hints found their way listens anew every few minutes, says
// only what changes, and hears again once they do. A closed database is not asked
// again.
func TestDeafProgramListensAgain(t *testing.T) {
	inBubble(t, func(r *rig) {
		var said listens
		var claims atomic.Int64
		w := newWire()
		e := r.patient(&claims, r.served(kinds[2]))
		e.Waker, e.Observe = w, said.observe
		stop := r.serve(e)
		for range 3 {
			w.fail <- driver.ErrNoListen
			time.Sleep(deafPause + time.Second)
		}
		w.works()
		ref := r.enqueue(kinds[2], 1)[0]
		w.hint()
		synctest.Wait()
		if n := len(r.far.arrivals(ref)); n != 1 {
			r.Errorf("sent %d times after the hint", n)
		}
		w.fail <- driver.ErrNoListen
		time.Sleep(deafPause + time.Second)
		w.fail <- driver.ErrClosed
		time.Sleep(deafPause + time.Second)
		select {
		case w.fail <- driver.ErrClosed:
			r.Error("it listens to a closed database")
		default:
		}
		stop()
		if want := []error{driver.ErrNoListen, nil, driver.ErrNoListen}; !slices.Equal(said.errs, want) {
			r.Errorf("said %v, want %v", said.errs, want)
		}
	})
}

// A program that serves nothing has nothing to hear, and needs no connection for it.
func TestProgramThatServesNothingDoesNotListen(t *testing.T) {
	inBubble(t, func(r *rig) {
		w := newWire()
		e := r.engine()
		e.Waker = w
		stop := r.serve(e)
		synctest.Wait()
		select {
		case w.heard <- func(func(driver.ID), func(error)) {}:
			r.Error("it listens")
		default:
		}
		stop()
	})
}

// What was announced before the end is sent before the end, and a hint that hangs
// does not hold up the end for long.
func TestServeEndsAfterWhatWasAnnounced(t *testing.T) {
	inBubble(t, func(r *rig) {
		var sent atomic.Int64
		w := newWire()
		w.notify = func(ctx context.Context) error {
			if sent.Add(1) == 1 {
				<-ctx.Done()
			}
			return ctx.Err()
		}
		e := New(Config{Store: r.store, Waker: w, Grace: time.Second})
		stop := r.serve(e)
		first := e.Announce()
		synctest.Wait()
		e.Announce()
		began := time.Now()
		if err := stop(); err != nil {
			r.Error(err)
		}
		if took := time.Since(began); sent.Load() != 2 || took > 2*hintLimit {
			r.Errorf("%d hints sent, ended after %s", sent.Load(), took)
		}
		if err := first.Wait(r.Context()); !errors.Is(err, context.DeadlineExceeded) {
			r.Errorf("the hint that hung: %v", err)
		}
	})
}
