//go:build unix

package dispatchtest

import (
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The first signal has a process claim nothing more and lets effects that run go on
// within the grace period; their outcomes are written down. The second signal ends
// the process at once, in the midst of an effect. Nothing is lost by that: another
// process delivers what may be delivered, and calls the rest unknown.
func TestSecondSignalEndsAProcessAtOnceAndLosesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		t.Parallel()
		const long = 3 * time.Minute
		far := newReceiver(t)
		p := program{Address: d.address, Name: "first", Receiver: far.place(), Policy: brief, Signals: true, Grace: long}
		p.Kinds = grid(long, long/2) // more than this test takes up to the second signal
		finishing, hanging := map[string]func(){}, map[string]kind{}
		for _, k := range p.Kinds {
			refs := d.enqueue(t, k, 2)
			finishing[name(refs[0])] = far.holds(name(refs[0]))
			hanging[name(refs[1])] = k
			defer far.holds(name(refs[1]))()
		}
		first := p.start(t)
		until(t, "all effects run", func() bool { return len(far.all()) == 2*len(p.Kinds) })
		first.signal(syscall.SIGTERM)
		until(t, "it has the signal", func() bool { return strings.Contains(first.out.String(), toldStopping) })

		var later []string
		for _, k := range p.Kinds {
			later = append(later, name(d.enqueue(t, k, 1)[0]))
		}
		for _, release := range finishing {
			release()
		}
		until(t, "effects have ended and their outcomes are written", func() bool {
			n, err := d.one(t.Context(), "SELECT count(*) FROM "+d.prefix+"delivery WHERE status = 3")
			return err == nil && n == int64(len(finishing))
		})
		first.signal(syscall.SIGTERM)
		if !first.diedBy(syscall.SIGTERM) {
			return
		}
		for _, ref := range later {
			if n, err := d.one(t.Context(), "SELECT generation FROM "+d.prefix+"delivery WHERE "+d.uuid("ref")+" = $1", ref); err != nil || n != 0 {
				t.Errorf("%s was claimed after the first signal: generation %d, %v", ref, n, err)
			}
		}
		for ref := range hanging {
			if n, err := d.one(t.Context(), "SELECT status FROM "+d.prefix+"delivery WHERE "+d.uuid("ref")+" = $1", ref); err != nil || n != isDelivering {
				t.Errorf("%s has status %d after the second signal, %v", ref, n, err)
			}
			far.lets(ref)
		}
		held := slices.Collect(maps.Keys(hanging))
		d.elapse(t, held, 2*long)
		far.elapse(held, 2*long)
		p.Name, p.Signals = "other", false
		other := p.start(t)
		until(t, "everything has come to an end", func() bool {
			n, err := d.unsettled(t.Context())
			return err == nil && n == 0
		})
		other.end()
		found := d.audit(t, far.all())
		for _, ref := range later {
			if f := found[ref]; f.now.status != isSucceeded {
				t.Errorf("what was not claimed stands at %d\n%s", f.now.status, f.story())
			}
		}
		for ref, k := range hanging {
			f, want := found[ref], isReview
			switch {
			case k.process():
				want = isDelivering
			case k.Contract.Idempotent:
				want = isSucceeded
			case f.profile != isWork:
				want = isFailed
			}
			if f.now.status != want {
				t.Errorf("what hung stands at %d, want %d\n%s", f.now.status, want, f.story())
			}
		}
	})
}
