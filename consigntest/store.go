package consigntest

import (
	"context"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/driver/memory"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Tx is a transaction of a [Store]. Commit and Rollback end it. Put(key, value) and
// Get(key) write and read rows that stand for the program's own tables.
type Tx = memory.Tx

// Store is a store in memory, for [consign.New]. Its clock stands still until
// [Advance] moves it.
type Store struct{ memory *memory.Store }

var _ consign.Store[*Tx] = (*Store)(nil)

// NewStore returns an empty store whose clock shows the present time.
func NewStore() *Store { return &Store{memory.New()} }

// Driver makes it a [consign.Store].
func (s *Store) Driver(k driver.Key) driver.Bound[*Tx] { return s.memory.Driver(k) }

// Begin opens a transaction.
func (s *Store) Begin(ctx context.Context) (*Tx, error) {
	tx, _, err := s.memory.Begin(ctx)
	return tx, err
}

// Now is what the store's clock shows.
func (s *Store) Now() time.Time {
	now, _ := s.memory.Now(context.Background()) // fails with its context only
	return now
}

// Advance moves the store's clock forward: what becomes due, and what expires by
// then, does.
func Advance(t testing.TB, s *Store, d time.Duration) {
	t.Helper()
	if d < 0 {
		t.Fatalf("consigntest: advance by %s: time does not go back", d)
	}
	s.memory.Advance(d)
}

// Enqueued returns what an open transaction has enqueued and not yet committed, in
// order: messages, and the work of runs that were joined to it.
func Enqueued(t testing.TB, s *Store, tx *Tx) []consign.Intent {
	t.Helper()
	if s == nil || tx == nil {
		t.Fatal("consigntest: enqueued: no store or no transaction")
	}
	rows := tx.Inserted()
	out := make([]consign.Intent, len(rows))
	for i, r := range rows {
		out[i] = consign.Intent{
			Ref: consign.Ref{ID: consign.ID(r.Ref)}, Profile: consign.ProfileWork, Kind: r.Kind, DeliveryKey: consign.ID(r.Key),
			Payload: r.Payload, To: r.Address, Task: r.Task, Index: r.Index, Subject: r.Subject,
			Run: consign.ID(r.Run), Key: r.WorkKey, Target: r.Target, Status: consign.StatusPending,
		}
		if r.Profile == lifecycle.Message {
			out[i].Profile = consign.ProfileMessage
		}
	}
	return out
}
