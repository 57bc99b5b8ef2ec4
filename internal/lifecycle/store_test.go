package lifecycle_test

import (
	"fmt"
	"math"
	"time"

	"github.com/consign-go/consign/internal/lifecycle"
)

// at is a moment on the little store's clock, counted from the creation of its
// one intent. none is a stored time that is not set.
type at = time.Duration

const none at = math.MinInt64

// row is one intent and its delivery as a database would hold them. It is
// comparable, so that the exhaustive search can tell whether it was here before
// and a test can tell whether a byte changed.
type row struct {
	profile  lifecycle.Profile
	contract lifecycle.Contract

	status     lifecycle.Status
	generation int64
	revision   int64
	owner      lifecycle.Token
	inFlight   bool
	attempts   int
	crashes    int
	uncertain  bool
	digest     lifecycle.Digest
	code       lifecycle.Code
	erased     bool
	lastError  string

	gateOpen bool
	due      at
	lease    at
	deadline at
	review   at
}

// store is the little simulated store: one row and the database clock. It
// compares and sets, and decides nothing.
type store struct {
	policy lifecycle.Policy
	now    at
	row    row
	bent   int // 1 and up: decisions are bent by that seeded mistake
}

// apply asks the core, or what a seeded mistake would make of it.
func (s *store) apply(e lifecycle.Event) lifecycle.Transition {
	if s.bent > 0 {
		return mistakes[s.bent-1].apply(s.policy, s.snapshot(), e)
	}
	return s.policy.Apply(s.snapshot(), e)
}

// left is the time until a stored moment, and other where none is stored.
func (s *store) left(moment at, other time.Duration) time.Duration {
	if moment == none {
		return other
	}
	return moment - s.now
}

// snapshot is what the store hands to Apply.
func (s *store) snapshot() lifecycle.State {
	r := &s.row
	return lifecycle.State{
		Profile: r.profile, Contract: r.contract,
		Status: r.status, Generation: r.generation, Revision: r.revision, Owner: r.owner, InFlight: r.inFlight,
		Attempts: r.attempts, Crashes: r.crashes, Uncertain: r.uncertain, Digest: r.digest, Code: r.code,
		Erased: r.erased, GateOpen: r.gateOpen,
		DueIn:        s.left(r.due, lifecycle.Never),
		LeaseLeft:    s.left(r.lease, time.Hour), // meaningless without a lease, so it must not matter
		DeadlineLeft: s.left(r.deadline, lifecycle.Never),
	}
}

// holds is the WHERE clause of the compare-and-set.
func (s *store) holds(t *lifecycle.Transition) bool {
	r := &s.row
	fence := lifecycle.Fence{Status: r.status, Generation: r.generation, Revision: r.revision, Owner: r.owner}
	switch {
	case t.Fence != fence:
		return false
	case t.Require.LeaseLeft > 0 && (r.lease == none || r.lease-s.now < t.Require.LeaseLeft):
		return false
	case t.Require.DeadlineLeft && r.deadline != none && r.deadline <= s.now:
		return false
	}
	return true
}

// write is the compare-and-set: it changes the row and answers true, or changes
// nothing and answers false.
func (s *store) write(t *lifecycle.Transition) bool {
	if t.Answer != lifecycle.Apply || !s.holds(t) {
		return false
	}
	r, set := &s.row, &t.Set
	if set.SetContract {
		r.contract = set.Contract
		if r.deadline == none && r.contract.MaxAge > 0 {
			r.deadline = r.due + r.contract.MaxAge
		}
	}
	r.status, r.generation, r.owner, r.inFlight = set.Status, set.Generation, set.Owner, set.InFlight
	r.attempts, r.crashes, r.uncertain, r.digest, r.code = set.Attempts, set.Crashes, set.Uncertain, set.Digest, set.Code
	s.move(&r.lease, set.Lease)
	s.move(&r.due, set.Due)
	s.move(&r.review, set.Review)
	if r.due != none && r.deadline != none {
		r.due = min(r.due, r.deadline)
	}
	if set.SetError {
		r.lastError = set.Error
	}
	r.erased = r.erased || set.Erased
	r.revision++
	return true
}

// move carries out the instruction for one stored time.
func (s *store) move(moment *at, c lifecycle.Change) {
	switch c {
	case lifecycle.Keep:
	case lifecycle.Clear:
		*moment = none
	case lifecycle.AtLeaseEnd:
		*moment = s.row.lease
	default:
		*moment = s.now + time.Duration(c)
	}
}

// claimed is what one owner remembers of its last claim, however stale.
type claimed struct {
	token      lifecycle.Token
	generation int64
	attempt    int // the attempt it marked last
}

// world is the store, the owners who act on it, and the judge who watches. It is
// comparable.
type world struct {
	store  store
	owners [3]claimed
	claims byte // makes every claim call's token a fresh one
	judge  judge
}

// action is one thing that happens in a world: time passing, or an event.
type action struct {
	kind      lifecycle.EventKind // 0: only time passes
	who       int                 // the owner who reports or claims
	opens     bool                // the gate opens first
	after     time.Duration       // passes before the event
	delay     time.Duration       // passes between the decision and the write
	code      lifecycle.Code
	digest    byte
	wait      time.Duration
	attempt   int // 0: the one the owner marked last
	retryable bool
	proof     string // what the receiver signed beside its answer
	told      lifecycle.Outcome
	contract  lifecycle.Contract
	err       string
	http      int
	unheard   bool // the write holds, its answer is lost
}

func (a action) String() string {
	text := fmt.Sprintf("after %v: ", a.after)
	if a.opens {
		text += "the gate opens, "
	}
	if a.kind == 0 {
		return text + "-"
	}
	text += fmt.Sprintf("%v by %c", a.kind, 'a'+a.who)
	if a.delay > 0 {
		text += fmt.Sprintf(", written %v later", a.delay)
	}
	if a.code != "" {
		text += " " + string(a.code)
	}
	if starts(a.kind) {
		text += fmt.Sprintf(" digest %c", a.digest)
	}
	if a.kind == lifecycle.EvHandClaim && a.contract.Idempotent {
		text += " idempotent"
	}
	if a.told != 0 {
		text += " " + a.told.String()
	}
	if a.unheard {
		text += ", answer lost"
	}
	return text
}

func digestOf(b byte) lifecycle.Digest {
	if b == 0 {
		return lifecycle.Digest{}
	}
	return lifecycle.Digest{b}
}

// event is what the action says to Apply.
func (w *world) event(a action) lifecycle.Event {
	e := lifecycle.Event{
		Kind: a.kind, Code: a.code, Digest: digestOf(a.digest), Wait: a.wait, Contract: a.contract,
		Retryable: a.retryable, Told: a.told, Error: a.err, HTTPStatus: a.http, Proof: a.proof,
	}
	if claims(a.kind) {
		e.Owner = lifecycle.Token{byte('a' + a.who), w.claims + 1}
		return e
	}
	if byOwner(a.kind) {
		mine := w.owners[a.who]
		e.Owner, e.Generation, e.Attempt = mine.token, mine.generation, mine.attempt
		if a.attempt != 0 {
			e.Attempt = a.attempt
		}
	}
	return e
}

// decided is a decision that is not written yet.
type decided struct {
	event lifecycle.Event
	who   int
	at    at
	t     lifecycle.Transition
}

// decide reads the row and asks Apply.
func (w *world) decide(a action) decided {
	e := w.event(a)
	if claims(a.kind) {
		w.claims++
	}
	return decided{event: e, who: a.who, at: w.store.now, t: w.store.apply(e)}
}

// land writes a decision, lets the owner know unless the answer is lost, and has
// the judge look at the difference.
func (w *world) land(d *decided, unheard bool) (held bool, broken error) {
	before := w.store.row
	held = w.store.write(&d.t)
	if held && !unheard {
		w.learn(d)
	}
	return held, w.judge.watch(&before, d, held, &w.store)
}

// do is decide and land with the action's time passing.
func (w *world) do(a action) (d decided, held bool, broken error) {
	w.store.now += a.after
	w.store.row.gateOpen = w.store.row.gateOpen || a.opens
	if a.kind == 0 {
		return decided{}, false, w.judge.look(&w.store)
	}
	d = w.decide(a)
	w.store.now += a.delay
	held, broken = w.land(&d, a.unheard)
	return d, held, broken
}

// learn is what the owner remembers of a write that it knows has held.
func (w *world) learn(d *decided) {
	mine, r := &w.owners[d.who], &w.store.row
	if claims(d.event.Kind) {
		*mine = claimed{token: r.owner, generation: r.generation}
	}
	if d.event.Kind == lifecycle.EvHandAttempt {
		mine.attempt++
	}
	if starts(d.event.Kind) && r.inFlight {
		mine.attempt = r.attempts
		if r.profile == lifecycle.Message {
			mine.attempt++
		}
	}
}

// claims, starts and byOwner sort the events for the little store and the judge.
// They are written out here rather than asked of the package under test.

func claims(k lifecycle.EventKind) bool { return k == lifecycle.EvClaim || k == lifecycle.EvHandClaim }

func starts(k lifecycle.EventKind) bool { return k == lifecycle.EvStart || k == lifecycle.EvHandClaim }

func byOwner(k lifecycle.EventKind) bool {
	switch k {
	case lifecycle.EvStart, lifecycle.EvSucceeded, lifecycle.EvNotSent, lifecycle.EvRefused, lifecycle.EvRejected,
		lifecycle.EvUnknown, lifecycle.EvStopped, lifecycle.EvUndecided, lifecycle.EvPanicked, lifecycle.EvReleased,
		lifecycle.EvCallbackFailed, lifecycle.EvInterrupted, lifecycle.EvHandAttempt, lifecycle.EvHandDelivered,
		lifecycle.EvHandFailed:
		return true
	}
	return false
}

// byHand are the events of package reply's interface.
func byHand(k lifecycle.EventKind) bool {
	return k == lifecycle.EvHandAttempt || k == lifecycle.EvHandDelivered || k == lifecycle.EvHandFailed
}

// tellsOutcome are the events that say how an attempt ended.
func tellsOutcome(k lifecycle.EventKind) bool {
	return k >= lifecycle.EvSucceeded && k <= lifecycle.EvUnknown || byHand(k)
}
