package bench

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The tables of P6: a domain row to change, and what a program without Consign
// would write beside it.
const plainSQL = `
CREATE SCHEMA IF NOT EXISTS plain;
CREATE TABLE IF NOT EXISTS plain.ticket (id integer PRIMARY KEY, state text NOT NULL, version integer NOT NULL) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS plain.outbox (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT now(),
    recipient  text NOT NULL,
    payload    text NOT NULL
);
TRUNCATE plain.ticket, plain.outbox;
INSERT INTO plain.ticket SELECT n, 'open', 1 FROM generate_series(0, 9999) n`

// note writes the intent of call number n inside tx.
type note func(ctx context.Context, tx pgx.Tx, n int) error

// plainNote is one plain INSERT.
func (s *Suite) plainNote() note {
	return func(ctx context.Context, tx pgx.Tx, n int) error {
		m := newMessage(n, s.Config.Payload)
		payload, err := json.Marshal(m.Payload)
		if err == nil {
			_, err = tx.Exec(ctx, "INSERT INTO plain.outbox (recipient, payload) VALUES ($1, $2)", m.To, payload)
		}
		return err
	}
}

// consignNote is one Enqueue.
func (s *Suite) consignNote(pool *pgxpool.Pool) (note, error) {
	outbox, err := messages{config: s.Config}.outbox(pool, nil)
	return func(ctx context.Context, tx pgx.Tx, n int) error {
		_, err := outbox.Enqueue(ctx, tx, newMessage(n, s.Config.Payload))
		return err
	}, err
}

// transactions runs one block of transactions that change a ticket and note an
// intent, from so many clients at once.
func (s *Suite) transactions(ctx context.Context, name string, clients int, n note, pool *pgxpool.Pool) (Sample, error) {
	out := Sample{Subject: name, N: s.Config.Calls}
	before, err := s.meter.read(ctx)
	if err != nil {
		return out, err
	}
	var mu sync.Mutex
	var took []float64
	var failed error
	var wg sync.WaitGroup
	share := s.Config.Calls / clients
	for c := range clients {
		wg.Go(func() {
			mine, err := transact(ctx, pool, n, c*share, share)
			mu.Lock()
			defer mu.Unlock()
			if took = append(took, mine...); failed == nil {
				failed = err
			}
		})
	}
	wg.Wait()
	if failed != nil {
		return out, failed
	}
	after, err := s.meter.read(ctx)
	if err != nil {
		return out, err
	}
	out.Enqueue = after.since(before)
	out.PerSec = float64(len(took)) / out.Enqueue.Seconds
	slices.Sort(took)
	out.Median = took[len(took)/2]
	return out, nil
}

// transact runs n transactions one after another and returns the milliseconds
// that each took.
func transact(ctx context.Context, pool *pgxpool.Pool, note note, first, n int) ([]float64, error) {
	took := make([]float64, 0, n)
	for i := first; i < first+n; i++ {
		began := time.Now()
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE plain.ticket SET state = 'closed', version = version + 1 WHERE id = $1", i%10_000)
			if err != nil {
				return err
			}
			return note(ctx, tx, i)
		})
		if err != nil {
			return took, err
		}
		took = append(took, float64(time.Since(began).Microseconds())/1000)
	}
	return took, nil
}

// enqueueing runs P6 once: plain and Consign in turn, from one client and from as
// many as there are connections.
func (s *Suite) enqueueing(ctx context.Context, add func(Sample)) error {
	return s.inPool(ctx, func(pool *pgxpool.Pool) error {
		if err := resetConsign(ctx, pool); err != nil {
			return err
		}
		if _, err := pool.Exec(ctx, plainSQL); err != nil {
			return err
		}
		ours, err := s.consignNote(pool)
		if err != nil {
			return err
		}
		for _, clients := range []int{1, s.Config.Pool} {
			suffix := ""
			if clients > 1 {
				suffix = manyClients
			}
			// The first block of each prepares its statements on every connection.
			warm := *s
			warm.Config.Calls = 20 * clients
			for _, block := range []struct {
				name string
				note note
			}{{PlainRow, s.plainNote()}, {ConsignRow, ours}} {
				if _, err := warm.transactions(ctx, block.name, clients, block.note, pool); err != nil {
					return err
				}
				sample, err := s.transactions(ctx, block.name+suffix, clients, block.note, pool)
				if err != nil {
					return err
				}
				add(sample)
			}
		}
		return nil
	})
}
