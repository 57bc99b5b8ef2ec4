//go:build unix

package dispatchtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/driver/memory"
	"github.com/consign-go/consign/internal/effort"
	"github.com/consign-go/consign/internal/lifecycle"
)

// What eight workers do to one intent at the same time, each with whatever it
// remembers of it, judged for linearizability: there must be one order of all
// calls, each between its beginning and its end, that a single row with a fence
// could have gone through.

// fence is what a write must find, and what a row is as far as the model goes.
type fence struct {
	status, attempts, crashes int
	generation, revision      int64
	owner                     lifecycle.Token
	over                      bool // the lease has ended
}

func (f fence) String() string {
	return fmt.Sprintf("[%d gen %d rev %d owner %x attempts %d crashes %d over %v]", f.status, f.generation, f.revision, f.owner[12:], f.attempts, f.crashes, f.over)
}

// call is what a worker asks for.
type call struct {
	op       string // "claim", "write", "read", "expire"
	owner    lifecycle.Token
	suspects bool
	expects  fence
	lease    bool // the lease must not be over
	to       fence
}

// answer is what it gets.
type answer struct {
	held bool
	row  fence
}

const mostAttempts = 4

// claimable is the rule for claims, written down again: T2, T2b, T2c.
func (f *fence) claimable(suspects, process bool) bool {
	switch f.status {
	case isPending:
		return suspects == (f.crashes > 0)
	case isLeased:
		return f.over && suspects && f.crashes+1 < crashBudget
	case isDelivering:
		return f.over && !suspects && !process && f.attempts+1 < mostAttempts // the crashed one counts
	}
	return false
}

// claimed is what a claim makes of a row.
func (f fence) claimed(by lifecycle.Token) fence {
	switch f.status {
	case isLeased:
		f.crashes++
	case isDelivering:
		f.attempts++
	}
	f.status, f.owner, f.over = isLeased, by, false
	f.generation++
	f.revision++
	return f
}

// oneRow is the model. exact: a claim takes whatever it may; otherwise it may
// pass over what another call is writing at the moment.
func oneRow(exact, process bool) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return fence{} },
		Step: func(s, in, out any) (bool, any) {
			row, c, a := s.(fence), in.(call), out.(answer)
			switch c.op {
			case "claim":
				can := row.claimable(c.suspects, process)
				if !a.held {
					return !can || !exact, row
				}
				next := row.claimed(c.owner)
				return can && next == a.row, next
			case "write":
				found := row
				found.over, found.attempts, found.crashes = false, c.expects.attempts, c.expects.crashes
				holds := found == c.expects && !(c.lease && row.over) && row.status < isSucceeded
				if !a.held || !holds {
					return a.held == holds, row
				}
				next := c.to
				next.revision = row.revision + 1
				next.over = row.over && next.owner == row.owner
				return true, next
			case "expire":
				row.over = row.over || row.owner != lifecycle.Token{} && row.status < isSucceeded
				return true, row
			}
			seen := a.row
			seen.over = row.over // a row read later is over later
			return seen == row, row
		},
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
	}
}

// arena is one intent of one store, and who plays with it.
type arena struct {
	driver.Driver
	ref    driver.ID
	kind   kind
	policy lifecycle.Policy
	expire func() error

	began   time.Time // calls are timed from here
	mu      sync.Mutex
	history []porcupine.Operation
	seen    []lifecycle.State // whatever anybody has ever seen of the intent
	did     map[string]int
}

// record makes one call and notes it.
func (a *arena) record(client int, c call, do func() (answer, error)) {
	from := time.Since(a.began)
	out, err := inTurn(do)
	to := time.Since(a.began)
	if err != nil {
		panic(err) // nothing fails here, so nothing is unknown
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.history = append(a.history, porcupine.Operation{ClientId: client, Input: c, Call: from.Nanoseconds(), Output: out, Return: to.Nanoseconds()})
	word := c.op
	if c.op == "claim" || c.op == "write" {
		word += map[bool]string{true: " held", false: " refused"}[out.held]
	}
	a.did[word]++
}

func (a *arena) saw(s lifecycle.State) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen = append(a.seen, s)
}

func model(s *lifecycle.State) fence {
	return fence{
		status: int(s.Status), attempts: s.Attempts, crashes: s.Crashes, generation: s.Generation, revision: s.Revision, owner: s.Owner,
	}
}

// play makes one random call.
func (a *arena) play(client int, rng *rand.Rand) {
	ctx := context.Background()
	switch n := rng.IntN(20); {
	case n < 5:
		r := driver.ClaimRequest{Refs: []driver.ID{a.ref}, Limit: 1, Policy: a.policy, Suspects: rng.IntN(3) == 0}
		r.Owner = lifecycle.Token(driver.NewID())
		r.Routes = []driver.RouteLimit{{Route: driver.MessageRoute(a.kind.Name), Limit: 1}}
		a.record(client, call{op: "claim", owner: r.Owner, suspects: r.Suspects}, func() (answer, error) {
			got, err := a.Claim(ctx, r)
			if len(got) == 0 {
				return answer{}, err
			}
			a.saw(got[0].State)
			return answer{true, model(&got[0].State)}, err
		})
	case n < 7:
		a.record(client, call{op: "read"}, func() (answer, error) {
			got, err := a.Load(ctx, []driver.ID{a.ref})
			if err != nil {
				return answer{}, err
			}
			a.saw(got[0].State)
			return answer{row: model(&got[0].State)}, nil
		})
	case n < 8:
		a.record(client, call{op: "expire"}, func() (answer, error) { return answer{}, a.expire() })
	default:
		a.write(client, rng)
	}
}

// write makes of something that somebody has seen, most often of the newest, what
// an owner or a sweep would, and has it compared and set.
func (a *arena) write(client int, rng *rand.Rand) {
	a.mu.Lock()
	if len(a.seen) == 0 {
		a.mu.Unlock()
		return
	}
	at := len(a.seen) - 1
	if rng.IntN(3) == 0 {
		at = rng.IntN(len(a.seen))
	}
	s := a.seen[at]
	a.mu.Unlock()
	ev := lifecycle.Event{Owner: s.Owner, Generation: s.Generation, Attempt: s.AttemptNo(), Digest: lifecycle.Digest{1}}
	kinds := []lifecycle.EventKind{
		lifecycle.EvStart, lifecycle.EvStart, lifecycle.EvStart, lifecycle.EvReleased, lifecycle.EvRefused, lifecycle.EvRefused,
		lifecycle.EvUnknown, lifecycle.EvSucceeded, lifecycle.EvSweep, lifecycle.EvUndecided, lifecycle.EvInterrupted,
	}
	ev.Kind = kinds[rng.IntN(len(kinds))]
	tr := a.policy.Apply(s, ev)
	if tr.Answer != lifecycle.Apply {
		return
	}
	tr.Ref = a.ref
	c := call{op: "write", expects: model(&s), lease: tr.Require.LeaseLeft > 0}
	c.to = fence{
		status: int(tr.Set.Status), attempts: tr.Set.Attempts, crashes: tr.Set.Crashes, generation: tr.Set.Generation, owner: tr.Set.Owner,
	}
	a.record(client, c, func() (answer, error) {
		held, err := a.Apply(context.Background(), []lifecycle.Transition{tr})
		if err != nil {
			return answer{}, err
		}
		if held[0] {
			s.Status, s.Generation, s.Owner, s.InFlight = tr.Set.Status, tr.Set.Generation, tr.Set.Owner, tr.Set.InFlight
			s.Attempts, s.Crashes, s.Uncertain, s.Digest, s.Code = tr.Set.Attempts, tr.Set.Crashes, tr.Set.Uncertain, tr.Set.Digest, tr.Set.Code
			s.Revision++
			a.saw(s)
		}
		return answer{held: held[0]}, nil
	})
}

// run lets eight workers play, all at once.
func (a *arena) run(seed uint64, calls int) {
	var group sync.WaitGroup
	start := make(chan struct{})
	a.began = time.Now()
	for client := range 8 {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(client)))
			<-start
			for range calls {
				a.play(client, rng)
			}
		})
	}
	close(start)
	group.Wait()
}

// raced is the kind that is played with: due again at once, its lease far longer
// than a test, unless it is made to be over. Every other one is process-owned: its
// status stays the same from attempt to attempt, and only the revision tells them
// apart.
func raced(i int) kind {
	k := grid(time.Hour, time.Second)[1+i%2]
	k.Contract.Idempotent = true
	k.Contract.MaxAttempts = mostAttempts
	return k.named("raced")
}

var racing = lifecycle.Policy{SettleMargin: time.Second, CrashBudget: crashBudget}

// onMemory is an arena in memory.
func onMemory(t *testing.T, i int, wrap func(driver.Driver) driver.Driver) *arena {
	s := memory.New()
	a := &arena{Driver: wrap(s), kind: raced(i), policy: racing, did: map[string]int{}}
	rows := a.kind.rows(1)
	a.ref = rows[0].Ref
	_, tx, err := s.Begin(t.Context())
	if err == nil {
		err = tx.Insert(t.Context(), rows)
	}
	if err == nil {
		err = tx.Commit(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	a.expire = func() error {
		s.Advance(2 * time.Hour)
		return nil
	}
	return a
}

// totals adds up what happened in all histories.
type totals map[string]int

func (n totals) add(a *arena) {
	for word, count := range a.did {
		n[word] += count
	}
}

// enough fails a test that has tried too little.
func (n totals) enough(t *testing.T, histories int) {
	t.Helper()
	effort.Note(t, "%d histories: %v", histories, n)
	for _, word := range []string{"claim held", "claim refused", "write held", "write refused", "read", "expire"} {
		if n[word] < histories/2 {
			t.Errorf("%q happened %d times in %d histories", word, n[word], histories)
		}
	}
}

// judge reports a history that no single row could have gone through.
func (a *arena) judge(exact bool) bool {
	return porcupine.CheckOperations(oneRow(exact, a.kind.process()), a.history)
}

// A thousand histories of eight workers at one intent are linearizable.
func TestConcurrentOwnersSeeOneIntentAsIfOneByOne(t *testing.T) {
	seed, n := rand.Uint64(), totals{}
	const histories = 1000
	for i := range histories {
		a := onMemory(t, i, func(d driver.Driver) driver.Driver { return d })
		a.run(seed+uint64(i), 10)
		if !a.judge(true) {
			t.Fatalf("seed %d: no order explains\n%s", seed+uint64(i), a.story())
		}
		n.add(a)
	}
	n.enough(t, histories)
}

// The same on real databases, several intents at a time.
func TestConcurrentOwnersSeeOneIntentAsIfOneByOneInADatabase(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		t.Parallel()
		seed, n := rand.Uint64(), totals{}
		beside, rounds := 8, 5
		if d.File != "" {
			beside, rounds = 2, 3 // each call waits for a turn at the one write lock
		}
		for round := range rounds {
			var arenas []*arena
			var group sync.WaitGroup
			for i := range beside {
				a := &arena{Driver: d.Driver, kind: raced(i), policy: racing, did: map[string]int{}}
				a.ref = d.enqueue(t, a.kind, 1)[0]
				a.expire = func() error { return d.overdue(context.Background(), name(a.ref)) }
				arenas = append(arenas, a)
				group.Go(func() { a.run(seed+uint64(round*beside+i), 8) })
			}
			group.Wait()
			for _, a := range arenas {
				if !a.judge(false) {
					t.Fatalf("seed %d: no order explains\n%s", seed, a.story())
				}
				n.add(a)
			}
		}
		n.enough(t, rounds*beside)
	})
}

func (a *arena) story() (text string) {
	for _, o := range a.history {
		c, out := o.Input.(call), o.Output.(answer)
		text += fmt.Sprintf("%d-%d worker %d: %s suspects %v expects %s lease %v to %s -> %v %s\n",
			o.Call, o.Return, o.ClientId, c.op, c.suspects, c.expects, c.lease, c.to, out.held, out.row)
	}
	return text
}
