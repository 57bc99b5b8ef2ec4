package lifecycle_test

import (
	"flag"
	"reflect"
	"strconv"
	"strings"
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

var drawDuration = rapid.SampledFrom([]time.Duration{0, time.Microsecond, time.Second, 30 * time.Second, time.Hour})

// drawWorld makes an intent of any contract, sometimes a redelivered one.
func drawWorld(t *rapid.T) world {
	r := row{
		profile:  rapid.SampledFrom([]lifecycle.Profile{lifecycle.Work, lifecycle.Message}).Draw(t, "profile"),
		gateOpen: rapid.IntRange(0, 5).Draw(t, "gate") < 5, lease: none, review: none, deadline: none,
	}
	if r.profile == lifecycle.Work || rapid.IntRange(0, 9).Draw(t, "known") > 0 {
		r.contract = drawContract(t, r.profile)
		if r.contract.MaxAge > 0 {
			r.deadline = r.contract.MaxAge
		}
	}
	if r.contract.Idempotent && rapid.IntRange(0, 4).Draw(t, "redelivered") == 0 {
		r.uncertain, r.digest = true, digestOf('x')
	}
	w := world{store: store{policy: lifecycle.DefaultPolicy, row: r}, judge: birth(&r)}
	w.store.policy.CrashBudget = rapid.IntRange(1, 5).Draw(t, "crash budget")
	return w
}

func drawContract(t *rapid.T, profile lifecycle.Profile) lifecycle.Contract {
	c := lifecycle.Contract{
		Retry:       lifecycle.Schedule,
		Idempotent:  rapid.Bool().Draw(t, "idempotent"),
		MaxAttempts: rapid.IntRange(1, 4).Draw(t, "attempts"),
		Lease:       rapid.SampledFrom([]time.Duration{45 * time.Second, time.Minute, 5 * time.Minute}).Draw(t, "lease"),
		Timeout:     30 * time.Second,
		MaxAge:      rapid.SampledFrom([]time.Duration{0, 90 * time.Second, 10 * time.Minute, 24 * time.Hour}).Draw(t, "age"),
	}
	if profile == lifecycle.Message && rapid.Bool().Draw(t, "process") {
		c.Retry = lifecycle.Process
	}
	return c
}

// drawPause lets time pass: not at all, a little, or exactly up to, just before or
// just after a boundary.
func drawPause(t *rapid.T, w *world) time.Duration {
	if rapid.IntRange(0, 9).Draw(t, "passes") < 7 {
		return 0
	}
	r, s := &w.store.row, &w.store
	pauses := []time.Duration{time.Second, 30 * time.Second}
	moments := []at{r.due, r.deadline}
	if r.lease != none {
		moments = append(moments, r.lease, r.lease+s.policy.SettleMargin,
			r.lease-s.policy.SettleMargin-r.contract.Timeout)
	}
	for _, m := range moments {
		for _, edge := range []time.Duration{-time.Microsecond, 0, time.Microsecond} {
			if m != none && m+edge > s.now {
				pauses = append(pauses, m+edge-s.now)
			}
		}
	}
	return rapid.SampledFrom(pauses).Draw(t, "pause")
}

// drawAction is what happens next: mostly what would, so that most histories
// come to their end, and otherwise anything at all.
func drawAction(t *rapid.T, w *world) action {
	r := &w.store.row
	a := action{
		who: rapid.IntRange(0, len(w.owners)-1).Draw(t, "who"), digest: 'x', err: "why",
		wait: drawDuration.Draw(t, "wait"),
	}
	kinds := lifecycle.EventKinds()
	if rapid.IntRange(0, 9).Draw(t, "expected") < 8 {
		kinds = expected(r)
		for i := range w.owners {
			if byOwner(kinds[0]) && r.owner != (lifecycle.Token{}) && w.owners[i].token == r.owner {
				a.who = i
			}
		}
	}
	a.kind = rapid.SampledFrom(kinds).Draw(t, "event")
	a.contract = drawContract(t, lifecycle.Message)
	switch a.kind {
	case lifecycle.EvStopped, lifecycle.EvUnserved:
		a.code = rapid.SampledFrom(lifecycle.Codes).Draw(t, "code")
	case lifecycle.EvStart, lifecycle.EvHandClaim:
		a.digest = rapid.SampledFrom([]byte{'x', 'x', 'x', 'y'}).Draw(t, "digest")
	case lifecycle.EvRejected:
		a.retryable = rapid.Bool().Draw(t, "retryable")
	case lifecycle.EvHandAttempt, lifecycle.EvHandFailed:
		a.told = rapid.SampledFrom([]lifecycle.Outcome{0, lifecycle.NotSent, lifecycle.Refused, lifecycle.Rejected, lifecycle.Unknown}).Draw(t, "told")
	}
	switch a.kind {
	case lifecycle.EvNotSent, lifecycle.EvRefused, lifecycle.EvRejected, lifecycle.EvUnknown, lifecycle.EvSucceeded:
		a.proof = rapid.SampledFrom([]string{"", "", "", "v1,c2lnbmVk"}).Draw(t, "proof")
	}
	a.after, a.delay = drawPause(t, w), rapid.SampledFrom([]time.Duration{0, 0, 0, time.Second}).Draw(t, "delay")
	a.unheard = rapid.IntRange(0, 9).Draw(t, "unheard") == 0
	if rapid.IntRange(0, 9).Draw(t, "old") == 0 {
		a.attempt = rapid.IntRange(1, 3).Draw(t, "attempt")
	}
	return a
}

// expected is what would happen next to such a row if nothing went wrong, and
// the usual ways in which it does.
func expected(r *row) []lifecycle.EventKind {
	hand := r.contract.Retry == lifecycle.Process && r.contract.MaxAttempts == 0
	switch {
	case r.status == lifecycle.Pending:
		return []lifecycle.EventKind{lifecycle.EvClaim, lifecycle.EvClaim, lifecycle.EvClaim, lifecycle.EvClaim, lifecycle.EvHandClaim}
	case r.status == lifecycle.Leased:
		return []lifecycle.EventKind{
			lifecycle.EvStart, lifecycle.EvStart, lifecycle.EvStart, lifecycle.EvStart, lifecycle.EvUndecided, lifecycle.EvReleased, lifecycle.EvPanicked,
		}
	case r.inFlight && hand:
		return []lifecycle.EventKind{lifecycle.EvHandAttempt, lifecycle.EvHandDelivered, lifecycle.EvHandFailed}
	case r.inFlight:
		return []lifecycle.EventKind{
			lifecycle.EvRefused, lifecycle.EvNotSent, lifecycle.EvUnknown, lifecycle.EvRejected, lifecycle.EvSucceeded,
		}
	case r.status == lifecycle.Delivering:
		return []lifecycle.EventKind{lifecycle.EvStart, lifecycle.EvStart, lifecycle.EvInterrupted}
	}
	return []lifecycle.EventKind{lifecycle.EvCallbackFailed, lifecycle.EvResolved}
}

// TestRandomHistoriesKeepTheInvariants drives three owners, any of whom may be
// stale, through random events at and around every boundary of time, with
// decisions that are written late, writes that arrive after others, and answers
// that are lost. Afterwards faults stop, and each history must come to its end.
func TestRandomHistoriesKeepTheInvariants(t *testing.T) {
	moreChecks(t, effort.Of(6000, 1_000_000))
	met := tally{statuses: map[lifecycle.Status]int{}, codes: map[lifecycle.Code]int{}, applied: map[lifecycle.EventKind]int{}}
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		var cutOff []decided
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if w.store.over() && rapid.IntRange(0, 9).Draw(t, "enough") == 0 {
				break
			}
			if len(cutOff) > 0 && rapid.IntRange(0, 9).Draw(t, "arrives") == 0 {
				d := rapid.SampledFrom(cutOff).Draw(t, "which")
				fresh := d.t.Fence.Revision == w.store.row.revision
				held, broken := w.land(&d, true)
				if broken != nil || held && !fresh {
					t.Fatalf("a write that arrives late, of %v: held %v, %v", d.event.Kind, held, broken)
				}
				continue
			}
			w.store.row.gateOpen = w.store.row.gateOpen || rapid.IntRange(0, 5).Draw(t, "opens") == 0
			a := drawAction(t, &w)
			d, held, broken := w.do(a)
			if broken != nil {
				t.Fatalf("%v: %v\n%+v", a, broken, w.store.row)
			}
			met.count(&w, &d, held)
			if d.t.Answer == lifecycle.Apply {
				cutOff = append(cutOff, d)
			}
		}
		w.store.row.gateOpen = true
		for way := range ways {
			if broken := w.calmDown(way, lifecycle.Contract{
				Retry: lifecycle.Process, MaxAttempts: 2, Lease: time.Minute, Timeout: 30 * time.Second,
			}); broken != nil {
				t.Fatal(broken)
			}
		}
	})
	effort.Note(t, "%d events, %d fenced, %d overtaken", met.edges, met.fenced, met.overtaken)
	t.Logf("%d events, %d fenced, %d overtaken\nstatuses %v\ncodes %v\nevents %v",
		met.edges, met.fenced, met.overtaken, met.statuses, met.codes, met.applied)
	if testing.Short() {
		return
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
	if met.fenced == 0 || met.overtaken == 0 || met.statuses[lifecycle.Succeeded] == 0 {
		t.Error("the run did too little")
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
