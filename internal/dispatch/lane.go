package dispatch

import (
	"context"
	"errors"
	"sync"
)

// lane turns many callers' single requests into few batches without a timer.
// Whoever finds the lane free leads: it runs one batch of its own request and
// whatever waits, then hands the lead to the next in line. Light load is served at
// once; heavy load batches by itself, because requests gather while the leaders
// are busy, and because no batch begins beside one that is larger.
//
// Goroutines that assist take the lead where there are some: running a batch takes
// a deep stack, which two goroutines may well have, and thousands should not.
type lane[In, Out any] struct {
	run     func(ctx context.Context, batch []In) ([]Out, error)
	size    int // at most so many requests in one batch
	leaders int // at most so many batches at once

	mu     sync.Mutex
	active int                 // leads that are taken
	called int                 // of these, leads that have not taken their batch yet
	rows   int                 // in the batches under way
	queue  []*waiting[In, Out] // in the order of their coming
	spare  int                 // assistants without a lead
	calls  chan struct{}       // a lead for an assistant
}

// waiting is one caller's request.
type waiting[In, Out any] struct {
	in     In
	out    Out
	err    error
	alone  bool
	signal chan bool // true: answered; false: lead
}

func newLane[In, Out any](size, leaders int, run func(ctx context.Context, batch []In) ([]Out, error)) *lane[In, Out] {
	return &lane[In, Out]{run: run, size: size, leaders: leaders, calls: make(chan struct{}, leaders)}
}

func newWaiting[In, Out any]() *waiting[In, Out] {
	return &waiting[In, Out]{signal: make(chan bool, 1)}
}

// errLane: a batch broke before it was answered.
var errLane = errors.New("a batch of writes was not answered")

// submit returns the answer to one request, or the error of its whole batch. It
// does not return before the batch has ended, whatever happens to ctx: a write
// must not be forgotten while it may still happen. A request that goes alone
// shares neither its batch's error with others nor theirs with them: what the
// store will never accept must not take its neighbours down for ever. w is the
// caller's own, to be used again.
func (l *lane[In, Out]) submit(ctx context.Context, w *waiting[In, Out], in In, alone bool) (Out, error) {
	w.in, w.err, w.alone = in, errLane, alone
	l.mu.Lock()
	leads := false
	if l.active == l.leaders || !l.worth(l.active, len(l.queue)+1) {
		l.queue = append(l.queue, w)
	} else if l.active++; l.spare > 0 {
		l.queue = append(l.queue, w)
		l.hand()
	} else {
		l.called++
		leads = true
	}
	l.mu.Unlock()
	if leads || !<-w.signal {
		l.lead(ctx, w)
	}
	return w.out, w.err
}

// worth reports whether n requests are enough for a batch beside so many other
// leads. One that has not taken its batch yet will take them. The caller holds mu.
func (l *lane[In, Out]) worth(others, n int) bool {
	return n > 0 && l.called == 0 && (others == 0 || n >= l.rows)
}

// hand gives a lead to an assistant or to the next in line. The caller holds mu, and
// somebody waits.
func (l *lane[In, Out]) hand() {
	l.called++
	if l.spare > 0 {
		l.spare--
		l.calls <- struct{}{} // there is room for one from each lead
		return
	}
	next := l.queue[0]
	l.drop(1)
	next.signal <- false
}

// lead runs one batch with own in it, then passes the lead on, whatever happens:
// everybody behind would wait for ever.
func (l *lane[In, Out]) lead(ctx context.Context, own *waiting[In, Out]) {
	l.mu.Lock()
	l.called--
	batch := l.take(own)
	l.mu.Unlock()
	defer l.pass(len(batch))
	l.serve(context.WithoutCancel(ctx), batch, own)
}

// pass gives the lead of a batch of n to an assistant or to the next in line, if
// there is one. What waits for a larger batch is served after it.
func (l *lane[In, Out]) pass(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows -= n
	if l.worth(l.active-1, len(l.queue)) {
		l.hand()
	} else {
		l.active--
	}
}

// serve runs a batch and answers all of it but own.
func (l *lane[In, Out]) serve(ctx context.Context, batch []*waiting[In, Out], own *waiting[In, Out]) {
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
	outs, err := l.run(ctx, ins)
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

// drain runs batches until nothing waits, or only what is served after a larger one.
func (l *lane[In, Out]) drain() {
	l.mu.Lock()
	l.called--
	for l.worth(l.active-1, len(l.queue)) {
		batch := l.take(nil)
		l.mu.Unlock()
		contain(func() error { // a batch that breaks is answered with errLane
			l.serve(context.Background(), batch, nil)
			return nil
		})
		l.mu.Lock()
		l.rows -= len(batch)
	}
	l.active--
	l.spare++
	l.mu.Unlock()
}

// take returns own and what waits, up to the size of a batch and up to somebody
// who goes alone; where enough is left, another lead begins. The caller holds mu.
func (l *lane[In, Out]) take(own *waiting[In, Out]) []*waiting[In, Out] {
	var batch []*waiting[In, Out]
	if own != nil {
		batch = append(batch, own)
	} else {
		batch = append(batch, l.queue[0])
		l.drop(1)
	}
	n := 0
	for !batch[0].alone && n < min(len(l.queue), l.size-1) && !l.queue[n].alone {
		n++
	}
	batch = append(batch, l.queue[:n]...)
	l.drop(n)
	l.rows += len(batch)
	if l.active < l.leaders && l.worth(l.active, len(l.queue)) {
		l.active++
		l.hand()
	}
	return batch
}

// drop removes the first n of the queue and keeps its memory.
func (l *lane[In, Out]) drop(n int) {
	rest := copy(l.queue, l.queue[n:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
}
