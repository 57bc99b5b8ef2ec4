package consign

import (
	"context"
	"errors"
	"sync"
)

// MemoryQueue is a [Queue] inside this program: [Outbox.Scan] pushes to it, and the
// workers of [MemoryQueue.Work] visit what comes out. It holds a ref once, however
// often it is pushed while it waits. It is safe for concurrent use and runs nothing
// by itself.
//
// What it holds is gone with the program and found by the next scan, of whichever
// program that is. So something must scan from time to time: a ticker, a scheduler,
// or [Outbox.Serve], which needs no queue.
type MemoryQueue struct {
	room chan struct{} // an element for each ref that is held
	refs chan Ref      // in the order of their coming

	mu   sync.Mutex
	held map[Ref]struct{}
}

// maxQueue bounds what a queue may be asked to hold: its memory is taken at once.
const maxQueue = 1_000_000

// NewMemoryQueue returns a queue that holds up to capacity refs; a capacity below 1
// means 100, and one above 1,000,000 means that.
func NewMemoryQueue(capacity int) *MemoryQueue {
	if capacity < 1 {
		capacity = 100
	}
	capacity = min(capacity, maxQueue)
	return &MemoryQueue{room: make(chan struct{}, capacity), refs: make(chan Ref, capacity), held: map[Ref]struct{}{}}
}

// Push adds refs in their order. While the queue is full it waits for workers to
// take some out, so that a scan goes no faster than its workers; when ctx ends
// first, it returns the context's error, and what was added by then stays.
func (q *MemoryQueue) Push(ctx context.Context, refs []Ref) error {
	for _, ref := range refs {
		if err := q.push(ctx, ref); err != nil {
			return err
		}
	}
	return nil
}

func (q *MemoryQueue) push(ctx context.Context, ref Ref) error {
	if q.holds(ref) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case q.room <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, again := q.held[ref]; again { // by another scan, meanwhile
		<-q.room
		return nil
	}
	q.held[ref] = struct{}{}
	q.refs <- ref // there is room for it
	return nil
}

func (q *MemoryQueue) holds(ref Ref) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, ok := q.held[ref]
	return ok
}

// take hands out the next ref; false: ctx ended first.
func (q *MemoryQueue) take(ctx context.Context) (Ref, bool) {
	if ctx.Err() != nil {
		return Ref{}, false
	}
	select {
	case ref := <-q.refs:
		q.mu.Lock()
		delete(q.held, ref)
		q.mu.Unlock()
		<-q.room
		return ref, true
	case <-ctx.Done():
		return Ref{}, false
	}
}

// Visitor is what [MemoryQueue.Work] calls: an [Outbox].
type Visitor interface {
	Visit(ctx context.Context, ref Ref) (Result, error)
}

// Work has up to workers goroutines visit what the queue holds until ctx ends, and
// returns when all of them have ended; fewer than 1 means 1. As with any visit,
// effects that run when ctx ends are cancelled at once, and what is known of them is
// written down first: Serve is kinder to them.
//
// A visit that fails loses its ref to the next scan. Two errors are no matter of
// luck, and end Work: ErrClosed, the database is closed, and ErrSchema, its schema
// does not fit this program. Otherwise Work returns nil.
func (q *MemoryQueue) Work(ctx context.Context, v Visitor, workers int) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var group sync.WaitGroup
	var once sync.Once
	var failed error
	for range max(workers, 1) {
		group.Go(func() {
			for {
				ref, ok := q.take(ctx)
				if !ok {
					return
				}
				if _, err := v.Visit(ctx, ref); hopeless(err) {
					once.Do(func() { failed = err })
					stop()
					return
				}
			}
		})
	}
	group.Wait()
	return failed
}

// hopeless reports whether an error of the database will not go away by itself.
func hopeless(err error) bool {
	return errors.Is(err, ErrClosed) || errors.Is(err, ErrSchema)
}
