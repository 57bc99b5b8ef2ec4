//go:build unix

package dispatchtest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/effort"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Worker processes are killed at any moment, one after the other, under load, and
// replaced. Nothing is lost, what is not idempotent is never sent after a crash in
// flight, and everything comes to an end or is stranded.
func TestWorkersKilledAtAnyMomentLoseNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		t.Parallel()
		workers, least := effort.Of(3, 4), effort.Of(10, 200)
		if d.File != "" {
			least = effort.Of(5, 50) // they wait for each other's turn at the one write lock
		}
		soak := effort.Soak(t, 3*time.Second)
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
		kills, began := 0, time.Now()
		for end := time.Now().Add(soak); kills < least || time.Now().Before(end); kills++ {
			time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
			victim := kills % workers // the one that has run longest
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
		effort.Note(t, "%d kills of %d workers in %s", kills, workers, time.Since(began).Round(time.Second))
		d.survived(t, far, total, kills)
	})
}

// survived judges what has come out of it.
func (d *database) survived(t *testing.T, far *receiver, total, kills int) {
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
	effort.Note(t, "%d intents: %v; %d deliveries lost their owner", len(found), ends, crashes)
	if len(found) != total || total < 6*kills {
		t.Errorf("%d intents are there, %d were enqueued, want %d or more", len(found), total, 6*kills)
	}
	if lost := crashes + ends["delivering "]; lost == 0 || lost < kills/10 {
		t.Errorf("%d deliveries have lost their owner in %d kills: this has shown too little", lost, kills)
	}
	if ends["succeeded "] < total/2 {
		t.Errorf("only %d of %d were delivered", ends["succeeded "], total)
	}
}
