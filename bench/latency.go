package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/postgres"
)

// latency is a subject of P7: how long after its commit an effect starts.
type latency struct {
	name    string
	subject string // Messages or River
	alone   bool   // it is delivered by another process
	wake    bool   // a hint follows each commit; the queue hints within the transaction
}

// latencies runs P7 once.
func (s *Suite) latencies(ctx context.Context, add func(Sample)) error {
	for _, l := range []latency{
		{RiverLatency, River, true, false},
		{LatencyWoken, Messages, false, true},
		{LatencyNotified, Messages, true, true},
		{LatencyPolled, Messages, true, false},
	} {
		sample, err := s.latency(ctx, l)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		add(sample)
	}
	return nil
}

// starts notes when each of n effects started, by the clock of the machine, which
// is the same in all its processes.
type starts struct {
	at    []atomic.Int64 // nanoseconds since 1970; 0: not yet
	count *countdown
}

func newStarts(n int) *starts {
	return &starts{at: make([]atomic.Int64, n), count: newCountdown(n)}
}

func (s *starts) note(n int, at time.Time) {
	if n < len(s.at) && s.at[n].CompareAndSwap(0, at.UnixNano()) {
		s.count.add(1)
	}
}

// all waits for all of them.
func (s *starts) all(ctx context.Context) ([]int64, error) {
	err := s.count.wait(ctx)
	out := make([]int64, len(s.at))
	for i := range s.at {
		out[i] = s.at[i].Load()
	}
	return out, err
}

// prompt is one program of P7, with the defaults that its library gives it.
type prompt struct {
	note  note                            // enqueues, inside a transaction
	hint  func(ctx context.Context) error // says that something was committed
	serve func(ctx context.Context) error // delivers until ctx ends
	heard chan struct{}                   // closed once hints are heard
}

// newPrompt makes a program; without starts it only enqueues.
func newPrompt(pool *pgxpool.Pool, subject string, c Config, starts *starts) (*prompt, error) {
	if subject == River {
		return promptRiver(pool, c, starts)
	}
	store, err := postgres.New(pool, nil)
	if err != nil {
		return nil, err
	}
	p := &prompt{heard: make(chan struct{})}
	channel, o := consign.Channel{Name: channelName}, &consign.Options{Program: "bench"}
	if starts != nil {
		channel.Deliver = func(_ context.Context, _ consign.Message, a consign.Attempt) error {
			at := time.Now()
			var in input
			err := json.Unmarshal(a.Request, &in)
			if err == nil {
				starts.note(in.N, at)
			}
			return err
		}
		hears := sync.OnceFunc(func() { close(p.heard) })
		o.Observe = func(o consign.Observation) {
			if o.Event == "listen" && o.Err == nil {
				hears()
			}
		}
	}
	o.Channels = []consign.Channel{channel}
	outbox, err := consign.New(store, o)
	if err != nil {
		return nil, err
	}
	p.serve, p.hint = outbox.Serve, outbox.Wake
	p.note = func(ctx context.Context, tx pgx.Tx, n int) error {
		_, err := outbox.Enqueue(ctx, tx, newMessage(n, c.Payload))
		return err
	}
	return p, nil
}

// promptRiver is the queue in its fast setting. It hints within the transaction.
func promptRiver(pool *pgxpool.Pool, c Config, starts *starts) (*prompt, error) {
	worker := &riverWorker{}
	if starts != nil {
		worker.started = starts.note
	}
	client, err := newRiver[pgx.Tx](riverpgxv5.New(pool), worker, c.Workers)
	p := &prompt{heard: make(chan struct{}), hint: func(context.Context) error { return nil }}
	p.note = func(ctx context.Context, tx pgx.Tx, n int) error {
		_, err := client.InsertTx(ctx, tx, riverJob{Num: n}, nil)
		return err
	}
	p.serve = func(ctx context.Context) error {
		if err := client.Start(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		close(p.heard)
		<-ctx.Done()
		return client.Stop(context.WithoutCancel(ctx))
	}
	return p, err
}

// startsAlone delivers in this process what another enqueues: it tells when it is
// ready, and then when each effect started.
func startsAlone(ctx context.Context, t *task, parent *parent) error {
	s, starts := Suite{Config: t.Config, URL: t.URL}, newStarts(t.N)
	return s.inPool(ctx, func(pool *pgxpool.Pool) error {
		p, err := newPrompt(pool, t.Subject, t.Config, starts)
		if err != nil {
			return err
		}
		at, err := starts.while(ctx, p, func() error { return parent.tell(true) })
		if err != nil {
			return err
		}
		return parent.tell(at)
	})
}

// while has p deliver, calls ready once it hears hints, and returns when all effects
// have started and p has ended.
func (s *starts) while(ctx context.Context, p *prompt, ready func() error) ([]int64, error) {
	serving, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- p.serve(serving)
		stop()
	}()
	var at []int64
	var err error
	select {
	case <-p.heard:
		if err = ready(); err == nil {
			at, err = s.all(serving)
		}
	case <-serving.Done():
		err = serving.Err()
	}
	stop()
	return at, errors.Join(err, <-ended)
}

// latency runs P7 once for one subject: intents are committed one by one at times
// that do not depend on what becomes of them.
func (s *Suite) latency(ctx context.Context, l latency) (Sample, error) {
	warm := s.Config.Rate // the first second is not counted: statements are prepared in it
	total := warm + s.Config.Paced
	out := Sample{Subject: l.name, N: s.Config.Paced}
	sub := drains(s.Config)[l.subject]
	// The domain's transactions have a pool of their own: what is measured is how
	// soon the engine learns of an intent, not how long it waits for a connection.
	err := s.inPools(ctx, func(domain, pool *pgxpool.Pool) error {
		if err := sub.reset(ctx, pool); err != nil {
			return err
		}
		var here *starts
		if !l.alone {
			here = newStarts(total)
		}
		p, err := newPrompt(pool, l.subject, s.Config, here)
		if err != nil {
			return err
		}
		stop, err := s.trace(ctx, l.name)
		if err != nil {
			return err
		}
		var committed, started []int64
		paced := func() (err error) {
			committed, err = pace(ctx, s.Config.Rate, total, func(ctx context.Context, n int) (time.Time, error) {
				err := pgx.BeginFunc(ctx, domain, func(tx pgx.Tx) error { return p.note(ctx, tx, n) })
				at := time.Now()
				if err == nil && l.wake {
					_ = p.hint(ctx) // one that could not be sent leaves it to polling, and is measured like that
				}
				return at, err
			})
			return err
		}
		if l.alone {
			started, err = s.startsElsewhere(ctx, l.subject, total, paced)
		} else {
			started, err = here.while(ctx, p, paced)
		}
		if err := errors.Join(err, stop()); err != nil {
			return err
		}
		took := make([]time.Duration, 0, total-warm)
		for i := warm; i < total; i++ {
			// A look that was under way may find an intent before its commit has returned.
			took = append(took, time.Duration(max(0, started[i]-committed[i])))
		}
		out.Latency = newDistribution(took)
		out.PerSec = float64(total-warm) / time.Duration(slices.Max(committed[warm:])-committed[warm]).Seconds()
		return complete(ctx, pool, sub, total)
	})
	return out, err
}

// startsElsewhere is starts.while in another process.
func (s *Suite) startsElsewhere(ctx context.Context, subject string, n int, ready func() error) (at []int64, err error) {
	p, err := s.start(ctx, task{Role: "starts", Subject: subject, N: n})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	var serving bool
	if err := p.hear(&serving); err != nil {
		return nil, err
	}
	if err := ready(); err != nil {
		return nil, err
	}
	return at, p.hear(&at)
}

// pace calls commit n times, at random times that come rate times a second on
// average and wait for nothing: what is slow delays nobody else, and is counted in
// full. It returns when each had committed.
func pace(ctx context.Context, rate, n int, commit func(ctx context.Context, n int) (time.Time, error)) ([]int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	at := make([]int64, n)
	random := rand.New(rand.NewPCG(7, uint64(n)))
	var wg sync.WaitGroup
	next := time.Now()
	for i := range n {
		next = next.Add(time.Duration(random.ExpFloat64() / float64(rate) * float64(time.Second)))
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(next)):
		}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			done, err := commit(ctx, i)
			if at[i] = done.UnixNano(); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return at, context.Cause(ctx)
}
