package reply_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/driver/memory"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/reply"
)

// memoryStore is a store in memory whose answers can be lost.
type memoryStore struct {
	*memory.Store
	apply func(ctx context.Context, ts []lifecycle.Transition) ([]bool, error)
	load  func(ctx context.Context, refs []driver.ID) ([]driver.Record, error)
	late  func(ctx context.Context, rows []driver.Logged) error
}

func onlyStore() *memoryStore { return &memoryStore{Store: memory.New()} }

func (s *memoryStore) Driver(driver.Key) driver.Bound[*memory.Tx] { return s }

func (s *memoryStore) Apply(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
	if s.apply != nil {
		return s.apply(ctx, ts)
	}
	return s.Store.Apply(ctx, ts)
}

func (s *memoryStore) Load(ctx context.Context, refs []driver.ID) ([]driver.Record, error) {
	if s.load != nil {
		return s.load(ctx, refs)
	}
	return s.Store.Load(ctx, refs)
}

func (s *memoryStore) Append(ctx context.Context, rows []driver.Logged) error {
	if s.late != nil {
		return s.late(ctx, rows)
	}
	return s.Store.Append(ctx, rows)
}

var errDown = errors.New("connection reset")

// times fails the first n calls, after they were carried out or instead of that.
func (s *memoryStore) fail(n int, carriedOut bool) {
	s.apply = func(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
		if n--; n < 0 {
			return s.Store.Apply(ctx, ts)
		}
		if carriedOut {
			s.Store.Apply(ctx, ts)
		}
		return nil, errDown
	}
}

// inBubble runs a test in time that passes only while everybody waits.
func inBubble(t *testing.T, test func(t *testing.T, s *memoryStore, out *reply.Outbox[*memory.Tx], id consign.Ref)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := onlyStore()
		s.Follow()
		out, err := reply.New(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := out.Create(t.Context(), answer())
		if err != nil {
			t.Fatal(err)
		}
		test(t, s, out, r.ID)
	})
}

// Where the answer to a write is lost it is found out whether it happened, and every
// mark counts once.
func TestLostAnswersAreLookedUp(t *testing.T) {
	for name, carriedOut := range map[string]bool{"carried out": true, "cut off": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *memoryStore, out *reply.Outbox[*memory.Tx], id consign.Ref) {
				s.fail(2, carriedOut)
				c, won, err := out.Claim(t.Context(), id)
				if err != nil || !won {
					t.Fatal(won, err)
				}
				for n := 1; n <= 3; n++ {
					s.fail(1, carriedOut)
					r, err := c.RecordAttempt(t.Context(), busy)
					if err != nil || r.Attempts != n {
						t.Errorf("attempt %d: %+v, %v", n, r, err)
					}
				}
				s.fail(2, carriedOut)
				r, err := c.MarkDelivered(t.Context())
				if err != nil || r.Attempts != 4 || r.Status != consign.StatusDelivered {
					t.Errorf("%+v, %v", r, err)
				}
			})
		})
	}
}

// An outage that outlasts the call ends in ErrUnconfirmed; the same call, repeated,
// counts once whether or not the first one had happened.
func TestUnconfirmedMarkCanBeRepeated(t *testing.T) {
	for name, carriedOut := range map[string]bool{"carried out": true, "cut off": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *memoryStore, out *reply.Outbox[*memory.Tx], id consign.Ref) {
				c, won, err := out.Claim(t.Context(), id)
				if err != nil || !won {
					t.Fatal(won, err)
				}
				marks := []func(ctx context.Context) (reply.Record, error){
					func(ctx context.Context) (reply.Record, error) { return c.RecordAttempt(ctx, busy) },
					c.MarkDelivered,
				}
				for n, mark := range marks {
					s.fail(1000, carriedOut)
					s.load = func(context.Context, []driver.ID) ([]driver.Record, error) { return nil, errDown }
					began := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					if _, err := mark(ctx); !errors.Is(err, consign.ErrUnconfirmed) || !errors.Is(err, errDown) {
						t.Errorf("during the outage: %v", err)
					}
					cancel()
					if took := time.Since(began); took < 7*time.Second || took > 20*time.Second {
						t.Errorf("gave up after %s", took)
					}
					s.apply, s.load = nil, nil
					r, err := mark(t.Context())
					if err != nil || r.Attempts != n+1 {
						t.Errorf("repeated: %+v, %v", r, err)
					}
				}
			})
		})
	}
}

// While its context lasts a mark is tried through an outage of any length.
func TestMarkIsTriedThroughAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, s *memoryStore, out *reply.Outbox[*memory.Tx], id consign.Ref) {
		c, won, err := out.Claim(t.Context(), id)
		if err != nil || !won {
			t.Fatal(won, err)
		}
		up := time.Now().Add(time.Hour)
		s.apply = func(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
			if time.Now().Before(up) {
				return nil, errDown
			}
			return s.Store.Apply(ctx, ts)
		}
		if r, err := c.MarkDelivered(t.Context()); err != nil || r.Status != consign.StatusDelivered {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// A claim of which it is not known whether it happened is not acted upon, and says so.
func TestUnconfirmedClaimIsNotWon(t *testing.T) {
	inBubble(t, func(t *testing.T, s *memoryStore, out *reply.Outbox[*memory.Tx], id consign.Ref) {
		s.fail(1000, true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		loads := 0
		s.load = func(ctx context.Context, refs []driver.ID) ([]driver.Record, error) {
			if loads++; loads == 1 {
				return s.Store.Load(ctx, refs)
			}
			return nil, errDown
		}
		c, won, err := out.Claim(ctx, id)
		if c != nil || won || !errors.Is(err, consign.ErrUnconfirmed) {
			t.Errorf("%v, %v, %v", c, won, err)
		}
		s.apply, s.load = nil, nil
		if r, _, err := out.Find(t.Context(), id); err != nil || r.Status != consign.StatusDelivering || r.Attempts != 0 {
			t.Errorf("shows %+v, %v", r, err)
		}
	})
}

// A claim's write that was cut off and arrives after somebody else's claim changes
// nothing: the one is lost, the other is won.
func TestLateClaimIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, s *memoryStore, out *reply.Outbox[*memory.Tx], id consign.Ref) {
		var delayed []lifecycle.Transition
		s.apply = func(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
			delayed, s.apply = ts, nil
			if _, won, err := out.Claim(ctx, id); err != nil || !won {
				t.Errorf("the other one: %v, %v", won, err)
			}
			return nil, errDown
		}
		if _, won, err := out.Claim(t.Context(), id); won || err != nil {
			t.Errorf("won %v, %v", won, err)
		}
		if held, err := s.Apply(t.Context(), delayed); err != nil || held[0] {
			t.Errorf("the late write held: %v, %v", held, err)
		}
	})
}

// Evidence that cannot be kept at once is kept later, under the same number.
func TestEvidenceIsKeptThroughAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, s *memoryStore, out *reply.Outbox[*memory.Tx], id consign.Ref) {
		c, won, err := out.Claim(t.Context(), id)
		if err != nil || !won {
			t.Fatal(won, err)
		}
		if _, err := c.MarkFailed(t.Context(), busy); err != nil {
			t.Fatal(err)
		}
		s.late = func(context.Context, []driver.Logged) error { return errDown }
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 2 {
			if _, err := c.MarkDelivered(ended); !errors.Is(err, consign.ErrFenced) || !errors.Is(err, errDown) {
				t.Errorf("%v", err)
			}
		}
		s.late = nil
		for range 2 {
			if _, err := c.MarkDelivered(t.Context()); !errors.Is(err, consign.ErrFenced) {
				t.Errorf("%v", err)
			}
		}
		log, err := s.History(t.Context(), driver.ID(id.ID))
		if err != nil || len(log) != 1 || log[0].Outcome != lifecycle.Accepted || !log[0].Late || log[0].Number != 1 {
			t.Errorf("log is %+v, %v", log, err)
		}
	})
}

// A reply that does not exist is absent, and that is no failure; a store that cannot be
// asked is one.
func TestFindTellsAbsenceFromFailure(t *testing.T) {
	inBubble(t, func(t *testing.T, s *memoryStore, out *reply.Outbox[*memory.Tx], id consign.Ref) {
		if r, found, err := out.Find(t.Context(), id); !found || err != nil || r.ID != id {
			t.Errorf("%+v, %v, %v", r, found, err)
		}
		for _, none := range []consign.Ref{{}, consign.NewRef()} {
			if r, found, err := out.Find(t.Context(), none); found || err != nil || !r.ID.IsZero() {
				t.Errorf("absent: %+v, %v, %v", r, found, err)
			}
		}
		s.load = func(context.Context, []driver.ID) ([]driver.Record, error) { return nil, errDown }
		if _, found, err := out.Find(t.Context(), id); found || !errors.Is(err, errDown) {
			t.Errorf("out of reach: %v, %v", found, err)
		}
	})
}

// A closed database is told at once.
func TestClosedDatabaseIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T, s *memoryStore, out *reply.Outbox[*memory.Tx], id consign.Ref) {
		c, won, err := out.Claim(t.Context(), id)
		if err != nil || !won {
			t.Fatal(won, err)
		}
		closed := func(context.Context, []lifecycle.Transition) ([]bool, error) { return nil, driver.ErrClosed }
		s.apply = closed
		s.load = func(context.Context, []driver.ID) ([]driver.Record, error) { return nil, driver.ErrClosed }
		began := time.Now()
		for name, err := range map[string]error{
			"mark":  second(c.MarkDelivered(t.Context())),
			"claim": claimError(out, id),
		} {
			if !errors.Is(err, consign.ErrClosed) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("took %s", took)
		}
	})
}

func claimError(out *reply.Outbox[*memory.Tx], id consign.Ref) error {
	_, _, err := out.Claim(context.Background(), id)
	return err
}

// never is a channel function that must not be called.
func never(t *testing.T) func(context.Context, consign.Message, consign.Attempt) error {
	return func(context.Context, consign.Message, consign.Attempt) error {
		t.Error("it was sent again")
		return nil
	}
}
