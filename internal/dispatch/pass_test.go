package dispatch

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
)

// A drain and a scan make one pass each and install no schedule: however long one
// waits after them, nothing looks at the database, no timer is left, and what was put
// off stays put off.
func TestDrainAndScanMakeOnePass(t *testing.T) {
	inBubble(t, func(r *rig) {
		var claims atomic.Int64
		r.far.script(refuse)
		e := r.patient(&claims, r.served(kinds[2]))
		e.Poll, e.Registry = time.Second, r.store
		refused := r.enqueue(kinds[2], 1)[0]
		if _, err := e.Drain(context.Background(), 0); err != nil {
			r.Fatal(err)
		}
		pushed := 0
		later := r.enqueue(kinds[2], 1)[0]
		if _, err := e.Scan(context.Background(), 0, func(_ context.Context, refs []driver.ID) error {
			pushed += len(refs)
			return nil
		}); err != nil || pushed != 1 {
			r.Fatalf("%d pushed, %v", pushed, err)
		}
		before := claims.Load()
		e.Wake()
		time.Sleep(24 * time.Hour)
		if n := claims.Load() - before; n != 0 || e.alarm.timer != nil || len(e.alarm.times) > 0 {
			r.Errorf("%d claims in a day, %d times to wake up at", n, len(e.alarm.times))
		}
		if n, m := len(r.far.arrivals(refused)), len(r.far.arrivals(later)); n != 1 || m != 0 {
			r.Errorf("sent %d and %d times, want once, by the drain, and not at all", n, m)
		}
	})
}
