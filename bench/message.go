package bench

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/postgres"
)

const channelName = "desk"

// messages is the subject of P2, through the public API alone: a channel whose
// Deliver does nothing.
type messages struct {
	config Config
	retry  consign.RetryOwner
}

func (m messages) reset(ctx context.Context, pool *pgxpool.Pool) error {
	return resetConsign(ctx, pool)
}

// outbox makes an outbox; without settled it only enqueues.
func (m messages) outbox(pool *pgxpool.Pool, settled func()) (*consign.Outbox[pgx.Tx], error) {
	store, err := postgres.New(pool, nil)
	if err != nil {
		return nil, err
	}
	channel := consign.Channel{Name: channelName, Retry: m.retry}
	o := &consign.Options{Program: "bench", Workers: m.config.Workers}
	if settled != nil {
		channel.Deliver = func(context.Context, consign.Message, consign.Attempt) error { return nil }
		o.Observe = func(o consign.Observation) {
			if o.Event == "settle" {
				settled()
			}
		}
	}
	o.Channels = []consign.Channel{channel}
	return consign.New(store, o)
}

func (m messages) enqueue(ctx context.Context, pool *pgxpool.Pool, first, n int) error {
	outbox, err := m.outbox(pool, nil)
	if err != nil {
		return err
	}
	batch := make([]consign.Message, n)
	for i := range batch {
		batch[i] = newMessage(first+i, m.config.Payload)
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := outbox.EnqueueAll(ctx, tx, batch)
		return err
	})
}

func newMessage(n, size int) consign.Message {
	return consign.Message{Channel: channelName, To: "staff:" + strconv.Itoa(n%people), Payload: newInput(n, size)}
}

// drain counts what is settled by observing, since a channel is not told. That
// costs the engine a call for each start and each settle.
func (m messages) drain(ctx context.Context, pool *pgxpool.Pool, n int) (took, stopping time.Duration, err error) {
	count := newCountdown(n)
	outbox, err := m.outbox(pool, func() { count.add(1) })
	if err != nil {
		return 0, 0, err
	}
	return serve(ctx, outbox.Serve, count)
}

func (m messages) left(ctx context.Context, pool *pgxpool.Pool) (int, error) {
	return leftConsign(ctx, pool)
}
