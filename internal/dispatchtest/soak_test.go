//go:build unix

package dispatchtest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/lifecycle"
)

// Worker processes are killed at any moment, one after the other, under load, and
// replaced. Nothing is lost, what is not idempotent is never sent after a crash in
// flight, and everything comes to an end or is stranded.
func TestWorkersKilledAtAnyMomentLoseNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		t.Parallel()
		workers, kills := 3, 10
		if d.File != "" {
			workers, kills = 2, 5 // they wait for each other's turn at the one write lock
		}
		far := newReceiver(t)
		far.takes = 10 * time.Millisecond // so that some are killed with effects in flight
		p := program{Address: d.address, Receiver: far.place(), Policy: brief, Kinds: grid(briefLease, briefTimeout)}
		started := 0
		next := func() *process {
			started++
			p.Name = fmt.Sprintf("worker %d", started)
			return p.start(t)
		}
		var fleet []*process
		for range workers {
			fleet = append(fleet, next())
		}
		stop := d.pour(t, p.Kinds)
		far.more(t, 10)
		for i := range kills {
			time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
			victim := i % workers // the one that has run longest
			if err := fleet[victim].cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if !fleet[victim].died() {
				t.Fatal("it was not killed")
			}
			fleet[victim] = next()
			far.more(t, 6)
		}
		total := stop()
		until(t, "everything has come to an end", func() bool {
			n, err := d.unsettled(t.Context())
			return err == nil && n == 0
		})
		for _, c := range fleet {
			c.end()
		}
		d.survived(t, far, total)
	})
}

// survived judges what has come out of it.
func (d *database) survived(t *testing.T, far *receiver, total int) {
	found := d.audit(t, far.all())
	ends := map[string]int{}
	crashes := 0
	for _, f := range found {
		word := fmt.Sprintf("%s %s", lifecycle.Status(f.now.status), f.now.code)
		ends[word]++
		for _, s := range f.steps {
			if s.is.status == isLeased && s.was.status != isPending || s.was.inFlight && s.is.generation > s.was.generation {
				crashes++
			}
		}
	}
	t.Logf("%d intents: %v; %d deliveries lost their owner", len(found), ends, crashes)
	if len(found) != total || total < 30 {
		t.Errorf("%d intents are there, %d were enqueued, want 30 or more", len(found), total)
	}
	if crashes == 0 && ends["delivering "] == 0 {
		t.Error("no delivery has lost its owner: this has shown nothing")
	}
	if ends["succeeded "] < total/2 {
		t.Errorf("only %d of %d were delivered", ends["succeeded "], total)
	}
}
