//go:build unix

package dispatchtest

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/effort"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Points of whoever ends what a dead process had in hand.
const (
	atSweeping = "before a sweep's end is written"
	atSwept    = "a sweep's end is written"
)

// What a crash leaves behind.
const (
	leavesOpen     = iota // somebody else goes on with it
	leavesUnknown         // somebody else ends it
	leavesStranded        // nobody touches it
	leavesDone
)

func (p crashPoint) unsent() bool { return p.at == atClaimed || p.at == atStarting }

// leaves is what a crash at the point leaves of a delivery of kind k.
func (p crashPoint) leaves(k kind) int {
	inFlight := !p.unsent() && p.at != atSettled
	waiting := p.at == atSettled && p.refused > 0
	switch {
	case k.process() && (inFlight || waiting):
		return leavesStranded
	case inFlight && !k.Contract.Idempotent:
		return leavesUnknown
	case p.at == atSettled && !waiting:
		return leavesDone
	}
	return leavesOpen
}

// pairLease is long enough for all to come to a point on any machine. Nobody waits
// for it: it is made to pass.
const pairLease = 45 * time.Second

// pair is a delivery whose first worker crashes, and then the one that recovers it.
type pair struct {
	kind          kind
	ref           string
	first, second string // the points
	hit           bool   // by both
	left          int
}

// A worker process is killed at a point of some deliveries. Another one, or the same
// program started again, recovers them and is killed at a point of the recovery,
// also while it ends what nobody may send again. A third goes on. Points are drawn;
// the auditor judges, and each delivery must stand where the two crashes leave it.
func TestPairsOfCrashesLoseNothingAndRepeatOnlyWhatMayBe(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		t.Parallel()
		d.exec(t, "CREATE INDEX audit_step_ref ON audit_step (ref)")
		far := newReceiver(t)
		seed := rand.Uint64()
		dice := rand.New(rand.NewPCG(seed, 0))
		least, different := effort.Of(30, 5000), effort.Of(3, 60) // pairs of points: two draws may make up the hits
		var all []pair
		hits, kills, met := 0, 0, map[string]int{}
		for hits < least || len(met) < different {
			pairs, killed := d.crashTwice(t, dice, far)
			kills += killed
			for _, p := range pairs {
				if p.hit {
					hits++
					met[p.first+", then "+p.second]++
				}
			}
			all = append(all, pairs...)
			if t.Failed() {
				t.Fatalf("after %d kills, seed %d", kills, seed)
			}
		}
		found := d.audit(t, far.all())
		for _, p := range all {
			p.check(t, found[p.ref])
		}
		effort.Note(t, "%d deliveries hit by two crashes, %d different pairs of points, in %d kills; seed %d", hits, len(met), kills, seed)
	})
}

// crashTwice lets two processes die, and a third go on, with a few deliveries.
func (d *database) crashTwice(t *testing.T, dice *rand.Rand, far *receiver) (pairs []pair, kills int) {
	first := crashPoints[dice.IntN(len(crashPoints))]
	point, ok := recovery(dice, first)
	p := program{Address: d.address, Name: "first", Receiver: far.place(), Policy: steady, Kinds: grid(pairLease, 10*time.Second)}
	p.Trouble = trouble{Point: first.at, Refs: map[string]int{}, Sig: syscall.SIGKILL}
	if first.refused > 0 && first.at == atSettled {
		p.Wait = pairLease / 2
	}
	var refs []string
	each, of := 3, p.Kinds
	if ok && first.unsent() && (point.unsent() || point.at == atStarted) {
		// Of those that took an owner down before its start, one is in hand at a time.
		each, of = 1, of[dice.IntN(len(of)):][:1]
	}
	for _, k := range of {
		for _, id := range d.enqueue(t, k, each) {
			ref := name(id)
			far.refuses(ref, first.refused)
			p.Trouble.Refs[ref] = first.pass
			refs = append(refs, ref)
			pairs = append(pairs, pair{kind: k, ref: ref, first: first.name, left: first.leaves(k)})
		}
	}
	crash := func(p program) {
		if !p.start(t).died() {
			return
		}
		kills++
		past := pairLease + 2*steady.SettleMargin
		d.elapse(t, refs, past)
		far.elapse(refs, past)
	}
	crash(p)
	second := p
	if dice.IntN(2) == 0 {
		second.Name = "second"
	}
	second.Wait = 0
	second.Trouble = trouble{Sig: syscall.SIGKILL, Refs: map[string]int{}}
	if ok {
		second.Trouble.Point = point.at
		for i := range pairs {
			q := &pairs[i]
			sweeps := point.at == atSweeping || point.at == atSwept
			if q.left == leavesOpen && !sweeps || q.left == leavesUnknown && sweeps && len(second.Trouble.Refs) == 0 {
				second.Trouble.Refs[q.ref] = 1
				q.second, q.hit = point.name, true
				if !sweeps {
					q.left = point.leaves(q.kind)
				}
			}
		}
		crash(second)
	}
	third := program{Address: d.address, Name: "third", Receiver: far.place(), Policy: steady, Kinds: p.Kinds}
	rescuer := third.start(t)
	until(t, "everything has come to an end", func() bool {
		n, err := d.unsettled(t.Context())
		return err == nil && n == 0
	})
	rescuer.end()
	return pairs, kills
}

// recovery draws a point that whoever recovers some delivery comes to, if any does.
func recovery(dice *rand.Rand, first crashPoint) (point crashPoint, ok bool) {
	var points []crashPoint
	for _, k := range grid(0, 0) {
		switch first.leaves(k) {
		case leavesOpen:
			points = append(points, crashPoints[:7]...)
		case leavesUnknown:
			points = append(points, crashPoint{name: atSweeping, at: atSweeping}, crashPoint{name: atSwept, at: atSwept})
		}
	}
	if len(points) == 0 {
		return point, false
	}
	return points[dice.IntN(len(points))], true
}

// check says where the delivery must stand, whatever else the auditor looks at.
func (p *pair) check(t *testing.T, f *finding) {
	status, code, uncertain := isSucceeded, "", false
	switch p.left {
	case leavesUnknown:
		status, code, uncertain = isFailed, "OUTCOME_UNKNOWN", true
		if p.kind.Profile == lifecycle.Work {
			status = isReview
		}
	case leavesStranded:
		status = isDelivering
	}
	if f == nil || f.now.status != status || f.now.code != code || f.now.uncertain != uncertain {
		t.Errorf("%s, %s, then %q: want status %d %q uncertain %v\n%s", p.kind.Name, p.first, p.second, status, code, uncertain,
			f.story())
	}
}
