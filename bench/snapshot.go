package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign/internal/dispatch"
)

// probeEvery lies between two of the unrelated queries of P9.
const probeEvery = 5 * time.Millisecond

// probed drains work while another session reads one row of a table that has
// nothing to do with it, again and again.
type probed struct {
	work
	keep  bool // what is there stays
	url   string
	reads []time.Duration
}

func (p *probed) reset(ctx context.Context, pool *pgxpool.Pool) error {
	if p.keep {
		return nil
	}
	return p.work.reset(ctx, pool)
}

func (p *probed) drain(ctx context.Context, pool *pgxpool.Pool, n int) (took, stopping time.Duration, err error) {
	conn, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close(ctx)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- p.read(reading, conn) }()
	took, stopping, err = p.work.drain(ctx, pool, n)
	stop()
	return took, stopping, errors.Join(err, <-ended)
}

// read reads rows by their primary key until ctx ends.
func (p *probed) read(ctx context.Context, conn *pgx.Conn) error {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for i := 0; ; i++ {
		began := time.Now()
		var state string
		err := conn.QueryRow(context.WithoutCancel(ctx), "SELECT state FROM plain.ticket WHERE id = $1", i%10_000).Scan(&state)
		if err != nil {
			return err
		}
		if i > 0 { // the first prepares the statement
			p.reads = append(p.reads, time.Since(began))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// probedRun is one drain with unrelated queries beside it.
func (s *Suite) probedRun(ctx context.Context, name string, keep bool) (Sample, error) {
	p := &probed{work: work{s.Config, s.Config.Payload}, keep: keep, url: s.URL}
	sample, err := s.run(ctx, name, p, s.Config.N)
	sample.Latency = newDistribution(p.reads)
	return sample, err
}

// snapshot runs P9: all rounds without a snapshot, then all with one that is so old
// already that much of what the tables hold is dead, and must be kept.
func (s *Suite) snapshot(ctx context.Context, add func(Sample)) error {
	if _, err := s.meter.conn.Exec(ctx, plainSQL); err != nil {
		return err
	}
	rounds := func(name string, keep bool) error {
		for round := range s.Config.Runs {
			sample, err := s.probedRun(ctx, name, keep)
			if err != nil {
				return err
			}
			sample.Round = round + 1
			add(sample)
		}
		return nil
	}
	if err := rounds(WorkProbed, false); err != nil {
		return err
	}
	holder, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		return err
	}
	defer holder.Close(context.WithoutCancel(ctx)) // which ends the snapshot
	held, err := holder.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	var n int
	if err := held.QueryRow(ctx, "SELECT count(*) FROM plain.ticket").Scan(&n); err != nil {
		return err
	}
	want := time.Duration(s.Config.SnapshotAge) * time.Second
	if err := s.churn(ctx, want); err != nil {
		return err
	}
	if err := rounds(WorkSnapshot, true); err != nil {
		return err
	}
	var age time.Duration
	err = s.meter.conn.QueryRow(ctx, "SELECT clock_timestamp() - xact_start FROM pg_stat_activity WHERE pid = $1 AND backend_xmin IS NOT NULL",
		holder.PgConn().PID()).Scan(&age)
	if err == nil && age < want {
		err = fmt.Errorf("the snapshot is %v old, want %v", age, want)
	}
	return err
}

// churn enqueues and delivers work at an even pace for so long.
func (s *Suite) churn(ctx context.Context, d time.Duration) error {
	return s.inPool(ctx, func(pool *pgxpool.Pool) error {
		if err := resetConsign(ctx, pool); err != nil {
			return err
		}
		store, err := bound(pool)
		if err != nil {
			return err
		}
		const every = 100 * time.Millisecond
		each := max(1, s.Config.Churn/int(time.Second/every))
		steps := int(d / every)
		count := newCountdown(each * steps)
		engine := dispatch.New(engineConfig(store, s.Config, newAuthority().served(func() { count.add(1) })))
		enqueued := make(chan error, 1)
		go func() {
			tick := time.NewTicker(every)
			defer tick.Stop()
			for i := range steps {
				if err := insertWork(ctx, store, i*each, each, s.Config.Payload); err != nil {
					enqueued <- err
					return
				}
				<-tick.C
			}
			enqueued <- nil
		}()
		_, _, err = serve(ctx, engine.Serve, count)
		return errors.Join(err, <-enqueued)
	})
}
