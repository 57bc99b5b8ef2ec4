//go:build unix

package dispatchtest

import (
	"context"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// What judges is judged here: it shares nothing with what it judges, and reports
// every deliberate mistake.

// The auditor's files import nothing of this module, and compile without the other
// files of this package: they use nothing that imports it either.
func TestAuditorSharesNothingWithTheEngine(t *testing.T) {
	files := []string{"auditor_test.go", "judge_test.go", "receiver_test.go"}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if strings.Contains(i.Path.Value, "consign-go") {
				t.Errorf("%s imports %s", file, i.Path.Value)
			}
		}
	}
	if out, err := exec.CommandContext(t.Context(), "go", append([]string{"vet"}, files...)...).CombinedOutput(); err != nil {
		t.Errorf("the auditor does not stand alone: %v\n%s", err, out)
	}
}

// flawless is the story of a delivery that was refused, was in flight when its
// owner died, and was delivered by another one.
func flawless() *finding {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	second := int64(time.Second / time.Microsecond)
	zero := at.UnixMicro()
	f := &finding{ref: "r", rows: 2, payload: "{}", wanted: sum("{}"), retry: bySchedule, profile: isWork, idempotent: true, most: 5, clock: zero + 100*second}
	s := state{}
	add := func(after int64, change func(s *state)) {
		was := s
		change(&s)
		s.revision++
		f.steps = append(f.steps, step{at: zero + after*second, was: was, is: s})
	}
	claim := func(owner string, until int64) func(s *state) {
		return func(s *state) {
			s.uncertain = s.uncertain || s.inFlight
			s.status, s.owner, s.inFlight, s.leaseAt = isLeased, owner, false, zero+until*second
			s.generation++
		}
	}
	start := func(s *state) {
		s.status, s.inFlight, s.digest, s.attempts = isDelivering, true, sum("{}"), s.attempts+1
	}
	add(1, claim("a", 10))
	add(2, start)
	add(4, func(s *state) { s.status, s.owner, s.inFlight, s.leaseAt = isPending, "", false, 0 })
	add(5, claim("b", 20))
	add(6, start)
	add(30, claim("c", 50))
	add(31, start)
	add(33, func(s *state) { s.status, s.inFlight, s.uncertain, s.leaseAt = isSucceeded, false, false, 0 })
	f.now = s
	for i, after := range []int{3, 7, 32} {
		f.came = append(f.came, arrival{
			key: "r", digest: sum("{}"), claimed: sum("{}"), number: i + 1, generation: int64(i + 1), worker: "w" + string(rune('a'+i)),
			at: at.Add(time.Duration(after) * time.Second), whole: true, acted: i > 0,
		})
	}
	f.log = []logged{{generation: 1, number: 1, outcome: 2}, {generation: 2, number: 2, outcome: outcomeCrashed, code: "OUTCOME_UNKNOWN"}}
	return f
}

func TestAuditorFindsEveryMistake(t *testing.T) {
	if faults := flawless().judge(); faults != nil {
		t.Fatalf("the flawless story has faults: %v", faults)
	}
	for what, mistake := range map[string]func(f *finding){
		"a lost row":                         func(f *finding) { f.rows = 0 },
		"nothing of it was ever enqueued":    func(f *finding) { f.wanted = "" },
		"another payload":                    func(f *finding) { f.payload = "[]" },
		"another digest in the row":          func(f *finding) { f.now.digest = sum("x") },
		"another request":                    func(f *finding) { f.came[2].digest = sum("x") },
		"a change that was not noted":        func(f *finding) { f.steps = append(f.steps[:3:3], f.steps[4:]...) },
		"a generation that fell":             func(f *finding) { f.steps[5].is.generation = 1 },
		"a revision that stood still":        func(f *finding) { f.steps[5].is.revision-- },
		"two owners of a generation":         func(f *finding) { f.steps[4].is.owner = "z" },
		"an end that ended":                  func(f *finding) { f.steps[7].was.status = isFailed },
		"a digest that changed":              func(f *finding) { f.steps[6].is.digest = sum("x") },
		"doubt that vanished":                func(f *finding) { f.steps[6].is.uncertain = false },
		"taken while the lease ran":          func(f *finding) { f.steps[5].at -= 15_000_000 },
		"more attempts than allowed":         func(f *finding) { f.most = 2 },
		"too many crashes":                   func(f *finding) { f.steps[3].is.crashes = crashBudget + 1 },
		"still open":                         func(f *finding) { f.now.status = isPending },
		"not idempotent, in flight, resent":  func(f *finding) { f.idempotent = false },
		"process-owned, taken over":          func(f *finding) { f.retry = byProcess },
		"sent without a start":               func(f *finding) { f.came = append(f.came, f.came[2]) },
		"sent before its start":              func(f *finding) { f.came[2].at = f.came[2].at.Add(-5 * time.Second) },
		"two senders in a generation":        func(f *finding) { f.came[2].generation = 2 },
		"success that nobody has seen":       func(f *finding) { f.came[1].acted, f.came[2].acted = false, false },
		"cancelled, and sent":                func(f *finding) { f.now.status = isCancelled },
		"sent, and called certain":           func(f *finding) { f.now.status = isReview },
		"the same evidence twice":            func(f *finding) { f.log = append(f.log, f.log[0]) },
		"evidence of what never was":         func(f *finding) { f.log[0].generation = 9 },
		"a sender that lies about its bytes": func(f *finding) { f.came[0].claimed = sum("x") },
	} {
		f := flawless()
		mistake(f)
		if f.judge() == nil {
			t.Errorf("not found: %s", what)
		}
	}
}

// forgetful is a store with one mistake in it.
type forgetful struct {
	driver.Driver
	mu      sync.Mutex
	last    []driver.Claimed
	doApply func(ctx context.Context, f *forgetful, ts []lifecycle.Transition) ([]bool, error)
	doClaim func(ctx context.Context, f *forgetful, r driver.ClaimRequest) ([]driver.Claimed, error)
}

func (f *forgetful) Apply(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
	if f.doApply != nil {
		return f.doApply(ctx, f, ts)
	}
	return f.Driver.Apply(ctx, ts)
}

func (f *forgetful) Claim(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	if f.doClaim != nil {
		return f.doClaim(ctx, f, r)
	}
	return f.Driver.Claim(ctx, r)
}

func TestCheckerFindsEveryBrokenFence(t *testing.T) {
	for what, broken := range map[string]*forgetful{
		"a refused write is called done": {doApply: func(ctx context.Context, f *forgetful, ts []lifecycle.Transition) ([]bool, error) {
			_, err := f.Driver.Apply(ctx, ts)
			return []bool{true}, err
		}},
		"a write that was done is called refused": {doApply: func(ctx context.Context, f *forgetful, ts []lifecycle.Transition) ([]bool, error) {
			_, err := f.Driver.Apply(ctx, ts)
			return []bool{false}, err
		}},
		"the revision is not compared": {doApply: func(ctx context.Context, f *forgetful, ts []lifecycle.Transition) ([]bool, error) {
			now, err := f.Load(ctx, []driver.ID{ts[0].Ref})
			if err != nil {
				return nil, err
			}
			ts[0].Fence.Revision = now[0].State.Revision
			return f.Driver.Apply(ctx, ts)
		}},
		"neither owner nor generation is compared": {doApply: func(ctx context.Context, f *forgetful, ts []lifecycle.Transition) ([]bool, error) {
			now, err := f.Load(ctx, []driver.ID{ts[0].Ref})
			if err != nil {
				return nil, err
			}
			s := &now[0].State
			ts[0].Fence = lifecycle.Fence{Status: ts[0].Fence.Status, Generation: s.Generation, Revision: s.Revision, Owner: s.Owner}
			return f.Driver.Apply(ctx, ts)
		}},
		"the lease is not compared": {doApply: func(ctx context.Context, f *forgetful, ts []lifecycle.Transition) ([]bool, error) {
			ts[0].Require.LeaseLeft = 0
			return f.Driver.Apply(ctx, ts)
		}},
		"one claim is handed out twice": {doClaim: func(ctx context.Context, f *forgetful, r driver.ClaimRequest) ([]driver.Claimed, error) {
			got, err := f.Driver.Claim(ctx, r)
			f.mu.Lock()
			defer f.mu.Unlock()
			if len(got) == 0 {
				return f.last, err
			}
			f.last = got
			return got, err
		}},
		"a read shows an earlier row": {},
	} {
		seed, found := rand.Uint64(), false
		for i := range 300 {
			b := &forgetful{doApply: broken.doApply, doClaim: broken.doClaim}
			a := onMemory(t, i, func(d driver.Driver) driver.Driver {
				b.Driver = d
				if b.doApply == nil && b.doClaim == nil {
					return &stale{Driver: d}
				}
				return b
			})
			a.run(seed+uint64(i), 10)
			if found = !a.judge(true); found {
				break
			}
		}
		if !found {
			t.Errorf("seed %d: not found in 300 histories: %s", seed, what)
		}
	}
}

// stale is a store whose reads show what the first one saw.
type stale struct {
	driver.Driver
	once  sync.Once
	first []driver.Record
	err   error
}

func (s *stale) Load(ctx context.Context, refs []driver.ID) ([]driver.Record, error) {
	s.once.Do(func() { s.first, s.err = s.Driver.Load(ctx, refs) })
	return s.first, s.err
}
