package consigntest

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/driver/memory"
)

// Tx is a transaction of the store that [NewStore] returns. Commit and Rollback end
// it. Put(key, value) and Get(key) write and read rows that stand for the program's
// own tables.
type Tx = memory.Tx

// Store is a store whose time a test can move, and whose transactions tell what
// they have enqueued. It is used like the store that it stands on: for
// [consign.New], approval.New, operator.New.
type Store[TX comparable] struct {
	bound full[TX]
	notes notes[TX]
}

// full is what the stores of this module have in common.
type full[TX any] interface {
	driver.Bound[TX]
	driver.Desk
	driver.Waitlist
	driver.Elapser
}

// NewStore returns an empty store in memory. Its clock shows the present time, and
// stands still until [Advance] moves it.
func NewStore() *Store[*Tx] { return On(memory.New()) }

// On returns a store on a real database: what postgres.New, postgres.NewSQL or
// sqlite.New returned. Give it to everything that the test would give that to, and
// have the tables of the database to the test alone: [Advance] changes their rows.
// It panics where store is nil or not a store of this module.
func On[TX comparable](store consign.Store[TX]) *Store[TX] {
	if v := reflect.ValueOf(store); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		panic("consigntest: on: the store is nil")
	}
	bound, ok := store.Driver(driver.Key{}).(full[TX])
	if !ok {
		panic("consigntest: on: the store is not one that can be tested on")
	}
	return &Store[TX]{bound: bound}
}

// Driver makes it a [consign.Store].
func (s *Store[TX]) Driver(driver.Key) driver.Bound[TX] {
	b := noting[TX]{s.bound, &s.notes}
	if w, ok := s.bound.(driver.Waker); ok {
		return struct {
			noting[TX]
			driver.Waker
		}{b, w}
	}
	return b
}

// Begin opens a transaction. On a real database the program's own are as good.
func (s *Store[TX]) Begin(ctx context.Context) (TX, error) {
	tx, _, err := s.bound.Begin(ctx)
	return tx, err
}

// Now is what the store's clock shows.
func (s *Store[TX]) Now(ctx context.Context) (time.Time, error) { return s.bound.Now(ctx) }

// Advance lets d pass for everything that is stored: what becomes due, and what
// expires by then, does. A real database's clock is not moved; the times of
// deliveries, approvals and programs are moved back instead, all of them, which is
// the same to whoever looks at them. What a running program counts by itself, such as
// its polling and Options.HandlerGrace, takes its time.
func Advance[TX comparable](t testing.TB, s *Store[TX], d time.Duration) {
	t.Helper()
	if s == nil {
		t.Fatal("consigntest: advance: no store")
	}
	if d < 0 {
		t.Fatalf("consigntest: advance by %s: time does not go back", d)
	}
	if err := s.bound.Elapse(context.WithoutCancel(t.Context()), d); err != nil {
		t.Fatal(err)
	}
}

// Enqueued returns what was enqueued in a transaction, in order: messages, and the
// work of runs, which is written when the run's function has returned. It can be
// asked while the transaction is open and afterwards, and forgets what a failing
// Run, Join or EnqueueNow has rolled back. A rollback of the test's own, and
// messages of plain SQL, it does not see: whether something was committed,
// [consign.Outbox.Find] tells.
func Enqueued[TX comparable](t testing.TB, s *Store[TX], tx TX) []consign.Intent {
	t.Helper()
	var none TX
	if s == nil || tx == none {
		t.Fatal("consigntest: enqueued: no store or no transaction")
	}
	return s.notes.of(tx)
}

// Drive visits one intent again and again, each time as soon as it is due, until
// its delivery has ended, and returns what is stored of it then. visits is how
// often at most; 0 means 100.
func Drive[TX comparable](t testing.TB, s *Store[TX], o *consign.Outbox[TX], ref consign.Ref, visits int) consign.Intent {
	t.Helper()
	if s == nil || o == nil {
		t.Fatal("consigntest: drive: no store or no outbox")
	}
	if visits == 0 {
		visits = 100
	}
	ctx := context.WithoutCancel(t.Context())
	var intent consign.Intent
	for range visits {
		_, err := o.Visit(ctx, ref)
		if err != nil {
			t.Fatal(err)
		}
		if intent, err = o.Find(ctx, ref); err != nil {
			t.Fatal(err)
		}
		if intent.DueAt.IsZero() { // it has ended
			break
		}
		now, err := s.Now(ctx)
		if err != nil {
			t.Fatal(err)
		}
		Advance(t, s, max(intent.DueAt.Sub(now), 0))
	}
	return intent
}
