//go:build unix

package dispatchtest

import (
	"strings"
	"testing"
	"time"
)

// A panic of the code that delivers ends one attempt and not the process: before the
// effect nothing was sent, and it is tried again; within the effect nobody knows, and
// it is tried again only where the receiver deduplicates. The process goes on with
// everything else and ends in order.
func TestPanicEndsOneAttemptAndNotTheProcess(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		t.Parallel()
		far := newReceiver(t)
		want := map[string]int{} // by ref: the status it must come to
		var running []*process
		for _, point := range []string{atClaimed, atCalled, atActed} {
			p := program{Address: d.address, Name: "broken", Receiver: far.place(), Policy: steady}
			p.Trouble = trouble{Point: point, Refs: map[string]int{}}
			for _, k := range grid(time.Minute, 20*time.Second) {
				k = k.named(strings.ReplaceAll(k.Name, ",", "") + " " + point)
				p.Kinds = append(p.Kinds, k)
				refs := d.enqueue(t, k, 3)
				for _, ref := range refs {
					want[name(ref)] = isSucceeded
				}
				p.Trouble.Refs[name(refs[0])] = 1
				switch known := point == atClaimed || k.Contract.Idempotent; {
				case known:
				case k.Profile == isWork:
					want[name(refs[0])] = isReview
				default:
					want[name(refs[0])] = isFailed
				}
			}
			running = append(running, p.start(t))
		}
		until(t, "everything has come to an end", func() bool {
			n, err := d.unsettled(t.Context())
			return err == nil && n == 0
		})
		for _, p := range running {
			p.end()
		}
		found := d.audit(t, far.all())
		for ref, status := range want {
			if f := found[ref]; f.now.status != status || f.now.uncertain != (status != isSucceeded) {
				t.Errorf("stands at %d, want %d\n%s", f.now.status, status, f.story())
			}
		}
	})
}
