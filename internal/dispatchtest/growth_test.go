//go:build unix

package dispatchtest

import (
	"runtime"
	"testing"

	"github.com/consign-go/consign/internal/effort"
)

// held is what a program holds while it is idle.
type held struct {
	heap        uint64
	goroutines  int
	connections int64
}

func (d *database) holds(t *testing.T) (h held) {
	t.Helper()
	var m runtime.MemStats
	h.heap = 1 << 62
	for range 3 { // the first collections leave what has a finalizer
		runtime.GC()
		runtime.ReadMemStats(&m)
		h.heap = min(h.heap, m.HeapAlloc)
	}
	h.goroutines = runtime.NumGoroutine()
	if d.File != "" {
		return h
	}
	n, err := d.one(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
	if err != nil {
		t.Fatal(err)
	}
	h.connections = n
	return h
}

// An engine that has delivered many times as much holds no more for it: neither
// memory, nor goroutines, nor connections.
func TestEnginesDoNotGrowWithWhatTheyHaveDelivered(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		far := newReceiver(t)
		far.forgets = true
		p := program{Address: d.address, Receiver: far.place(), Policy: steady, Kinds: grid(steadyLease, steadyTimeout)}
		c := d.hire(t, 1, p)
		deliver := func(n int) {
			for _, k := range p.Kinds {
				if err := d.commit(t.Context(), k.rows(n/len(p.Kinds))); err != nil {
					t.Fatal(err)
				}
			}
			until(t, "all are delivered", func() bool {
				n, err := d.unsettled(t.Context())
				return err == nil && n == 0
			})
			until(t, "no request is under way", func() bool { return far.underWay() == 0 })
		}
		rounds, each := effort.Of(3, 40), effort.Of(150, 2000)
		if d.File != "" {
			each = effort.Of(50, 400) // a commit of its own for each start and each outcome
		}
		deliver(each) // pools, caches and the plans of statements are filled by then
		before := d.holds(t)
		for range rounds {
			deliver(each)
		}
		after := d.holds(t)
		if n := c.sent.Load(); n < int64(each*(1+rounds)) {
			t.Errorf("only %d effects were settled", n)
		}
		// One delivery that were kept would be more than 500 bytes.
		if grown := int64(after.heap) - int64(before.heap); grown > int64(rounds*each*500) {
			t.Errorf("the heap has grown by %d bytes with %d deliveries", grown, rounds*each)
		}
		if after.goroutines > before.goroutines+24 || after.connections > before.connections+8 {
			t.Errorf("from %+v to %+v", before, after)
		}
		effort.Note(t, "%d deliveries: %d to %d bytes, %d to %d goroutines, %d to %d connections",
			rounds*each, before.heap, after.heap, before.goroutines, after.goroutines, before.connections, after.connections)
	})
}
