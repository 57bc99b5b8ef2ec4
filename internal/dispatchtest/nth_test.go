//go:build unix

package dispatchtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/dispatch"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/effort"
	"github.com/consign-go/consign/internal/lifecycle"
)

// ill is a store whose nth call fails in some way, and every later one too if it is
// for good.
type ill struct {
	driver.Driver
	n       int
	forGood bool
	way     string
	lates   *sync.WaitGroup

	mu    sync.Mutex
	calls int
}

// The ways in which a call fails.
const (
	nothingDone = "nothing is done"
	answerLost  = "it is done and its answer is lost"
	doneLater   = "it fails and is done later"
	noAnswer    = "nobody answers"
)

var ways = []string{nothingDone, answerLost, doneLater, noAnswer}

// ail makes one call.
func ail[T any](ctx context.Context, s *ill, call func(ctx context.Context) (T, error)) (none T, err error) {
	s.mu.Lock()
	s.calls++
	now := s.calls == s.n || s.forGood && s.calls > s.n
	way := s.way
	if s.calls > s.n {
		way = nothingDone
	}
	s.mu.Unlock()
	if !now {
		return call(ctx)
	}
	switch way {
	case answerLost:
		call(ctx)
	case doneLater:
		s.lates.Go(func() {
			time.Sleep(15 * time.Millisecond)
			call(context.WithoutCancel(ctx))
		})
	case noAnswer:
		<-ctx.Done()
		return none, ctx.Err()
	}
	return none, errGone
}

func (s *ill) Claim(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	return ail(ctx, s, func(ctx context.Context) ([]driver.Claimed, error) { return s.Driver.Claim(ctx, r) })
}

func (s *ill) Held(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	return ail(ctx, s, func(ctx context.Context) ([]driver.Claimed, error) { return s.Driver.Held(ctx, r) })
}

func (s *ill) Apply(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
	ts = append([]lifecycle.Transition(nil), ts...) // its caller may have gone on when it is done
	return ail(ctx, s, func(ctx context.Context) ([]bool, error) { return s.Driver.Apply(ctx, ts) })
}

func (s *ill) Append(ctx context.Context, rows []driver.Logged) error {
	_, err := ail(ctx, s, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.Driver.Append(ctx, rows) })
	return err
}

func (s *ill) Load(ctx context.Context, refs []driver.ID) ([]driver.Record, error) {
	return ail(ctx, s, func(ctx context.Context) ([]driver.Record, error) { return s.Driver.Load(ctx, refs) })
}

func (s *ill) History(ctx context.Context, ref driver.ID) ([]driver.Logged, error) {
	return ail(ctx, s, func(ctx context.Context) ([]driver.Logged, error) { return s.Driver.History(ctx, ref) })
}

// Of the calls that a delivery makes of a real database the first fails, then the
// second, and so on until there is none left: once, in each way, or that one and
// all after it. Whoever comes next finds what is left. Nothing is lost, and nothing
// that is not idempotent is sent twice.
func TestAnyCallOfARealDatabaseMayFail(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		t.Parallel()
		far := newReceiver(t)
		kinds := grid(8*time.Second, 3*time.Second)
		var mu sync.Mutex
		visits, abandoned := 0, []driver.ID(nil)
		var group sync.WaitGroup
		for _, k := range kinds { // all at once: they wait most of the time
			group.Go(func() {
				all, left := d.ailing(t, k, far)
				mu.Lock()
				defer mu.Unlock()
				visits, abandoned = visits+all, append(abandoned, left...)
			})
		}
		group.Wait()
		p := program{Name: "next", Receiver: far.place(), Kinds: kinds, Policy: brief}
		for _, ref := range abandoned { // each by a program of its own, or they would wait for each other's start
			e := dispatch.New(p.config(d.Driver, nil))
			until(t, "what was abandoned has come to an end", func() bool {
				r, _, err := e.Visit(t.Context(), ref)
				return err == nil && (r.Status.Terminal() || d.strands(t, ref))
			})
		}
		if len(d.auditOf(t, far.all(), nil)) != visits || len(abandoned) < len(kinds)*6 {
			t.Errorf("of %d intents %d were left to somebody else: too few", visits, len(abandoned))
		}
		effort.Note(t, "%d deliveries, each with another call that failed, %d for good", visits, len(abandoned))
	})
}

// ailing delivers intents of a kind, each on a store of which another call fails,
// and returns how many, and how many of them came to no end.
func (d *database) ailing(t *testing.T, k kind, far *receiver) (visits int, abandoned []driver.ID) {
	var lates sync.WaitGroup
	defer lates.Wait()
	for i, way := range ways {
		for _, forGood := range []bool{false, true} {
			if forGood && i >= effort.Of(2, len(ways)) {
				continue // what crashed an owner before its start is taken one at a time: seconds
			}
			for n, reached := 1, true; reached; n++ {
				ref := d.enqueue(t, k, 1)[0]
				far.refuses(name(ref), n%2)
				s := &ill{Driver: d.Driver, n: n, forGood: forGood, way: way, lates: &lates}
				ended := s.visits(t, program{Name: "ill " + name(ref), Receiver: far.place(), Kinds: []kind{k}, Policy: brief}, ref)
				if visits++; !ended {
					abandoned = append(abandoned, ref)
				}
				reached = s.made() >= n
				if forGood {
					reached = n < 4 // its end depends on when the process is over
				} else if !reached && n < 4 {
					t.Errorf("%s, %s: only %d calls", k.Name, way, s.made())
				}
				if !ended && !forGood && (way != doneLater || n > 1) { // a claim that is made later is nobody's
					t.Errorf("%s, call %d, %s: it came to no end", k.Name, n, way)
				}
			}
		}
	}
	return visits, abandoned
}

// strands reports whether a delivery is a stranded message.
func (d *database) strands(t *testing.T, ref driver.ID) bool {
	t.Helper()
	found, err := d.Load(t.Context(), []driver.ID{ref})
	if err != nil || len(found) != 1 {
		t.Fatalf("%d records, %v", len(found), err)
	}
	return found[0].State.Stranded()
}

func (s *ill) made() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// visits visits an intent on a failing store until its end, or until the store has
// failed for good, and reports whether it came to its end.
func (s *ill) visits(t *testing.T, p program, ref driver.ID) (ended bool) {
	t.Helper()
	c := p.config(s, nil)
	c.Patience = 5 * time.Second
	if s.way == noAnswer {
		c.Patience = 500 * time.Millisecond // one call takes as long
	}
	c.Policy.SettleMargin = 100 * time.Millisecond
	e := dispatch.New(c)
	ctx, most := t.Context(), 400
	if s.forGood { // an outcome is written again and again until its process ends
		most = 2
		limited, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		ctx = limited
	}
	for n := 0; !ended && n < most; n++ {
		r, _, err := e.Visit(ctx, ref)
		if ended = err == nil && r.Status.Terminal(); !ended && !s.forGood {
			time.Sleep(5 * time.Millisecond)
		}
	}
	return ended
}
