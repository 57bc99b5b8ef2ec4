package lifecycle_test

import (
	"flag"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/effort"
	"github.com/consign-go/consign/internal/lifecycle"

	"pgregory.net/rapid"
)

// moreChecks makes rapid do n checks, unless the command line says how many.
func moreChecks(t *testing.T, n int) {
	const name = "rapid.checks"
	if was := flag.Lookup(name); was.Value.String() == was.DefValue && !testing.Short() {
		if err := flag.Set(name, strconv.Itoa(n)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = flag.Set(name, was.DefValue) })
	}
}

var (
	seedFlag    = flag.Uint64("history.seed", 0, "seed of the random histories; 0: another one each time")
	countFlag   = flag.Int64("history.count", 0, "how many random histories; 0: as many as a run of this length asks for")
	historyFlag = flag.Int64("history.number", -1, "tell the random history of this number alone")
)

// TestRandomHistoriesKeepTheInvariants drives three owners, any of whom may be
// stale, through random events at and around every boundary of time, with
// decisions that are written late, writes that arrive after others, and answers
// that are lost. Afterwards faults stop, and each history must come to its end. One
// that breaks an invariant is told as short as it can be, with the command that
// makes it again.
func TestRandomHistoriesKeepTheInvariants(t *testing.T) {
	many := int64(effort.Of(1_000_000, 100_000_000))
	if underRace || testing.Short() {
		many = 10_000
	}
	if *countFlag > 0 {
		many = *countFlag
	}
	seed, from := *seedFlag, int64(0)
	if seed == 0 {
		seed = rand.Uint64()
	}
	if *historyFlag >= 0 {
		from, many = *historyFlag, 1
	}
	const block = 1000 // what each core takes at a time
	var met history
	var mu sync.Mutex
	var group sync.WaitGroup
	var failed atomic.Bool
	var next atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			h := newHistory()
			for !failed.Load() {
				low := next.Add(block) - block
				for i := low; i < min(low+block, many); i++ {
					if broken := h.invent(seed, uint64(from+i), 0); broken != nil && !failed.Swap(true) {
						short, told := h.shrink(broken)
						t.Errorf("%v\n%s\nagain: go test ./internal/lifecycle -run '^%s$' -history.seed=%d -history.number=%d",
							told, h.story(short), t.Name(), seed, from+i)
					}
				}
				if low >= many {
					break
				}
			}
			mu.Lock()
			defer mu.Unlock()
			met.add(&h.tally)
			met.ended += h.ended
		})
	}
	group.Wait()
	if t.Failed() || *historyFlag >= 0 {
		return
	}
	effort.Note(t, "%d histories of seed %d: %d came to an end under faults, %d events, %d fenced, %d overtaken",
		many, seed, met.ended, met.edges, met.fenced, met.overtaken)
	t.Logf("statuses %v\ncodes %v\nevents %v", met.statuses, met.codes, met.applied)
	if int64(met.ended) < many/2 || met.fenced < int(many/10) || met.overtaken < int(many/100) {
		t.Error("the run did too little")
	}
	for _, s := range lifecycle.Statuses {
		if met.statuses[s] == 0 {
			t.Errorf("the run did too little: no %v", s)
		}
	}
	for _, k := range lifecycle.EventKinds() {
		if met.applied[k] == 0 {
			t.Errorf("the run did too little: no %v", k)
		}
	}
}

// TestApplyIsTotalAndPure asks for every event in states that no store holds: the
// answer is one of the four, the same for the same question, and sets nothing
// unless it is Apply. The only panic is the one that says what would break.
func TestApplyIsTotalAndPure(t *testing.T) {
	moreChecks(t, 3000)
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.Make[lifecycle.State]().Draw(t, "state")
		e := rapid.Make[lifecycle.Event]().Draw(t, "event")
		s.Status = lifecycle.Status(rapid.IntRange(0, 8).Draw(t, "status"))
		s.Contract.Retry = lifecycle.RetryOwner(rapid.IntRange(0, 3).Draw(t, "retry"))
		e.Kind = lifecycle.EventKind(rapid.IntRange(0, 24).Draw(t, "kind"))
		if rapid.Bool().Draw(t, "own") {
			e.Owner, e.Generation = s.Owner, s.Generation
		}
		ask := func() (answer lifecycle.Transition, panicked any) {
			defer func() { panicked = recover() }()
			return lifecycle.DefaultPolicy.Apply(s, e), nil
		}
		first, panicked := ask()
		second, again := ask()
		if !reflect.DeepEqual(first, second) || !reflect.DeepEqual(panicked, again) {
			t.Fatalf("two answers to one question:\n%+v %v\n%+v %v", first, panicked, second, again)
		}
		if panicked != nil {
			if text, ok := panicked.(string); !ok || !strings.HasPrefix(text, "lifecycle: ") {
				t.Fatalf("panic: %v", panicked)
			}
			return
		}
		if first.Answer < lifecycle.Apply || first.Answer > lifecycle.TooLate {
			t.Fatalf("no answer: %+v", first)
		}
		if first.Answer != lifecycle.Apply && first.Set != (lifecycle.Columns{}) {
			t.Fatalf("%v, yet something is set: %+v", first.Answer, first.Set)
		}
		if first.Answer == lifecycle.Apply && (first.Fence.Status != s.Status || first.Fence.Generation != s.Generation ||
			first.Fence.Revision != s.Revision || first.Fence.Owner != s.Owner) {
			t.Fatalf("the fence is not the state that was asked about: %+v", first.Fence)
		}
	})
}

// TestEachPartOfTheFenceIsComparedByItself lets one thing alone be out of date:
// every event of an owner is refused, though the rest would let it pass.
func TestEachPartOfTheFenceIsComparedByItself(t *testing.T) {
	owner := lifecycle.Token{1}
	for name, spoil := range map[string]func(s *lifecycle.State, e *lifecycle.Event){
		"the owner":          func(_ *lifecycle.State, e *lifecycle.Event) { e.Owner = lifecycle.Token{2} },
		"a later generation": func(s *lifecycle.State, _ *lifecycle.Event) { s.Generation++ },
		"an erasure":         func(s *lifecycle.State, _ *lifecycle.Event) { s.Erased = true },
		"nobody's claim": func(s *lifecycle.State, e *lifecycle.Event) {
			s.Owner, e.Owner = lifecycle.Token{}, lifecycle.Token{}
		},
	} {
		for _, status := range lifecycle.Statuses {
			for _, k := range lifecycle.EventKinds() {
				if !byOwner(k) {
					continue
				}
				s := lifecycle.State{
					Profile: lifecycle.Message, Status: status, Owner: owner, Generation: 4, InFlight: true, Attempts: 1,
					Contract: lifecycle.Contract{Retry: lifecycle.Process}, LeaseLeft: time.Hour, DeadlineLeft: lifecycle.Never,
				}
				e := lifecycle.Event{Kind: k, Owner: owner, Generation: 4, Attempt: 2, Code: lifecycle.RecordChanged}
				spoil(&s, &e)
				if got := lifecycle.DefaultPolicy.Apply(s, e); got.Answer != lifecycle.Refuse || got.Code != lifecycle.Fenced {
					t.Errorf("%s is out of date, and %v in status %v is answered %v %q", name, k, status, got.Answer, got.Code)
				}
			}
		}
	}
}
