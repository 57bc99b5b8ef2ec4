package dispatch

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Served is a kind of work or a channel that this program delivers.
type Served struct {
	Profile     lifecycle.Profile
	Kind        string
	Version     string   // of work
	Fingerprint [32]byte // of work
	Upgrades    []string // older versions of work that it can deliver as well
	Contract    lifecycle.Contract
	Schedule    Schedule
	Rejections  int // on the schedule: so many rejections of one delivery are tried again

	// Deliver prepares one delivery and calls t.Effect once. An error before the
	// effect leaves it undecided, unless it is a *Stop. Its context ends with the
	// grace period, and for work, which is prepared, ahead of the lease; that of the
	// effect always does.
	Deliver func(ctx context.Context, t *Task) error
}

// Config is what an engine is made of.
type Config struct {
	Store    driver.Driver
	Registry driver.Registry // nil: nothing is registered, and nothing unserved is stopped
	Waker    driver.Waker    // nil: other programs are neither hinted nor heard
	Pauses   driver.Pauses   // nil: nothing is ever paused
	Served   []*Served
	Policy   lifecycle.Policy  // zero: lifecycle.DefaultPolicy
	Program  string            // for people; at most 128 bytes
	Workers  int               // deliveries in hand at once. Default: 64
	Batch    int               // rows in one write or claim. Default: 1,000
	Lanes    int               // writes at once. Default: 2
	Grace    time.Duration     // for effects that run when the engine stops. Default: 20 s
	Poll     time.Duration     // longest time between two looks at the database, see longestPause. Default: 1 s
	Sweep    time.Duration     // time between two sweeps. Default: 5 s
	Unserved time.Duration     // how long an unserved intent waits for a program. Default: 15 min
	Observe  func(Observation) // called from many goroutines; must not block
	Safety   time.Duration     // an effect ends this long before its lease. Default: half the settle margin
	Patience time.Duration     // for one write, longer than any lock wait of the store. Default: the settle margin
}

// filled returns the configuration with its defaults.
func (c Config) filled() Config {
	fill := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if c.Policy == (lifecycle.Policy{}) {
		c.Policy = lifecycle.DefaultPolicy
	}
	for n, v := range map[*int]int{&c.Workers: 64, &c.Batch: 1000, &c.Lanes: 2} {
		if *n == 0 {
			*n = v
		}
	}
	fill(&c.Grace, 20*time.Second)
	fill(&c.Poll, time.Second)
	fill(&c.Sweep, 5*time.Second)
	fill(&c.Unserved, 15*time.Minute)
	fill(&c.Safety, c.Policy.SettleMargin/2)
	fill(&c.Patience, c.Policy.SettleMargin)
	return c
}

// Engine drives deliveries of one store.
type Engine struct {
	Config

	id    driver.ID     // of this program's entry in the registry
	store *bounded      // Config.Store, each call with a limit
	wake  chan struct{} // one hint at most is kept
	alarm alarm         // wakes Serve for what was put off
	hints herald        // to other programs
	hears atomic.Bool   // hints of other programs are seen to arrive
	heard atomic.Bool   // one has come since claims last found something

	writes   *lane[*Task, bool]
	reads    *lane[driver.ID, *driver.Record]
	evidence *lane[driver.Logged, struct{}]
	batches  spare[*batch]
	rooms    spare[[]driver.Claimed]
	hands    sync.Pool // of *hand

	suspect chan struct{} // full while a suspect is in hand and not started: there is never a second

	heeded pauses
	steps  steps

	mu       sync.Mutex
	routes   routes
	missing  map[string]time.Time // by route: since when it is seen that no live program serves it
	attended time.Time            // when that was last looked at
}

// New makes an engine. It does no IO and starts nothing.
func New(c Config) *Engine {
	c = c.filled()
	e := &Engine{
		Config: c, id: driver.NewID(), wake: make(chan struct{}, 1), suspect: make(chan struct{}, 1), missing: map[string]time.Time{},
	}
	e.store = &bounded{Driver: c.Store, limit: c.Patience, observe: e.observe}
	e.steps = steps{most: c.Workers, some: make(chan struct{}, 1)}
	if c.Waker != nil {
		e.hints.send = e.notify
	}
	e.routes.known = map[routeKey]*route{}
	for _, s := range c.Served {
		e.routes.add(s, s.Fingerprint)
	}
	e.batches, e.rooms = make(spare[*batch], c.Lanes), make(spare[[]driver.Claimed], 1)
	e.writes = newLane(c.Batch, c.Lanes, e.decideAll)
	e.reads = newLane(c.Batch, 1, e.load)
	e.evidence = newLane(c.Batch, 1, e.append)
	return e
}

// spare is large memory that waits to be used again. A sync.Pool would lose it: one
// that is put back on one processor is not found on another.
type spare[T any] chan T

// take returns the zero value where there is none.
func (s spare[T]) take() (v T) {
	select {
	case v = <-s:
	default:
	}
	return v
}

func (s spare[T]) give(v T) {
	select {
	case s <- v:
	default:
	}
}

// batch is the memory of one write, to be used again.
type batch struct {
	ts   []lifecycle.Transition
	seen map[driver.ID]struct{}
}

func (b *batch) clear() {
	clear(b.ts) // it points to error texts and log rows
	b.ts = b.ts[:0]
	clear(b.seen)
}

// apply hands the transitions of a batch to the store. A ref may appear only once
// in a call, and may be waited for by two tasks where one has outlived its lease.
func (e *Engine) apply(ctx context.Context, b *batch) ([]bool, error) {
	var held []bool
	for ts := b.ts; len(ts) > 0; {
		clear(b.seen)
		n := 0
		for n < len(ts) {
			if _, twice := b.seen[ts[n].Ref]; twice {
				break
			}
			b.seen[ts[n].Ref] = struct{}{}
			n++
		}
		some, err := e.store.Apply(ctx, ts[:n])
		if err != nil {
			return nil, err
		}
		if len(some) != n {
			return nil, errLane
		}
		held, ts = append(held, some...), ts[n:]
	}
	return held, nil
}

// load reads records in the order of refs; one that is gone is nil.
func (e *Engine) load(ctx context.Context, refs []driver.ID) ([]*driver.Record, error) {
	found, err := e.store.Load(ctx, refs)
	if err != nil {
		return nil, err
	}
	at := make(map[driver.ID]*driver.Record, len(found))
	for i := range found {
		at[found[i].Intent.Ref] = &found[i]
	}
	out := make([]*driver.Record, len(refs))
	for i, ref := range refs {
		out[i] = at[ref]
	}
	return out, nil
}

func (e *Engine) append(ctx context.Context, rows []driver.Logged) ([]struct{}, error) {
	return make([]struct{}, len(rows)), e.store.Append(ctx, rows)
}

// Wake hints that something is due. It never blocks; hints that come together
// are one.
func (e *Engine) Wake() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

func newToken() (t lifecycle.Token) {
	rand.Read(t[:]) // never fails, by its documentation
	return t
}
