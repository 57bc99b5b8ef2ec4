package consign_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/consign-go/consign"
)

// careless is a queue that loses every third ref it is given, and passes the
// others on twice, with one from long ago.
type careless struct {
	consign.Queue
	seen []consign.Ref
}

func (c *careless) Push(ctx context.Context, refs []consign.Ref) error {
	for _, ref := range refs {
		if c.seen = append(c.seen, ref); len(c.seen)%3 == 0 {
			continue
		}
		if err := c.Queue.Push(ctx, []consign.Ref{ref, c.seen[0], ref}); err != nil {
			return err
		}
	}
	return nil
}

// Several workers deliver what scans push, each intent once, although refs are
// lost and repeated on the way. When the workers have ended nothing runs any more.
func TestMemoryQueueDeliversOnceWhateverIsLostOrRepeated(t *testing.T) {
	r := newReceiver(accept)
	onEveryStore(t, consign.Options{Channels: channels(r)}, func(t *testing.T, h *host) {
		refs := append(commitMessages(t, h, "crm", 30), commitMessages(t, h, "chat", 30)...)
		before := goleak.IgnoreCurrent()
		q := consign.NewMemoryQueue(8) // fewer than a scan finds, so that it has to wait
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- q.Work(ctx, h.outbox, 4) }()
		lossy := &careless{Queue: q}
		for end := time.Now().Add(time.Minute); h.count(t, `SELECT count(*) FROM {s}delivery WHERE status < 3`) > 0; {
			if _, err := h.outbox.Scan(t.Context(), lossy, 0); err != nil || time.Now().After(end) {
				t.Fatal("not delivered: ", err)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("work ended with %v", err)
		}
		goleak.VerifyNone(t, before)
		for _, ref := range refs {
			if n := r.times(ref); n != 1 {
				t.Errorf("%s was sent %d times", ref, n)
			}
		}
		if len(lossy.seen) < len(refs)*4/3 {
			t.Errorf("%d refs were pushed: nothing was lost and found again", len(lossy.seen))
		}
	})
}

// visitor is an outbox of which only the visits are of interest.
type visitor func(ctx context.Context, ref consign.Ref) (consign.Result, error)

func (v visitor) Visit(ctx context.Context, ref consign.Ref) (consign.Result, error) {
	return v(ctx, ref)
}

func someRefs(n int) []consign.Ref {
	refs := make([]consign.Ref, n)
	for i := range refs {
		refs[i] = consign.NewRef()
	}
	return refs
}

// A full queue has its scan wait for the workers. Refs that wait already take no
// room, and what was added before the scan gave up stays.
func TestMemoryQueueHoldsNoMoreThanItsCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, refs := consign.NewMemoryQueue(3), someRefs(5)
		for range 4 {
			if err := q.Push(t.Context(), refs[:3]); err != nil {
				t.Fatal(err)
			}
		}
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := q.Push(short, refs[3:]); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("a full queue answered %v after %s", err, time.Since(began))
		}
		pushed := make(chan error, 1)
		go func() { pushed <- q.Push(t.Context(), refs[3:]) }()
		var visited []consign.Ref
		ctx, stop := context.WithCancel(t.Context())
		if err := q.Work(ctx, visitor(func(_ context.Context, ref consign.Ref) (consign.Result, error) {
			if visited = append(visited, ref); len(visited) == len(refs) {
				stop()
			}
			return consign.Result{}, nil
		}), 0); err != nil {
			t.Error(err)
		}
		if err := <-pushed; err != nil {
			t.Error(err)
		}
		for i, ref := range refs {
			if visited[i] != ref {
				t.Errorf("visit %d is out of order", i)
			}
		}
		if err := q.Push(ctx, refs); !errors.Is(err, context.Canceled) {
			t.Errorf("pushed after the end of its context: %v", err)
		}
	})
}

// Work visits as many at once as it was told, waits for all of them at its end,
// and goes on where a visit fails.
func TestMemoryQueueWorkersEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := consign.NewMemoryQueue(0)
		if err := q.Push(t.Context(), someRefs(100)); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		running, most, visits := 0, 0, 0
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second+time.Millisecond)
		defer stop()
		err := q.Work(ctx, visitor(func(context.Context, consign.Ref) (consign.Result, error) {
			mu.Lock()
			running++
			visits++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(time.Second) // it does not heed its context
			mu.Lock()
			running--
			mu.Unlock()
			return consign.Result{}, errors.New("the database is away")
		}), 5)
		if err != nil || running != 0 || most != 5 || visits != 55 {
			t.Errorf("%v; %d still run, %d ran at once, want 5; %d visits, want 55", err, running, most, visits)
		}
	})
}

// A database that was closed, or does not fit, ends the work of all.
func TestMemoryQueueWorkEndsWhereThereIsNoHope(t *testing.T) {
	for _, hopeless := range []error{consign.ErrClosed, consign.ErrSchema} {
		synctest.Test(t, func(t *testing.T) {
			q := consign.NewMemoryQueue(10)
			if err := q.Push(t.Context(), someRefs(10)); err != nil {
				t.Fatal(err)
			}
			var visits atomic.Int32
			err := q.Work(t.Context(), visitor(func(context.Context, consign.Ref) (consign.Result, error) {
				if visits.Add(1) == 4 {
					return consign.Result{}, &consign.Error{Op: "visit", Err: hopeless}
				}
				return consign.Result{}, nil
			}), 3)
			if !errors.Is(err, hopeless) {
				t.Errorf("%v: work ended with %v", hopeless, err)
			}
		})
	}
}
