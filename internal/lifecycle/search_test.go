package lifecycle_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/effort"
	"github.com/consign-go/consign/internal/lifecycle"
)

// unit is the search's grain of time. Leases, timeouts, waits and the margin are
// whole units, so every boundary is met exactly.
const unit = time.Second

var searchPolicy = lifecycle.Policy{SettleMargin: unit, CrashBudget: 2}

// searched is one kind of intent that the search walks.
type searched struct {
	name     string
	profile  lifecycle.Profile
	contract lifecycle.Contract // zero: not known until a claim
	carried  bool               // a redelivery: uncertain, its digest bound
	hand     bool

	owners   int  // who act on it. Default: 2
	attempts int  // that a claim brings where it brings the contract. Default: 2
	gated    bool // its gate is closed at first, and opens at any moment
}

// searchContract has room for a start until 2 of its lease's 4 units are left.
func searchContract(retry lifecycle.RetryOwner, idempotent bool, attempts int, age time.Duration) lifecycle.Contract {
	return lifecycle.Contract{
		Retry: retry, Idempotent: idempotent, MaxAttempts: attempts, Lease: 4 * unit, Timeout: unit, MaxAge: age,
	}
}

var searches = []searched{
	{name: "work", profile: lifecycle.Work, contract: searchContract(lifecycle.Schedule, false, 2, 9*unit)},
	{name: "work idempotent", profile: lifecycle.Work, contract: searchContract(lifecycle.Schedule, true, 2, 9*unit)},
	{name: "work idempotent ageless", profile: lifecycle.Work,
		contract: searchContract(lifecycle.Schedule, true, 3, 0)},
	{name: "work redelivered", profile: lifecycle.Work, carried: true,
		contract: searchContract(lifecycle.Schedule, true, 2, 7*unit)},
	{name: "message schedule", profile: lifecycle.Message,
		contract: searchContract(lifecycle.Schedule, false, 3, 0)},
	{name: "message schedule idempotent", profile: lifecycle.Message,
		contract: searchContract(lifecycle.Schedule, true, 2, 7*unit)},
	{name: "message process", profile: lifecycle.Message,
		contract: searchContract(lifecycle.Process, false, 2, 7*unit)},
	{name: "message process idempotent", profile: lifecycle.Message,
		contract: searchContract(lifecycle.Process, true, 3, 0)},
	{name: "message by hand", profile: lifecycle.Message, hand: true},
	{name: "message not known", profile: lifecycle.Message},
}

// first is the world in which the intent has just been created.
func (c *searched) first() world {
	w := world{store: store{policy: searchPolicy, row: row{
		profile: c.profile, contract: c.contract, gateOpen: !c.gated, lease: none, review: none, deadline: none,
	}}}
	if c.contract.MaxAge > 0 {
		w.store.row.deadline = c.contract.MaxAge
	}
	if c.carried {
		w.store.row.uncertain, w.store.row.digest = true, digestOf('x')
	}
	w.judge = birth(&w.store.row)
	return w
}

// TestEveryHistoryOfTwoOwnersKeepsTheInvariants walks every sequence of events,
// of any length, that two owners with a few attempts can bring about with crashes
// (an owner that is never heard of again), expiry at any moment, answers that are
// lost, decisions that are written late, operators and erasure. Histories that
// can no longer differ are walked once.
func TestEveryHistoryOfTwoOwnersKeepsTheInvariants(t *testing.T) {
	for _, c := range searches {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := search{actions: c.actions()}
			if underRace || testing.Short() {
				s.upTo = 600
			}
			if err := s.walk(c.first()); err != nil {
				t.Fatal(err)
			}
			effort.Note(t, "%d states, %d events, %d fenced, %d overtaken", len(s.nodes), s.edges, s.fenced, s.overtaken)
			t.Logf("statuses %v, codes %v", s.statuses, s.codes)
			s.didEnough(t)
		})
	}
}

func (s *search) didEnough(t *testing.T) {
	t.Helper()
	if s.upTo == 0 && (len(s.nodes) < 1000 || s.fenced < 1000 || s.overtaken < 100) {
		t.Error("the search did too little")
	}
}

// brings is the contract that a claim copies where the intent has none.
func (c *searched) brings() lifecycle.Contract {
	return searchContract(lifecycle.Process, !c.hand, max(c.attempts, 2), 7*unit)
}

// actions lists what may happen next, whatever the state.
func (c *searched) actions() []action {
	list := []action{{after: unit}}
	if c.gated {
		list = append(list, action{opens: true})
	}
	for who := range max(c.owners, 2) {
		for k := lifecycle.EvClaim; k <= lifecycle.EvHandFailed; k++ {
			list = append(list, c.variants(action{kind: k, who: who, digest: 'x', contract: c.brings(), wait: unit})...)
		}
	}
	return list
}

func (c *searched) variants(a action) []action {
	b := a
	switch k := a.kind; {
	case c.profile == lifecycle.Work && (byHand(k) || k == lifecycle.EvHandClaim), byHand(k) && !c.hand && a.who > 0:
		return nil // never accepted; the grid shows it
	case k == lifecycle.EvHandClaim:
		b.contract.Idempotent = !b.contract.Idempotent
		c := a
		c.unheard = true
		return []action{a, b, c}
	case claims(k):
		b.unheard = true
		return []action{a, b}
	case k == lifecycle.EvStart:
		b.digest = 'y'
		c := a
		c.unheard = true
		return []action{a, b, c}
	case k == lifecycle.EvStopped:
		a.code, b.code = lifecycle.AuthorityRevoked, lifecycle.RecordChanged
		return []action{a, b}
	case k == lifecycle.EvRejected:
		b.retryable = true
		c := b
		c.proof = "v1,c2lnbmVk"
		return []action{a, b, c}
	case k == lifecycle.EvHandAttempt, k == lifecycle.EvHandFailed:
		b.told = lifecycle.Refused
		c := a
		c.told = lifecycle.Unknown
		return []action{a, b, c}
	case byOwner(k):
		return []action{a}
	case a.who == 0:
		a.code = lifecycle.HandlerMissing // for EvUnserved
		return []action{a}
	}
	return nil
}

// search is a breadth-first walk. A node remembers how it was reached, so that
// the first broken promise is told by its shortest history.
type search struct {
	actions []action
	upTo    int // stop after so many nodes; 0: never
	byHand  int // attempts that are marked by hand, where there is no limit. Default: 2
	nodes   []node
	seen    map[world]int32
	keeps   bool
	follows [][]edge // by node, if keeps
	tally
}

// delays are how long a decision may wait until it is written.
var delays = []time.Duration{0, unit, 3 * unit}

// step names an action of the search and its delay.
type step struct {
	action int16
	delay  time.Duration
}

const calmly = -1 // the action of a step that goOn took

type node struct {
	world  world
	parent int32
	by     step        // what led here
	calm   [ways]int32 // the next node once faults stop, for each way of going on
}

// tally counts what was met, so that a walk that did too little fails.
type tally struct {
	edges, fenced, overtaken int
	statuses                 [16]int // by Status
	applied                  [32]int // by EventKind
	codes                    map[lifecycle.Code]int
}

// add adds what was met elsewhere.
func (m *tally) add(other *tally) {
	m.edges, m.fenced, m.overtaken = m.edges+other.edges, m.fenced+other.fenced, m.overtaken+other.overtaken
	for i, n := range other.statuses {
		m.statuses[i] += n
	}
	for i, n := range other.applied {
		m.applied[i] += n
	}
	if m.codes == nil {
		m.codes = map[lifecycle.Code]int{}
	}
	for code, n := range other.codes {
		m.codes[code] += n
	}
}

// walk visits everything that can be reached, and then follows every way home.
func (s *search) walk(first world) error {
	s.seen = map[world]int32{}
	s.tally = tally{codes: map[lifecycle.Code]int{}}
	first.canonical()
	s.visit(&first, -1, step{})
	for i := 0; i < len(s.nodes); i++ {
		if s.upTo > 0 && i >= s.upTo {
			return nil // mustEnd wants the whole
		}
		for n := range s.actions {
			for _, late := range delays {
				w, a := s.nodes[i].world, s.actions[n]
				if a.who > 0 && w.owners[a.who] == w.owners[a.who-1] {
					break // interchangeable with the one before
				}
				if w.store.row.contract.MaxAttempts == 0 && w.store.row.attempts >= max(s.byHand, 2) && repeats(a.kind) {
					break // by hand there is no limit, and the search wants one
				}
				a.delay = late
				d, held, broken := w.do(a)
				if broken != nil {
					return fmt.Errorf("%w\n%s", broken, s.history(int32(i), a))
				}
				s.count(&w, &d, held)
				if a.kind != 0 && d.t.Answer != lifecycle.Apply {
					break // nothing changed, and no delay will change that
				}
				takes := held && (claims(a.kind) || starts(a.kind) && w.store.row.inFlight)
				w.canonical()
				to := s.visit(&w, int32(i), step{int16(n), late})
				s.keep(i, edge{to: to, passes: int8((a.after + a.delay) / unit), only: a.kind == 0, opens: a.opens, takes: takes})
			}
		}
		if err := s.goOn(int32(i)); err != nil {
			return err
		}
	}
	return s.mustEnd()
}

func repeats(k lifecycle.EventKind) bool {
	return k == lifecycle.EvHandAttempt
}

func (s *search) visit(w *world, parent int32, by step) int32 {
	at, ok := s.seen[*w]
	if !ok {
		at = int32(len(s.nodes))
		s.seen[*w] = at
		s.nodes = append(s.nodes, node{world: *w, parent: parent, by: by})
	}
	return at
}

func (m *tally) count(w *world, d *decided, held bool) {
	m.edges++
	if d.t.Answer == lifecycle.Refuse {
		m.fenced++
	}
	if d.t.Answer == lifecycle.Apply && !held {
		m.overtaken++
	}
	if held {
		m.statuses[w.store.row.status]++
		if code := w.store.row.code; code != "" {
			m.codes[code]++
		}
		m.applied[d.event.Kind]++
	}
}

// history tells how a node was reached.
func (s *search) history(i int32, last action) string {
	lines := []string{last.String()}
	for ; s.nodes[i].parent >= 0; i = s.nodes[i].parent {
		by := s.nodes[i].by
		if by.action == calmly {
			lines = append(lines, "a calm step")
			continue
		}
		a := s.actions[by.action]
		a.delay = by.delay
		lines = append(lines, a.String())
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}

// canonical forgets what can no longer make a difference: how long ago things
// were, how high the numbers are, which of several dead claims was whose, and who
// of the owners holds the claim.
func (w *world) canonical() {
	r, now := &w.store.row, w.store.now
	shift := func(moment *at, floor time.Duration) {
		if *moment != none {
			*moment = max(*moment-now, floor)
		}
	}
	if r.contract.Retry == lifecycle.Unclaimed {
		shift(&r.due, -8*unit) // a deadline may still be counted from it
	} else {
		shift(&r.due, 0)
	}
	shift(&r.deadline, 0)
	shift(&r.lease, -w.store.policy.SettleMargin)
	shift(&r.review, -w.store.policy.SettleMargin)
	w.store.now = 0
	w.claims = 0
	r.revision = 0

	const high = 9
	dead, live := lifecycle.Token{0xff}, r.owner
	rank := func(mine *claimed) int {
		switch {
		case mine.token == lifecycle.Token{}:
			return 2 // has nothing
		case mine.token == live && mine.generation == r.generation:
			return 0 // holds it, and is called a from here on
		}
		return 1
	}
	for i := range w.owners { // they are interchangeable
		for k := i; k > 0 && rank(&w.owners[k]) < rank(&w.owners[k-1]); k-- {
			w.owners[k], w.owners[k-1] = w.owners[k-1], w.owners[k]
		}
	}
	rename := func(token *lifecycle.Token) {
		switch {
		case *token == lifecycle.Token{}:
		case *token == live:
			*token = lifecycle.Token{'a'}
		default:
			*token = dead
		}
	}
	for i := range w.owners {
		mine := &w.owners[i]
		switch rank(mine) {
		case 0:
			mine.generation = high
			rename(&mine.token)
		case 1:
			*mine = claimed{token: dead, generation: high - 1, attempt: 1}
		}
	}
	j := &w.judge
	j.openGen -= r.generation - high
	if !j.open {
		j.openBy, j.openGen, j.openNo = lifecycle.Token{}, 0, 0
	}
	j.ownerGen = min(j.ownerGen, high)
	if j.ownerGen > 0 {
		j.ownerGen = high
	}
	r.generation = high
	for _, token := range []*lifecycle.Token{&j.openBy, &j.loop, &j.owner, &r.owner} {
		rename(token)
	}
}

// goOn notes, for each way of going on once faults stop, the node that follows i.
func (s *search) goOn(i int32) error {
	for way := range s.nodes[i].calm {
		w := s.nodes[i].world
		w.store.row.gateOpen = true // whoever stood before it has come to an end
		if w.store.over() {
			s.nodes[i].calm[way] = -1
			continue
		}
		if broken := w.calmStep(way, searchContract(lifecycle.Process, true, 2, 0)); broken != nil {
			return fmt.Errorf("%w, once calm (way %d), after\n%s", broken, way, s.history(i, action{}))
		}
		w.canonical()
		s.nodes[i].calm[way] = s.visit(&w, i, step{action: calmly})
	}
	return nil
}

// mustEnd holds 12.9: from everywhere, each way of going on comes to an end
// within a bounded number of steps.
func (s *search) mustEnd() error {
	const bound = 60
	for way := range s.nodes[0].calm {
		for i := range s.nodes {
			at, steps := int32(i), 0
			for at = s.nodes[at].calm[way]; at >= 0; at = s.nodes[at].calm[way] {
				if steps++; steps > bound {
					return wrong("12.9: no end within %d steps (way %d) after\n%s", bound, way, s.history(int32(i), action{}))
				}
			}
		}
	}
	return nil
}
