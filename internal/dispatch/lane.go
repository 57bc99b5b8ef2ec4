package dispatch

import (
	"context"
	"errors"
	"sync"
)

// lane turns many callers' single requests into few batches without a timer and
// without a goroutine of its own. Whoever finds the lane free leads: it runs one
// batch of its own request and whatever waits, then hands the lead to the next in
// line. Light load is served at once; heavy load batches by itself, because
// requests gather while the leaders are busy.
type lane[In, Out any] struct {
	run     func(ctx context.Context, batch []In) ([]Out, error)
	size    int // at most so many requests in one batch
	leaders int // at most so many batches at once

	mu     sync.Mutex
	active int                 // leaders at work; the queue is empty unless all are
	queue  []*waiting[In, Out] // in the order of their coming

	used sync.Pool // of *waiting, for the next requests
}

// waiting is one caller's request.
type waiting[In, Out any] struct {
	in     In
	out    Out
	err    error
	alone  bool
	signal chan bool // true: answered; false: lead
}

// errLane: the store panicked, or did not answer every request of a batch.
var errLane = errors.New("a batch of writes was not answered")

// submit returns the answer to one request, or the error of its whole batch. It
// does not return before the batch has ended, whatever happens to ctx: a write
// must not be forgotten while it may still happen. A request that goes alone
// shares neither its batch's error with others nor theirs with them: what the
// store will never accept must not take its neighbours down for ever.
func (l *lane[In, Out]) submit(ctx context.Context, in In, alone bool) (out Out, err error) {
	w, _ := l.used.Get().(*waiting[In, Out])
	if w == nil {
		w = &waiting[In, Out]{signal: make(chan bool, 1)}
	}
	w.in, w.err, w.alone = in, errLane, alone
	l.mu.Lock()
	leads := l.active < l.leaders
	if leads {
		l.active++
	} else {
		l.queue = append(l.queue, w)
	}
	l.mu.Unlock()
	if leads || !<-w.signal {
		l.lead(ctx, w)
	}
	out, err = w.out, w.err
	*w = waiting[In, Out]{signal: w.signal}
	l.used.Put(w)
	return out, err
}

// lead runs one batch with own in it, then passes the lead on, whatever happens:
// everybody behind would wait for ever.
func (l *lane[In, Out]) lead(ctx context.Context, own *waiting[In, Out]) {
	batch := l.take(own)
	defer l.pass()
	defer func() {
		for _, w := range batch {
			if w != own {
				w.signal <- true
			}
		}
	}()
	ins := make([]In, len(batch))
	for i, w := range batch {
		ins[i] = w.in
	}
	outs, err := l.run(context.WithoutCancel(ctx), ins)
	if err == nil && len(outs) != len(ins) {
		err = errLane
	}
	for i, w := range batch {
		if err == nil {
			w.out = outs[i]
		}
		w.err = err
	}
}

// take returns own and what waits, up to the size of a batch and up to somebody
// who goes alone.
func (l *lane[In, Out]) take(own *waiting[In, Out]) []*waiting[In, Out] {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for !own.alone && n < min(len(l.queue), l.size-1) && !l.queue[n].alone {
		n++
	}
	batch := make([]*waiting[In, Out], 1, n+1)
	batch[0] = own
	batch = append(batch, l.queue[:n]...)
	l.drop(n)
	return batch
}

// pass gives the lead to the next in line, if there is one.
func (l *lane[In, Out]) pass() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		l.active--
		return
	}
	next := l.queue[0]
	l.drop(1)
	next.signal <- false
}

// drop removes the first n of the queue and keeps its memory.
func (l *lane[In, Out]) drop(n int) {
	rest := copy(l.queue, l.queue[n:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
}
