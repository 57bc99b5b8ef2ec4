package lifecycle_test

import (
	"math/bits"
	"math/rand/v2"
	"time"

	"github.com/consign-go/consign/internal/lifecycle"
)

// dice make the choices of a history. They are not a property library's, for those
// cost more than the events do, and here the number of histories counts.
type dice struct{ rand.PCG }

// n is a number below k.
func (d *dice) n(k int) int {
	high, _ := bits.Mul64(d.Uint64(), uint64(k))
	return int(high)
}

// in is true once in k times.
func (d *dice) in(k int) bool { return d.n(k) == 0 }

func one[T any](d *dice, of []T) T { return of[d.n(len(of))] }

// What is chosen from. These are not written again for every choice.
var (
	someWaits    = []time.Duration{0, time.Microsecond, time.Second, 30 * time.Second, time.Hour}
	someLeases   = []time.Duration{45 * time.Second, time.Minute, 5 * time.Minute}
	someAges     = []time.Duration{0, 90 * time.Second, 10 * time.Minute, 24 * time.Hour}
	someDelays   = []time.Duration{0, 0, 0, time.Second}
	someProofs   = []string{"", "", "", "v1,c2lnbmVk"}
	someDigests  = []byte{'x', 'x', 'x', 'y'}
	someOutcomes = []lifecycle.Outcome{0, lifecycle.NotSent, lifecycle.Refused, lifecycle.Rejected, lifecycle.Unknown}
	edges        = [...]time.Duration{-time.Microsecond, 0, time.Microsecond}
	allKinds     = lifecycle.EventKinds()
)

// world makes an intent of any contract, sometimes a redelivered one.
func (d *dice) world() world {
	r := row{
		profile: lifecycle.Work, gateOpen: !d.in(6), lease: none, review: none, deadline: none,
	}
	if d.in(2) {
		r.profile = lifecycle.Message
	}
	if r.profile == lifecycle.Work || !d.in(10) {
		r.contract = d.contract(r.profile)
		if r.contract.MaxAge > 0 {
			r.deadline = r.contract.MaxAge
		}
	}
	if r.contract.Idempotent && d.in(5) {
		r.uncertain, r.digest = true, digestOf('x')
	}
	w := world{store: store{policy: lifecycle.DefaultPolicy, row: r}, judge: birth(&r)}
	w.store.policy.CrashBudget = 1 + d.n(5)
	return w
}

func (d *dice) contract(profile lifecycle.Profile) lifecycle.Contract {
	c := lifecycle.Contract{
		Retry: lifecycle.Schedule, Idempotent: d.in(2), MaxAttempts: 1 + d.n(4),
		Lease: one(d, someLeases), Timeout: 30 * time.Second, MaxAge: one(d, someAges),
	}
	if profile == lifecycle.Message && d.in(2) {
		c.Retry = lifecycle.Process
	}
	return c
}

// pause lets time pass: not at all, a little, or exactly up to, just before or
// just after a boundary.
func (d *dice) pause(s *store) time.Duration {
	if d.n(10) < 7 {
		return 0
	}
	r := &s.row
	pauses := [2 + 5*len(edges)]time.Duration{time.Second, 30 * time.Second}
	many := 2
	moments := [5]at{r.due, r.deadline, none, none, none}
	if r.lease != none {
		moments[2], moments[3] = r.lease, r.lease+s.policy.SettleMargin
		moments[4] = r.lease - s.policy.SettleMargin - r.contract.Timeout
	}
	for _, m := range moments {
		for _, edge := range edges {
			if m != none && m+edge > s.now {
				pauses[many] = m + edge - s.now
				many++
			}
		}
	}
	return pauses[d.n(many)]
}

// action is what happens next: mostly what would, so that most histories come to
// their end, and otherwise anything at all.
func (d *dice) action(w *world) action {
	r := &w.store.row
	a := action{who: d.n(len(w.owners)), digest: 'x', err: "why", wait: one(d, someWaits)}
	kinds := allKinds
	if d.n(10) < 8 {
		kinds = expected(r)
		for i := range w.owners {
			if byOwner(kinds[0]) && r.owner != (lifecycle.Token{}) && w.owners[i].token == r.owner {
				a.who = i
			}
		}
	}
	a.kind, a.opens = one(d, kinds), !r.gateOpen && d.in(6)
	switch a.kind {
	case lifecycle.EvClaim:
		a.contract = d.contract(lifecycle.Message)
	case lifecycle.EvStopped, lifecycle.EvUnserved:
		a.code = one(d, lifecycle.Codes)
	case lifecycle.EvStart:
		a.digest = one(d, someDigests)
	case lifecycle.EvHandClaim:
		a.contract, a.digest = d.contract(lifecycle.Message), one(d, someDigests)
	case lifecycle.EvRejected:
		a.retryable, a.proof = d.in(2), one(d, someProofs)
	case lifecycle.EvNotSent, lifecycle.EvRefused, lifecycle.EvUnknown:
		a.proof = one(d, someProofs)
	case lifecycle.EvHandAttempt, lifecycle.EvHandFailed:
		a.told = one(d, someOutcomes)
	}
	a.after, a.delay, a.unheard = d.pause(&w.store), one(d, someDelays), d.in(10)
	if d.in(10) {
		a.attempt = 1 + d.n(3)
	}
	return a
}

// What would happen next if nothing went wrong, and the usual ways in which it does.
var (
	ofPending = []lifecycle.EventKind{
		lifecycle.EvClaim, lifecycle.EvClaim, lifecycle.EvClaim, lifecycle.EvClaim, lifecycle.EvHandClaim,
	}
	ofLeased = []lifecycle.EventKind{
		lifecycle.EvStart, lifecycle.EvStart, lifecycle.EvStart, lifecycle.EvStart,
		lifecycle.EvUndecided, lifecycle.EvReleased, lifecycle.EvPanicked,
	}
	ofHand     = []lifecycle.EventKind{lifecycle.EvHandAttempt, lifecycle.EvHandDelivered, lifecycle.EvHandFailed}
	ofInFlight = []lifecycle.EventKind{
		lifecycle.EvRefused, lifecycle.EvNotSent, lifecycle.EvUnknown, lifecycle.EvRejected, lifecycle.EvSucceeded,
	}
	ofWaiting = []lifecycle.EventKind{lifecycle.EvStart, lifecycle.EvStart, lifecycle.EvInterrupted}
	ofEnd     = []lifecycle.EventKind{lifecycle.EvCallbackFailed, lifecycle.EvResolved}
)

func expected(r *row) []lifecycle.EventKind {
	hand := r.contract.Retry == lifecycle.Process && r.contract.MaxAttempts == 0
	switch {
	case r.status == lifecycle.Pending:
		return ofPending
	case r.status == lifecycle.Leased:
		return ofLeased
	case r.inFlight && hand:
		return ofHand
	case r.inFlight:
		return ofInFlight
	case r.status == lifecycle.Delivering:
		return ofWaiting
	}
	return ofEnd
}
