//go:build unix

package dispatchtest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/dispatch"
	"github.com/consign-go/consign/internal/effort"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/internal/pgtest"
)

// steady are times that an outage of a few seconds fits into.
var steady = lifecycle.Policy{SettleMargin: 2 * time.Second, CrashBudget: crashBudget}

// An effect has as long as a machine may need that has much else to do: what was cut
// off is unknown, and few may be.
const (
	steadyLease   = 25 * time.Second
	steadyTimeout = 8 * time.Second
)

// crew is several engines in this process, each with connections of its own.
type crew struct {
	failed, fenced, sent atomic.Int64 // calls of the database that failed, writes refused, effects settled
	stop                 func()
}

func (d *database) hire(t *testing.T, n int, p program) *crew {
	t.Helper()
	c := &crew{}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for i := range n {
		p.Name = fmt.Sprintf("engine %d", i)
		s, err := p.Address.open()
		if err != nil {
			t.Fatal(err)
		}
		e := dispatch.New(p.config(s.Driver, func(o dispatch.Observation) {
			switch o.Event {
			case "error":
				c.failed.Add(1)
			case "fence":
				c.fenced.Add(1)
			case "settle":
				c.sent.Add(1)
			}
		}))
		group.Go(func() {
			defer s.close()
			if err := e.Serve(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	c.stop = sync.OnceFunc(func() {
		cancel()
		group.Wait()
	})
	t.Cleanup(c.stop)
	return c
}

// pour commits intents of all kinds, a few at a time, until it is stopped, and says
// how many. A commit that failed, or of which nobody knows, is made again with the
// same refs until it is known.
func (d *database) pour(t *testing.T, kinds []kind) (stop func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	total := make(chan int, 1)
	go func() {
		n := 0
		for i := 0; ctx.Err() == nil; i++ {
			rows := kinds[i%len(kinds)].rows(4)
			for d.commit(context.Background(), rows) != nil {
				d.refused.Add(1)
				if rows[0].Profile == lifecycle.Work && d.known(name(rows[0].Ref)) {
					break // work has no ref that a caller could repeat
				}
				time.Sleep(20 * time.Millisecond)
			}
			for _, r := range rows {
				d.expect(name(r.Ref), r.Payload)
			}
			n += len(rows)
			time.Sleep(15 * time.Millisecond)
		}
		total <- n
	}()
	once := sync.OnceValue(func() int {
		cancel()
		return <-total
	})
	t.Cleanup(func() { once() })
	return once
}

// known waits until the database answers whether an intent is there.
func (d *database) known(ref string) bool {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		n, err := d.one(context.Background(), "SELECT count(*) FROM "+d.prefix+"delivery WHERE "+d.uuid("ref")+" = $1", ref)
		if err == nil {
			return n > 0
		}
	}
	return false
}

// allSettled waits for the end of everything and has it judged.
func (d *database) allSettled(t *testing.T, c *crew, far *receiver, total int) {
	t.Helper()
	until(t, "everything has come to an end", func() bool {
		n, err := d.unsettled(t.Context())
		return err == nil && n == 0
	})
	c.stop()
	found := d.audit(t, far.all())
	if len(found) != total {
		t.Errorf("%d intents are there, %d were enqueued", len(found), total)
	}
	succeeded, unknown, repeated := 0, 0, 0
	for _, f := range found {
		switch {
		case f.now.status == isSucceeded:
			succeeded++
		case f.now.code == "OUTCOME_UNKNOWN", f.stranded():
			unknown++
		default:
			t.Errorf("stands at %d %q\n%s", f.now.status, f.now.code, f.story())
		}
		if acted := len(f.came); acted > 1 {
			repeated++
		}
	}
	effort.Note(t, "%d intents: %d delivered, %d unknown or stranded, %d sent more than once; %d calls failed, %d writes were fenced",
		total, succeeded, unknown, repeated, c.failed.Load(), c.fenced.Load())
	if succeeded < total*9/10 {
		t.Errorf("only %d of %d were delivered", succeeded, total)
	}
}

// more waits until the far side has acted on n more requests.
func (f *receiver) more(t *testing.T, n int) {
	t.Helper()
	before := f.count()
	until(t, fmt.Sprintf("%d more requests come", n), func() bool { return f.count() >= before+n })
}

// PostgreSQL is killed, stopped at once and stopped in order, and one of its
// backends is killed, in turn, while several engines deliver. Nothing is lost,
// nothing that is not idempotent is sent twice, and all settle once it is back.
func TestDatabaseRestartedUnderLoadLosesNothingAndRepeatsNothing(t *testing.T) {
	d := migrated(t, databases[0].make(t))
	far := newReceiver(t)
	far.takes = 20 * time.Millisecond // so that effects run while the database is away
	p := program{Address: d.address, Receiver: far.place(), Policy: steady, Kinds: grid(steadyLease, steadyTimeout)}
	c := d.hire(t, 3, p)
	stop := d.pour(t, p.Kinds)
	far.more(t, 20)
	cycles := effort.Of(5, 100)
	for i := range cycles {
		before := c.failed.Load()
		if mode := []pgtest.Mode{pgtest.Kill, pgtest.Immediate, "", pgtest.Fast}[i%4]; mode != "" {
			pgtest.Restart(t, mode)
		} else {
			pgtest.KillBackend(t)
			until(t, "engines have noticed", func() bool { return c.failed.Load() > before })
		}
		far.more(t, 20)
		if c.failed.Load() == before {
			t.Errorf("cycle %d: no engine has noticed", i)
		}
	}
	total := stop()
	if total < 20*cycles {
		t.Errorf("only %d intents were enqueued", total)
	}
	effort.Note(t, "%d times PostgreSQL was killed or stopped", cycles)
	d.allSettled(t, c, far, total)
}

// Every connection to PostgreSQL is cut, again and again, while several engines
// deliver. Nothing is lost, nothing that is not idempotent is sent twice, and all
// settle in the end.
func TestConnectionsCutUnderLoadLoseNothingAndRepeatNothing(t *testing.T) {
	d := migrated(t, databases[0].make(t))
	through, proxy := d.behind(t)
	far := newReceiver(t)
	far.takes = 20 * time.Millisecond
	p := program{Address: through, Receiver: far.place(), Policy: steady, Kinds: grid(steadyLease, steadyTimeout)}
	c := d.hire(t, 3, p)
	stop := d.pour(t, p.Kinds)
	for range 20 {
		far.more(t, 6)
		proxy.Cut()
	}
	if n := c.failed.Load(); n < 20 {
		t.Errorf("only %d calls have failed", n)
	}
	d.allSettled(t, c, far, stop())
}

// Another process holds SQLite's write lock for longer than a write may take, again
// and again, while several engines deliver. Nothing is lost, nothing that is not
// idempotent is sent twice, and all settle once it is gone.
func TestForeignWriteLockUnderLoadLosesNothingAndRepeatsNothing(t *testing.T) {
	d := migrated(t, databases[1].make(t))
	far := newReceiver(t)
	// The lease has room for a whole loop and for every time that the lock is held.
	p := program{Address: d.address, Receiver: far.place(), Policy: steady, Kinds: grid(time.Minute, steadyTimeout), Patience: 2 * time.Second}
	c := d.hire(t, 2, p)
	stop := d.pour(t, p.Kinds)
	far.more(t, 20)
	before := c.failed.Load()
	lock := program{Name: "lock", Address: d.address, Lock: 2500 * time.Millisecond}.start(t)
	until(t, "engines have noticed", func() bool { return c.failed.Load() > before })
	far.more(t, 20) // in between, as none can be started under the lock
	before = c.failed.Load()
	until(t, "engines have noticed again", func() bool { return c.failed.Load() > before })
	if out := lock.end(); out.Locks < 2 {
		t.Errorf("the lock was held %d times", out.Locks)
	}
	far.more(t, 20)
	d.allSettled(t, c, far, stop())
}

// The network to PostgreSQL refuses connections, and then swallows what is sent and
// brings it later, when its sender has given up, while several engines deliver.
// Nothing is lost, nothing that is not idempotent is sent twice, and all settle in
// the end.
func TestNetworkThatRefusesAndSwallowsLosesNothingAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	d := migrated(t, databases[0].make(t))
	through, proxy := d.behind(t)
	far := newReceiver(t)
	far.takes = 10 * time.Millisecond
	p := program{Address: through, Receiver: far.place(), Policy: steady, Kinds: grid(steadyLease, steadyTimeout), Patience: 2 * time.Second}
	c := d.hire(t, 2, p)
	stop := d.pour(t, p.Kinds)
	late := 0
	for range effort.Of(1, 20) {
		far.more(t, 10)
		proxy.Refuse(true)
		proxy.Cut()
		c.failedCalls(t, 5)
		proxy.Refuse(false)
		far.more(t, 10)
		held := proxy.Hold()
		c.failedCalls(t, 2)
		n, err := held.Release(t.Context())
		if err != nil {
			t.Logf("what was late: %v", err) // the other end may have gone
		}
		late += n
	}
	if late == 0 {
		t.Error("nothing came late")
	}
	far.more(t, 10)
	effort.Note(t, "%d bytes came late", late)
	d.allSettled(t, c, far, stop())
}

// The network to PostgreSQL becomes slow: first so that everything takes long and
// still arrives in time, then so that calls are given up while their bytes trickle,
// and what they ask for happens afterwards or never. Nothing is lost, nothing that is
// not idempotent is sent twice, and all settle in the end.
func TestNetworkThatTricklesLosesNothingAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	d := migrated(t, databases[0].make(t))
	through, proxy := d.behind(t)
	far := newReceiver(t)
	far.takes = 10 * time.Millisecond
	p := program{Address: through, Receiver: far.place(), Policy: steady, Kinds: grid(steadyLease, steadyTimeout), Patience: 2 * time.Second}
	c := d.hire(t, 2, p)
	stop := d.pour(t, p.Kinds)
	rounds := effort.Of(1, 10)
	for range rounds {
		far.more(t, 10)
		proxy.Slow(1024, 2*time.Millisecond)
		far.more(t, 10)
		proxy.Slow(16, 20*time.Millisecond)
		c.failedCalls(t, 2)
		proxy.Slow(0, 0)
	}
	far.more(t, 10)
	effort.Note(t, "%d times the network became slow", 2*rounds)
	d.allSettled(t, c, far, stop())
}
