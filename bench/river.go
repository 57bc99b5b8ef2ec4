package bench

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverJob is the argument of the queue's own benchmark, its value included: the
// same in every job, which is the least that its index over arguments can cost.
type riverJob struct {
	Num int `json:"num"`
}

// Kind names the job.
func (riverJob) Kind() string { return "benchmark" }

// riverWorker does nothing, and notes when the first job was worked.
type riverWorker struct {
	river.WorkerDefaults[riverJob]
	first   atomic.Pointer[time.Time]
	started func(n int, at time.Time) // of P7; may be nil
}

// Work does nothing.
func (w *riverWorker) Work(_ context.Context, job *river.Job[riverJob]) error {
	if w.started != nil {
		w.started(job.Args.Num, time.Now())
	}
	if w.first.Load() == nil {
		now := time.Now()
		w.first.CompareAndSwap(nil, &now)
	}
	return nil
}

// riverQueue is the job queue River in the setting of its own benchmark's
// burn-down: the sizes there were chosen by its authors for most jobs a second.
type riverQueue struct{ config Config }

// newRiver makes a client.
func newRiver[TX any](d riverdriver.Driver[TX], w *riverWorker, workers int) (*river.Client[TX], error) {
	all := river.NewWorkers()
	river.AddWorker(all, w)
	return river.NewClient(d, &river.Config{
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond,
		Logger:            slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
		Workers:           all,
	})
}

func (q riverQueue) reset(ctx context.Context, pool *pgxpool.Pool) error {
	if err := migrateRiver[pgx.Tx](ctx, riverpgxv5.New(pool)); err != nil {
		return err
	}
	_, err := pool.Exec(ctx, "TRUNCATE river_job")
	return err
}

func migrateRiver[TX any](ctx context.Context, d riverdriver.Driver[TX]) error {
	m, err := rivermigrate.New(d, &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	return err
}

func (q riverQueue) enqueue(ctx context.Context, pool *pgxpool.Pool, _, n int) error {
	return insertRiver[pgx.Tx](ctx, riverpgxv5.New(pool), n)
}

// insertRiver inserts n jobs in one transaction, by the fast way.
func insertRiver[TX any](ctx context.Context, d riverdriver.Driver[TX], n int) error {
	client, err := newRiver(d, &riverWorker{}, 1)
	if err != nil {
		return err
	}
	batch := make([]river.InsertManyParams, n)
	for i := range batch {
		batch[i].Args = riverJob{}
	}
	_, err = client.InsertManyFast(ctx, batch)
	return err
}

func (q riverQueue) drain(ctx context.Context, pool *pgxpool.Pool, n int) (took, stopping time.Duration, err error) {
	return drainRiver[pgx.Tx](ctx, riverpgxv5.New(pool), q.config.Workers, n)
}

// drainRiver works n jobs off. Its clock runs from the first job worked to the
// last event of a completion, which comes after the completion is durable.
func drainRiver[TX any](ctx context.Context, d riverdriver.Driver[TX], workers, n int) (took, stopping time.Duration, err error) {
	w, count := &riverWorker{}, newCountdown(n)
	client, err := newRiver(d, w, workers)
	if err != nil {
		return 0, 0, err
	}
	events, cancel := client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: n, // an event that finds no room is dropped
		Kinds:    []river.EventKind{river.EventKindJobCompleted},
	})
	defer cancel()
	go func() {
		for range events {
			count.add(1)
		}
	}()
	if err := client.Start(ctx); err != nil {
		return 0, 0, err
	}
	err = count.wait(ctx)
	ended := time.Now()
	if stopped := client.Stop(context.WithoutCancel(ctx)); err == nil {
		err = stopped
	}
	if err != nil {
		return 0, 0, err
	}
	return ended.Sub(*w.first.Load()), time.Since(ended), nil
}

func (q riverQueue) left(ctx context.Context, pool *pgxpool.Pool) (n int, err error) {
	err = pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state <> 'completed'").Scan(&n)
	return n, err
}
