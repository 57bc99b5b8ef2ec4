package memory_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/driver/memory"
	"github.com/consign-go/consign/internal/lifecycle"
)

func message() driver.New {
	n := driver.New{Given: true, Contract: lifecycle.Contract{
		Retry: lifecycle.Schedule, Idempotent: true, MaxAttempts: 3, Lease: time.Minute, Timeout: 10 * time.Second, MaxAge: time.Hour,
	}}
	n.Ref = driver.NewID()
	n.Key, n.Profile, n.Kind, n.Payload = n.Ref, lifecycle.Message, "mail", []byte(`{}`)
	n.Digest = sha256.Sum256(n.Payload)
	return n
}

func begin(t *testing.T, s *memory.Store) (*memory.Tx, driver.Tx) {
	t.Helper()
	raw, tx, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return raw, tx
}

// A transaction sees its own rows, others see them once it has committed.
func TestTransactionsAreIsolated(t *testing.T) {
	s := memory.New()
	one, _ := begin(t, s)
	two, _ := begin(t, s)
	if err := one.Put("order", "1"); err != nil {
		t.Fatal(err)
	}
	see := func(tx *memory.Tx, want bool) {
		t.Helper()
		if _, there, err := tx.Get("order"); err != nil || there != want {
			t.Fatalf("sees the row: %v, %v, want %v", there, err, want)
		}
	}
	see(one, true)
	see(two, false)
	if err := one.Commit(); err != nil {
		t.Fatal(err)
	}
	see(two, true)
	if _, _, err := one.Get("order"); !errors.Is(err, driver.ErrClosed) {
		t.Fatalf("a closed transaction reads: %v", err)
	}
}

// A second writer of a ref waits until the first has decided; its context ends
// the wait, and what it wrote is gone.
func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		n := message()
		_, first := begin(t, s)
		if err := first.Insert(t.Context(), []driver.New{n}); err != nil {
			t.Fatal(err)
		}
		_, second := begin(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := second.Insert(ctx, []driver.New{message(), n}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("insert of a row that another transaction holds: %v", err)
		}
		if err := first.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := second.Insert(t.Context(), []driver.New{n}); err != nil {
			t.Fatalf("insert after the wait: %v", err)
		}
		if err := second.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if rows, _ := s.Rows("intent"); len(rows) != 1 {
			t.Fatalf("%d intents, want 1", len(rows))
		}
	})
}

// Two transactions that wait for each other do not wait for ever: the one that
// closes the ring is refused.
func TestDeadlockIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		a, b := message(), message()
		_, one := begin(t, s)
		_, two := begin(t, s)
		if err := errors.Join(one.Insert(t.Context(), []driver.New{a}), two.Insert(t.Context(), []driver.New{b})); err != nil {
			t.Fatal(err)
		}
		waits := make(chan error, 1)
		go func() { waits <- one.Insert(t.Context(), []driver.New{b}) }()
		synctest.Wait()
		if err := two.Insert(t.Context(), []driver.New{a}); err == nil {
			t.Fatal("a ring of waiting transactions is not noticed")
		}
		if err := two.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-waits; err != nil {
			t.Fatalf("the other one: %v", err)
		}
		if err := one.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// A savepoint that is undone gives up the unique keys written since.
func TestSavepointGivesUpKeys(t *testing.T) {
	s := memory.New()
	n := message()
	_, one := begin(t, s)
	point, err := one.Savepoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := one.Insert(t.Context(), []driver.New{n}); err != nil {
		t.Fatal(err)
	}
	if err := point.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := point.Release(t.Context()); !errors.Is(err, driver.ErrClosed) {
		t.Fatalf("a savepoint ends twice: %v", err)
	}
	_, two := begin(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := two.Insert(ctx, []driver.New{n}); err != nil {
		t.Fatalf("the ref is still held: %v", err)
	}
}

// The clock stands still until it is told otherwise.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Date(2031, 5, 1, 12, 0, 0, 0, time.UTC)
		s := memory.NewAt(start)
		shows := func(want time.Time) {
			t.Helper()
			if now, err := s.Now(t.Context()); err != nil || !now.Equal(want) {
				t.Fatalf("the clock shows %s, %v, want %s", now, err, want)
			}
		}
		time.Sleep(time.Hour)
		shows(start)
		s.Advance(time.Minute)
		shows(start.Add(time.Minute))
		s.Advance(-30 * time.Second)
		shows(start.Add(30 * time.Second))
		s.Follow()
		time.Sleep(time.Hour)
		shows(start.Add(time.Hour + 30*time.Second))
		s.Advance(time.Minute)
		s.Follow()
		time.Sleep(time.Second)
		shows(start.Add(time.Hour + 91*time.Second))
	})
}

// What the caller does with its payload afterwards, or with what was handed out,
// does not reach the store.
func TestRowsAreCopies(t *testing.T) {
	s := memory.New()
	n := message()
	_, tx := begin(t, s)
	if err := errors.Join(tx.Insert(t.Context(), []driver.New{n}), tx.Commit(t.Context())); err != nil {
		t.Fatal(err)
	}
	n.Payload[0] = 'X'
	for range 2 {
		records, err := s.Load(t.Context(), []driver.ID{n.Ref})
		if err != nil || string(records[0].Intent.Payload) != `{}` {
			t.Fatalf("stored %s, %v", records[0].Intent.Payload, err)
		}
		records[0].Intent.Payload[0] = 'Y'
	}
}
