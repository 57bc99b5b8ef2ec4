package dispatch

import (
	"context"
	"errors"
	"sync"
	"time"
)

// lane turns many callers' single requests into few batches without a timer.
// Whoever finds the lane free leads: it runs one batch, of its own request, then
// hands the lead to the next batch. Light load is served at once; heavy load batches
// by itself, because requests gather while the leaders are busy, and because no batch
// begins beside larger ones, unless those take long.
//
// Goroutines that assist take the lead where there are some: running a batch takes
// a deep stack, which two goroutines may well have, and thousands should not.
type lane[In, Out any] struct {
	run     func(ctx context.Context, batch []In) ([]Out, error)
	size    int // at most so many requests in one batch
	leaders int // at most so many batches at once

	mu     sync.Mutex
	active int               // leads that are taken
	called int               // of these, leads that have not taken their batch yet
	rows   int               // in the batches under way
	queue  []*group[In, Out] // in the order of their coming; the last one gathers
	spare  int               // assistants without a lead
	calls  chan struct{}     // a lead for an assistant
	full   int               // how large the last batch was
	timed  bool              // hurry will be called
}

// longestGather is how long a batch waits for larger ones to end, and a claim for
// more slots, which takes some milliseconds. What hangs must hold up nobody else.
const longestGather = 25 * time.Millisecond

// group is a batch and those who wait for it, all at one channel: to wake them one
// by one takes much longer.
type group[In, Out any] struct {
	ins   []In
	outs  []Out
	err   error
	alone bool
	began time.Time     // to gather
	done  chan struct{} // closed: answered; a value: whoever gets it leads
}

func newLane[In, Out any](size, leaders int, run func(ctx context.Context, batch []In) ([]Out, error)) *lane[In, Out] {
	return &lane[In, Out]{run: run, size: size, leaders: leaders, calls: make(chan struct{}, leaders)}
}

// errLane: a batch broke before it was answered.
var errLane = errors.New("a batch of writes was not answered")

// submit returns the answer to one request, or the error of its whole batch. It
// does not return before the batch has ended, whatever happens to ctx: a write
// must not be forgotten while it may still happen. A request that goes alone
// shares neither its batch's error with others nor theirs with them: what the
// store will never accept must not take its neighbours down for ever.
func (l *lane[In, Out]) submit(ctx context.Context, in In, alone bool) (Out, error) {
	g, place := l.enter(in, alone)
	if g.wait() {
		l.lead(ctx, g)
	}
	return g.answer(place)
}

// enter adds a request to a batch.
func (l *lane[In, Out]) enter(in In, alone bool) (g *group[In, Out], place int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g, place = l.join(in, alone)
	l.widen()
	return g, place
}

// wait returns when the batch was answered, or, leads, when its caller is to run it.
func (g *group[In, Out]) wait() (leads bool) {
	_, leads = <-g.done
	return leads
}

// answer is the one to the request at this place.
func (g *group[In, Out]) answer(place int) (out Out, err error) {
	if g.err != nil {
		return out, g.err
	}
	return g.outs[place], nil
}

// join adds a request to the batch that gathers, or begins one. The caller holds mu.
func (l *lane[In, Out]) join(in In, alone bool) (g *group[In, Out], place int) {
	if n := len(l.queue); n > 0 {
		g = l.queue[n-1]
	}
	if g == nil || alone || g.alone || len(g.ins) == l.size {
		g = &group[In, Out]{
			ins: make([]In, 0, min(l.full+1, l.size)), err: errLane, alone: alone, began: time.Now(), done: make(chan struct{}, 1),
		}
		l.queue = append(l.queue, g)
	}
	g.ins = append(g.ins, in)
	return g, len(g.ins) - 1
}

// worth reports whether the first batch of the queue may begin beside so many other
// leads: not while one is on its way to it, and not beside larger batches unless it
// has waited for long. The caller holds mu.
func (l *lane[In, Out]) worth(others int) bool {
	if len(l.queue) == 0 || l.called > 0 {
		return false
	}
	first := l.queue[0]
	if others == 0 || len(first.ins) >= l.rows {
		return true
	}
	left := longestGather - time.Since(first.began)
	if left > 0 && !l.timed {
		l.timed = true
		time.AfterFunc(left, l.hurry)
	}
	return left <= 0
}

// hurry looks again at what has waited for long.
func (l *lane[In, Out]) hurry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timed = false
	l.widen()
}

// widen takes another lead where there is one and the next batch is worth it. The
// caller holds mu.
func (l *lane[In, Out]) widen() {
	if l.active < l.leaders && l.worth(l.active) {
		l.active++
		l.hand()
	}
}

// hand gives a lead to an assistant or to the next batch. The caller holds mu.
func (l *lane[In, Out]) hand() {
	if l.spare > 0 {
		l.spare--
		l.called++
		l.calls <- struct{}{} // there is room for one from each lead
		return
	}
	l.take().done <- struct{}{}
}

// lead runs one batch, then passes the lead on, whatever happens: everybody behind
// would wait for ever.
func (l *lane[In, Out]) lead(ctx context.Context, g *group[In, Out]) {
	defer l.pass(g)
	l.serve(context.WithoutCancel(ctx), g)
}

// pass gives the lead of a batch to the next one, if it is worth it: if not, another
// lead takes it after its own.
func (l *lane[In, Out]) pass(g *group[In, Out]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows -= len(g.ins)
	if l.worth(l.active - 1) {
		l.hand()
	} else {
		l.active--
	}
}

// serve runs a batch and answers all of it.
func (l *lane[In, Out]) serve(ctx context.Context, g *group[In, Out]) {
	defer close(g.done)
	outs, err := l.run(ctx, g.ins)
	if err == nil && len(outs) != len(g.ins) {
		err = errLane
	}
	g.outs, g.err = outs, err
}

// assist lends the lane this goroutine until stop is closed.
func (l *lane[In, Out]) assist(stop <-chan struct{}) {
	l.mu.Lock()
	l.spare++
	l.mu.Unlock()
	for {
		select {
		case <-l.calls:
			l.drain()
			continue
		case <-stop:
		}
		l.mu.Lock()
		free := l.spare > 0
		if free {
			l.spare--
		}
		l.mu.Unlock()
		if free {
			return
		}
		<-l.calls // a lead is on its way to each assistant that is left
		l.drain()
	}
}

// drain runs batches while they are worth it.
func (l *lane[In, Out]) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.called--
	for l.worth(l.active - 1) {
		g := l.take()
		l.mu.Unlock()
		contain(func() error { // a batch that breaks is answered with errLane
			l.serve(context.Background(), g)
			return nil
		})
		l.mu.Lock()
		l.rows -= len(g.ins)
	}
	l.active--
	l.spare++
}

// take removes the first batch of the queue, which gathers no more. What is left may
// be worth another lead. The caller holds mu.
func (l *lane[In, Out]) take() *group[In, Out] {
	g := l.queue[0]
	rest := copy(l.queue, l.queue[1:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	l.full = len(g.ins)
	l.rows += len(g.ins)
	l.widen()
	return g
}
