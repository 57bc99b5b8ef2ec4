package bench

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/postgres"
)

// load is the subject of the growth curves: messages on a schedule, through the
// public API, of which one thing at a time is made larger.
type load struct {
	config   Config
	channels []string
	payload  int
	limit    time.Duration                                                 // of a drain, which may then be partial
	place    func(n int, m *consign.Message)                               // puts message n somewhere; nil: nowhere
	deliver  func(context.Context, consign.Message, consign.Attempt) error // nil: does nothing
	each     bool                                                          // counts attempts, not messages
	before   func(ctx context.Context, pool *pgxpool.Pool) error           // once the tables are empty
	beside   func(ctx context.Context, pool *pgxpool.Pool) (removed int64) // runs until ctx ends

	// what a drain found out
	done, removed int64
	undone        int64 // when its time was over
}

// newLoad is a load with nothing large about it.
func newLoad(c Config) *load {
	return &load{config: c, channels: []string{channelName}, payload: c.Payload, limit: time.Duration(c.PointSeconds) * time.Second}
}

func (l *load) reset(ctx context.Context, pool *pgxpool.Pool) error {
	err := resetConsign(ctx, pool)
	if err == nil && l.before != nil {
		err = l.before(ctx, pool)
	}
	return err
}

// outbox makes an outbox; without observe it only enqueues.
func (l *load) outbox(pool *pgxpool.Pool, observe func(consign.Observation)) (*consign.Outbox[pgx.Tx], error) {
	store, err := postgres.New(pool, nil)
	if err != nil {
		return nil, err
	}
	o := &consign.Options{Program: "bench", Workers: l.config.Workers, Observe: observe}
	for _, name := range l.channels {
		c := consign.Channel{Name: name, Retry: consign.OnSchedule, MaxAttempts: 1000, Waits: []time.Duration{0}}
		if observe != nil {
			c.Deliver = func(context.Context, consign.Message, consign.Attempt) error { return nil }
			if l.deliver != nil {
				c.Deliver = l.deliver
			}
		}
		o.Channels = append(o.Channels, c)
	}
	return consign.New(store, o)
}

func (l *load) enqueue(ctx context.Context, pool *pgxpool.Pool, first, n int) error {
	outbox, err := l.outbox(pool, nil)
	if err != nil {
		return err
	}
	batch := make([]consign.Message, n)
	for i := range batch {
		batch[i] = newMessage(first+i, l.payload)
		batch[i].Channel = l.channels[(first+i)%len(l.channels)]
		if l.place != nil {
			l.place(first+i, &batch[i])
		}
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := outbox.EnqueueAll(ctx, tx, batch)
		return err
	})
}

// drain ends when all is delivered or the time is over.
func (l *load) drain(ctx context.Context, pool *pgxpool.Pool, n int) (took, stopping time.Duration, err error) {
	count := newCountdown(n)
	var attempts atomic.Int64
	outbox, err := l.outbox(pool, func(o consign.Observation) {
		switch {
		case o.Event == "settle" && o.Status == consign.StatusDelivered:
			count.add(1)
			attempts.Add(1)
		case o.Event == "settle":
			attempts.Add(1)
		}
	})
	if err != nil {
		return 0, 0, err
	}
	clock := time.AfterFunc(l.limit, func() {
		l.undone = count.left.Load()
		count.cut()
	})
	defer clock.Stop()
	besides, stop := context.WithCancel(ctx)
	defer stop()
	removed := make(chan int64, 1)
	if l.beside != nil {
		go func() { removed <- l.beside(besides, pool) }()
	}
	took, stopping, err = serve(ctx, outbox.Serve, count)
	stop()
	if l.beside != nil {
		l.removed = <-removed
	}
	l.done = int64(n) - l.undone
	if l.each {
		l.done = attempts.Load()
	}
	return took, stopping, err
}

// left counts what is not completed, beyond what there was no time for.
func (l *load) left(ctx context.Context, pool *pgxpool.Pool) (int, error) {
	n, err := leftConsign(ctx, pool)
	return max(0, n-int(l.undone)), err
}
