package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/operator"
	"github.com/consign-go/consign/postgres"
)

// backlogPoints: ten times as much each time.
func backlogPoints(c Config) (points []point) {
	for n := min(10_000, c.Backlog); n <= c.Backlog; n *= 10 {
		points = append(points, point{float64(n), c, n, work{c, c.Payload}})
	}
	return points
}

// payloadPoints: from 100 bytes to 16 kB, which is about what a channel takes by
// default.
func payloadPoints(c Config) (points []point) {
	for _, size := range []int{100, 400, 1_600, 4_000, 8_000, 16_000} {
		c := c
		c.InsertBatch = min(c.InsertBatch, 8_000_000/size)
		l := newLoad(c)
		l.payload = size
		points = append(points, point{float64(size), c, c.Growth, l})
	}
	return points
}

// workerPoints: with few of them there are fewer messages, since each waits for
// the disk.
func workerPoints(c Config) (points []point) {
	for workers := 1; workers <= 4096; workers *= 4 {
		c := c
		c.Workers = workers
		points = append(points, point{float64(workers), c, min(c.Growth, 2000*workers), newLoad(c)})
	}
	return points
}

// kindPoints: the same number of messages, on more and more channels.
func kindPoints(c Config) (points []point) {
	for kinds := 1; kinds <= 1000; kinds *= 10 {
		l := newLoad(c)
		l.channels = nil
		for i := range kinds {
			l.channels = append(l.channels, channelName+"-"+strconv.Itoa(i))
		}
		points = append(points, point{float64(kinds), c, c.Growth, l})
	}
	return points
}

// orderPoints: the same number of messages, in many short tasks and in few long
// ones. The messages of all tasks come in turn.
func orderPoints(c Config) (points []point) {
	for length := 1; length <= c.Growth; length *= 10 {
		l := newLoad(c)
		tasks := c.Growth / length
		l.place = func(n int, m *consign.Message) {
			m.Task, m.Index = "task-"+strconv.Itoa(n%tasks), n/tasks
		}
		points = append(points, point{float64(length), c, c.Growth, l})
	}
	return points
}

// refused is what a receiver says that is not ready.
var refused = consign.Refused(errors.New("not now"), 0)

// retryPoints: each attempt is refused by chance, and due again at once.
func retryPoints(c Config) (points []point) {
	for _, percent := range []int{0, 10, 25, 50} {
		l := newLoad(c)
		l.each = true
		l.deliver = func(context.Context, consign.Message, consign.Attempt) error {
			if rand.IntN(100) < percent {
				return refused
			}
			return nil
		}
		points = append(points, point{float64(percent), c, c.Growth, l})
	}
	return points
}

// attemptPoints: the same number of attempts, and nearly all of them logged, for
// fewer and fewer messages.
func attemptPoints(c Config) (points []point) {
	for _, attempts := range []int{1, 3, 10, 30, 100} {
		l := newLoad(c)
		l.each = true
		l.deliver = func(_ context.Context, _ consign.Message, a consign.Attempt) error {
			if a.Number < attempts {
				return refused
			}
			return nil
		}
		points = append(points, point{float64(attempts), c, max(1, c.Growth/attempts), l})
	}
	return points
}

// retentionPoints: a drain while retention removes what an earlier one has left.
func retentionPoints(c Config) (points []point) {
	for _, sessions := range []int{0, 1, 2} {
		l := newLoad(c)
		var boundary time.Time
		l.before = func(ctx context.Context, pool *pgxpool.Pool) (err error) {
			boundary, err = ended(ctx, pool, c, 3*c.Growth)
			return err
		}
		l.beside = func(ctx context.Context, pool *pgxpool.Pool) int64 { return prune(ctx, pool, sessions, boundary) }
		points = append(points, point{float64(sessions), c, c.Growth, l})
	}
	return points
}

// ended leaves n delivered messages behind, and returns a time after them.
func ended(ctx context.Context, pool *pgxpool.Pool, c Config, n int) (after time.Time, err error) {
	old := newLoad(c)
	old.limit = time.Hour
	if err := enqueueAll(ctx, pool, subject[*pgxpool.Pool](old), n, c.Inserters, c.InsertBatch); err != nil {
		return after, err
	}
	if _, _, err := old.drain(ctx, pool, n); err != nil {
		return after, fmt.Errorf("what retention is to remove: %w", err)
	}
	err = pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&after)
	return after, err
}

// prune has so many sessions remove what was created before a time, until nothing is
// left or ctx ends, and returns how much was removed.
func prune(ctx context.Context, pool *pgxpool.Pool, sessions int, before time.Time) int64 {
	var removed atomic.Int64
	var wg sync.WaitGroup
	for range sessions {
		wg.Go(func() {
			store, err := postgres.New(pool, nil)
			if err != nil {
				return
			}
			o, err := operator.New(store)
			if err != nil {
				return
			}
			// It ends with an error where the drain is over first.
			n, _ := o.Prune(ctx, operator.By{Who: "bench", Why: "retention under load"}, consign.ProfileMessage, before)
			removed.Add(int64(n))
		})
	}
	wg.Wait()
	return removed.Load()
}
