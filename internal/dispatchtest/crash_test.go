//go:build unix

package dispatchtest

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/lifecycle"
)

// brief are times short enough for a test that waits until leases are over.
var brief = lifecycle.Policy{SettleMargin: 500 * time.Millisecond, CrashBudget: crashBudget}

const (
	briefLease   = 15 * time.Second
	briefTimeout = 6 * time.Second
)

// crashPoint is where a worker is killed.
type crashPoint struct {
	name    string
	at      string
	pass    int
	refused int // how many requests the far side refuses first
}

var crashPoints = []crashPoint{
	{atClaimed, atClaimed, 1, 0},
	{atStarting, atStarting, 1, 0},
	{atStarted, atStarted, 1, 0},
	{atSending, atSending, 1, 0},
	{atSent, atSent, 1, 0},
	{atActed, atActed, 1, 0},
	{atSettled, atSettled, 1, 0},
	{"waiting for the second attempt", atSettled, 1, 1},
	{"the far side has acted in the second attempt", atActed, 2, 1},
}

// cell is one point under one kind.
type cell struct {
	crashPoint
	kind kind // under a name of the cell's own
	of   string
	ref  string
}

// A worker process is killed at each point of a delivery, under each kind of
// contract; afterwards another process runs. Nothing is lost. What had certainly
// not been sent is claimed again and delivered. What was in flight is delivered
// again, under the same key and with the same digest, if the receiver
// deduplicates, and otherwise never: it goes to a person as unknown. What is
// process-owned and was started is stranded and never driven again.
func TestCrashAtEveryPointLosesNothingAndRepeatsOnlyWhatMayBe(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		t.Parallel()
		far := newReceiver(t)
		other := program{Address: d.address, Name: "other", Receiver: far.place(), Policy: brief}
		kills := 0
		var cells []*cell
		for i, p := range crashPoints {
			victim := program{Address: d.address, Name: "victim", Receiver: far.place(), Policy: brief}
			victim.Trouble = trouble{Point: p.at, Refs: map[string]int{}, Sig: syscall.SIGKILL}
			if p.at == atSettled && p.refused > 0 {
				victim.Wait = pairLease / 2 // for none to go on while the slowest comes to its point
			}
			var held []string
			for _, k := range grid(pairLease, 10*time.Second) {
				c := &cell{crashPoint: p, of: k.Name, kind: k.named(fmt.Sprintf("%s %d", strings.ReplaceAll(k.Name, ",", ""), i))}
				refs := d.enqueue(t, c.kind, 3) // two more, whatever becomes of them
				c.ref = name(refs[0])
				for _, ref := range refs {
					held = append(held, name(ref))
				}
				far.refuses(c.ref, p.refused)
				victim.Trouble.Refs[c.ref] = p.pass
				victim.Kinds = append(victim.Kinds, c.kind)
				cells = append(cells, c)
			}
			other.Kinds = append(other.Kinds, victim.Kinds...)
			if victim.start(t).died() {
				kills++
			}
			past := pairLease + 2*brief.SettleMargin
			d.elapse(t, held, past)
			far.elapse(held, past)
		}
		if kills != len(crashPoints) {
			t.Fatalf("%d workers were killed at their points, want %d", kills, len(crashPoints))
		}
		rescuer := other.start(t)
		until(t, "everything has come to an end", func() bool {
			n, err := d.unsettled(t.Context())
			return err == nil && n == 0
		})
		time.Sleep(2 * brief.SettleMargin) // time in which nothing may happen any more
		rescuer.end()
		found := d.audit(t, far.all())
		for _, c := range cells {
			t.Run(c.of+"/"+c.name, func(t *testing.T) { c.check(t, found[c.ref]) })
		}
	})
}

// check says where the delivery must stand, whatever else the auditor looks at.
func (c *cell) check(t *testing.T, f *finding) {
	var victim, other, broken int // requests upon which the far side acted, and torn ones
	for _, a := range f.came {
		switch {
		case !a.whole:
			broken++
		case !a.acted:
		case strings.HasPrefix(a.worker, "victim"):
			victim++
		default:
			other++
		}
	}
	unsent := c.at == atClaimed || c.at == atStarting
	inFlight := !unsent && c.at != atSettled
	waiting := c.at == atSettled && c.refused > 0
	want := struct {
		status        int
		code          string
		uncertain     bool
		victim, other int
	}{status: isSucceeded}
	if c.at == atSent || c.at == atActed || c.at == atSettled && !waiting {
		want.victim = 1
	}
	process, twice := c.kind.process(), c.kind.Contract.Idempotent
	switch {
	case unsent, waiting && !process, inFlight && !process && twice:
		want.other = 1
	case process && (inFlight || waiting):
		want.status = isDelivering
	case inFlight:
		want.status, want.code, want.uncertain = isFailed, "OUTCOME_UNKNOWN", true
		if c.kind.Profile == lifecycle.Work {
			want.status = isReview
		}
	}
	got := f.now
	if got.status != want.status || got.code != want.code || got.uncertain != want.uncertain || victim != want.victim || other != want.other {
		t.Errorf("stands at %d %q uncertain %v, the far side acted for the victim %d times, for the other %d times; want %+v\n%s",
			got.status, got.code, got.uncertain, victim, other, want, f.story())
	}
	if want.status == isDelivering && got.inFlight != inFlight {
		t.Errorf("stranded with an attempt in flight: %v, want %v", got.inFlight, inFlight)
	}
	if (broken == 1) != (c.at == atSending) {
		t.Errorf("%d torn requests came", broken)
	}
	c.crashed(t, f, unsent, inFlight)
}

// crashed: the crash itself is on record.
func (c *cell) crashed(t *testing.T, f *finding, unsent, inFlight bool) {
	var counted, doubted, noted bool
	for _, s := range f.steps {
		counted = counted || s.is.crashes > 0
		doubted = doubted || s.is.uncertain
	}
	for _, l := range f.log {
		noted = noted || l.outcome == outcomeCrashed && l.code == "OUTCOME_UNKNOWN"
	}
	if unsent && (!counted || doubted) {
		t.Errorf("a crash before the start: counted %v, called uncertain %v\n%s", counted, doubted, f.story())
	}
	if inFlight && !c.kind.process() && (!doubted || !noted) {
		t.Errorf("a crash in flight: called uncertain %v, in the log %v\n%s", doubted, noted, f.story())
	}
	if unsent && f.now.crashes != 0 {
		t.Errorf("%d crashes are still counted after a start", f.now.crashes)
	}
}
