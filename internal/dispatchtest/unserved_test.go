//go:build unix

package dispatchtest

import (
	"context"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/dispatch"
	"github.com/consign-go/consign/internal/driver"
)

// grace is how long what nobody serves waits for a program.
const grace = 800 * time.Millisecond

// serving is an engine at work, registered in the database.
type serving struct {
	*dispatch.Engine
	stop func()
}

// register starts an engine that serves what p says. change may change more.
func (d *database) register(t *testing.T, p program, change func(*dispatch.Config)) *serving {
	t.Helper()
	s := d.mustOpen(t)
	c := p.config(s.Driver, nil)
	c.Registry, c.Unserved = s.registry, grace
	change(&c)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	out := &serving{Engine: dispatch.New(c)}
	before, err := d.one(t.Context(), "SELECT count(*) FROM "+d.prefix+"program")
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- out.Serve(ctx) }()
	stopped := false
	out.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(out.stop)
	until(t, p.Name+" is registered", func() bool {
		n, err := d.one(t.Context(), "SELECT count(*) FROM "+d.prefix+"program")
		return err == nil && n == before+1
	})
	return out
}

// stands counts intents of a kind by status and code.
func (d *database) stands(t *testing.T, kind string, status int, code string) int64 {
	t.Helper()
	n, err := d.one(t.Context(), "SELECT count(*) FROM "+d.prefix+"delivery d JOIN "+d.prefix+"intent i ON i.ref = d.ref "+
		"WHERE i.kind = $1 AND d.status = $2 AND COALESCE(d.code, '') = $3", kind, status, code)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// keepLooking has an engine look for what is unserved, again and again, and
// returns how many it stopped.
func (s *serving) keepLooking(t *testing.T, d time.Duration) (stopped int) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		n, err := inTurn(func() (int, error) { return s.StopUnserved(t.Context()) })
		if err != nil {
			t.Fatal(err)
		}
		stopped += n
	}
	return stopped
}

// Two programs with different kinds on one database never stop each other's
// intents, however long these wait, also where both have versions of one kind.
// When one of them ends, what it served is stopped, with the code that says why,
// but only after the grace period.
func TestTwoProgramsNeverStopEachOthersIntents(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		far := newReceiver(t)
		kinds := grid(20*time.Second, 10*time.Second)
		mail, label, renamed := kinds[0].named("mail"), kinds[3].named("label"), kinds[3].named("ticket")
		fleet := program{Address: d.address, Receiver: far.place(), Policy: steady}
		busy, other := fleet, fleet
		busy.Name, busy.Kinds = "busy", []kind{mail, label, renamed}
		other.Name, other.Kinds = "other", []kind{kinds[1].named("webhook"), renamed}

		hung := d.enqueue(t, mail, 1)[0] // it takes the only worker, and does not end
		release := far.holds(name(hung))
		defer release()
		old := d.register(t, busy, func(c *dispatch.Config) { c.Workers = 1 })
		until(t, "the only worker is busy", func() bool { _, came := far.acts(name(hung)); return came == 1 })
		for _, k := range busy.Kinds {
			d.enqueue(t, k, 3)
		}
		young := d.register(t, other, func(c *dispatch.Config) {
			for _, s := range c.Served {
				if s.Kind == renamed.Name { // a newer version of it, which cannot deliver the older one
					s.Version, s.Fingerprint = "2", [32]byte{2}
				}
			}
		})
		if n := young.keepLooking(t, 3*grace); n != 0 {
			t.Fatalf("stopped %d intents of a live program", n)
		}
		if n := old.keepLooking(t, grace/2); n != 0 {
			t.Fatalf("stopped %d intents of its own", n)
		}
		ended := time.Now()
		go func() {
			time.Sleep(50 * time.Millisecond) // it has stopped claiming by then
			release()
		}()
		old.stop()
		waits := d.stands(t, mail.Name, isPending, "") + d.stands(t, label.Name, isPending, "") + d.stands(t, renamed.Name, isPending, "")
		if waits < 7 {
			t.Fatalf("only %d intents are left that nobody serves", waits)
		}
		var channel, missing, changed int64
		for channel+missing+changed < waits { // counted in the rows: the program looks by itself too
			young.keepLooking(t, 100*time.Millisecond)
			channel = d.stands(t, mail.Name, isFailed, "CHANNEL_MISSING")
			missing = d.stands(t, label.Name, isReview, "HANDLER_MISSING")
			changed = d.stands(t, renamed.Name, isReview, "HANDLER_CHANGED")
			stopped := channel + missing + changed
			if took := time.Since(ended); stopped > 0 && took < grace || took > patience {
				t.Fatalf("stopped %d of %d after %s, the grace period is %s", stopped, waits, took, grace)
			}
		}
		young.stop()
		if channel+missing+changed != waits || channel == 0 || missing == 0 || changed == 0 {
			t.Errorf("%d waited: channel missing %d, handler missing %d, handler changed %d", waits, channel, missing, changed)
		}
		d.audit(t, far.all())
	})
}

// In a rolling deployment the new version of a program delivers what the old one
// has left, where an upgrade leads from there, and stops none of it.
func TestRollingDeployDeliversWhatTheOldVersionLeft(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		far := newReceiver(t)
		ticket := grid(20*time.Second, 10*time.Second)[3].named("ticket")
		p := program{Address: d.address, Name: "old", Receiver: far.place(), Policy: steady, Kinds: []kind{ticket}}
		hung := d.enqueue(t, ticket, 1)[0]
		release := far.holds(name(hung))
		defer release()
		old := d.register(t, p, func(c *dispatch.Config) { c.Workers = 1 })
		until(t, "the only worker is busy", func() bool { _, came := far.acts(name(hung)); return came == 1 })
		refs := d.enqueue(t, ticket, 5)
		p.Name = "new"
		young := d.register(t, p, func(c *dispatch.Config) {
			c.Served[0].Version, c.Served[0].Fingerprint, c.Served[0].Upgrades = "2", [32]byte{2}, []string{"1"}
		})
		if n := young.keepLooking(t, 2*grace); n != 0 {
			t.Errorf("stopped %d", n)
		}
		release()
		old.stop()
		if n := young.keepLooking(t, 2*grace); n != 0 {
			t.Errorf("stopped %d after the old one was gone", n)
		}
		young.stop()
		delivered := map[string]bool{}
		for ref, f := range d.audit(t, far.all()) {
			delivered[ref] = f.now.status == isSucceeded
		}
		for _, ref := range append([]driver.ID{hung}, refs...) {
			if !delivered[name(ref)] {
				t.Errorf("%s was not delivered", ref)
			}
		}
	})
}
