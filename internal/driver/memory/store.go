// Package memory is the reference driver: a store in this process's memory that
// keeps every promise of package driver and none of durability.
//
// It is the oracle that the SQL stores are compared with, the store of the
// simulator, and what users' own tests run on. Each claim and erasure is decided
// by lifecycle.Policy.Apply, and each change passes the same checks that the
// tables of the SQL stores make, so that what they would refuse is refused here.
//
// Its clock stands still unless it is told otherwise; see [Store.Advance].
package memory

import (
	"context"
	"sync"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Store is an open database in memory. It is safe for concurrent use. Open
// transactions write beside each other; only a unique key that another one has
// written and not yet committed is waited for, as in PostgreSQL.
type Store struct {
	mu    sync.Mutex
	clock clock
	rows  tables

	holders map[string]*Tx // unique keys written by open transactions
	ended   chan struct{}  // closed, and replaced, whenever a transaction gives keys up
}

var _ driver.Bound[*Tx] = (*Store)(nil)

// New returns an empty store whose clock shows the present time and stands still.
func New() *Store { return NewAt(time.Now()) }

// NewAt returns an empty store whose clock shows t and stands still.
func NewAt(t time.Time) *Store {
	s := &Store{holders: map[string]*Tx{}, ended: make(chan struct{})}
	s.clock.at = t.UTC().Truncate(time.Microsecond)
	s.rows.reset()
	return s
}

// Driver returns the store as the driver that it is.
func (s *Store) Driver(driver.Key) driver.Bound[*Tx] { return s }

// Reset removes every row. Transactions still open are rolled back.
func (s *Store) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, tx := range s.holders {
		tx.done = true
	}
	clear(s.holders)
	s.wake()
	s.rows.reset()
}

// Advance moves the clock forward by d; a negative d moves it back.
func (s *Store) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock.at = s.clock.at.Add(d.Truncate(time.Microsecond))
}

// Follow lets the clock run with real time from here on.
func (s *Store) Follow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock.at, s.clock.since = s.clock.now(), time.Now()
}

// Now reads the store's clock, in whole microseconds.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock.now(), nil
}

// clock is the database clock: a settable time that stands still until since is
// set.
type clock struct {
	at    time.Time
	since time.Time
}

func (c *clock) now() time.Time {
	if c.since.IsZero() {
		return c.at
	}
	return c.at.Add(time.Since(c.since)).Truncate(time.Microsecond)
}

// tables are the committed rows.
type tables struct {
	intents     map[driver.ID]*driver.Intent
	deliveries  map[driver.ID]*delivery
	open        map[string]map[driver.ID]*delivery // by route: those with a due time
	tasks       map[string]map[driver.ID]*delivery // by task: those that take part in its order
	attempts    map[driver.ID][]driver.Logged
	resolutions []resolution
	approvals   map[driver.ID]*approval
	runs        map[driver.ID]*run
	audits      []audit
	keys        map[string]driver.ID // unique keys, and the row that has each
	own         map[string]string    // the caller's rows
	programs    map[driver.ID]program
	pauses      map[pauseKey]driver.Pause
	pruned      int
}

func (t *tables) reset() {
	*t = tables{
		intents:    map[driver.ID]*driver.Intent{},
		deliveries: map[driver.ID]*delivery{},
		open:       map[string]map[driver.ID]*delivery{},
		tasks:      map[string]map[driver.ID]*delivery{},
		attempts:   map[driver.ID][]driver.Logged{},
		runs:       map[driver.ID]*run{},
		approvals:  map[driver.ID]*approval{},
		keys:       map[string]driver.ID{},
		own:        map[string]string{},
		programs:   map[driver.ID]program{},
		pauses:     map[pauseKey]driver.Pause{},
	}
}

// put stores d, in place of an older version of it, and keeps the indexes.
func (t *tables) put(d *delivery) {
	t.deliveries[d.ref] = d
	index(t.open, d.route, d, !d.dueAt.IsZero())
	if d.task != "" {
		index(t.tasks, d.task, d, d.gated)
	}
}

// drop removes the delivery of ref from the table and the indexes.
func (t *tables) drop(d *delivery) {
	delete(t.deliveries, d.ref)
	index(t.open, d.route, d, false)
	if d.task != "" {
		index(t.tasks, d.task, d, false)
	}
}

func index(by map[string]map[driver.ID]*delivery, name string, d *delivery, in bool) {
	switch {
	case in && by[name] == nil:
		by[name] = map[driver.ID]*delivery{d.ref: d}
	case in:
		by[name][d.ref] = d
	default:
		delete(by[name], d.ref)
		if len(by[name]) == 0 {
			delete(by, name)
		}
	}
}

// run is a row of the run table.
type run struct{ driver.Run }

// audit is a row of the audit table.
type audit struct {
	at                    time.Time
	madeBy, action        string
	ref, run, approval    driver.ID
	reason, before, after string
}

// resolution is a row of the resolution table.
type resolution struct {
	id, ref, supersedes driver.ID
	at                  time.Time
	outcome, source     int
	madeBy, evidence    string
}

// pauseKey is the primary key of the pause table.
type pauseKey struct {
	profile lifecycle.Profile
	kind    string
}

// approval is a row of the approval table. As any other, it is never changed in
// place.
type approval struct {
	driver.Approval
	erased bool
}
