//go:build unix

package dispatchtest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/dispatch"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// counting is a store that counts claims: of what stands next in tasks, and of
// whatever is due.
type counting struct {
	driver.Driver
	next, looks atomic.Int64
}

func (c *counting) Claim(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	switch {
	case len(r.Next) > 0:
		c.next.Add(1)
	case !r.Suspects:
		c.looks.Add(1)
	}
	return c.Driver.Claim(ctx, r)
}

// A long task is delivered in order with one claim for each of its messages, which
// finds it by the task. A claim of whatever is due would step over all that are left,
// so there are few of those, however long the task is.
func TestLongTaskCostsOneClaimForEachMessage(t *testing.T) {
	const length = 200
	onBoth(t, func(t *testing.T, d *database) {
		far := newReceiver(t)
		p := program{Address: d.address, Name: "long", Receiver: far.place(), Policy: steady, Kinds: grid(20*time.Second, 2*time.Second)}
		k := p.Kinds[0]
		for _, k = range p.Kinds {
			if k.Profile == lifecycle.Message {
				break
			}
		}
		rows := k.rows(length)
		places := map[string]int{}
		for i := range rows {
			rows[i].Task, rows[i].Index = "long", i
			places[name(rows[i].Ref)] = i
			d.expect(name(rows[i].Ref), rows[i].Payload)
		}
		if err := d.commit(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
		c := &counting{Driver: d.Driver}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		config := p.config(c, nil)
		config.Poll = time.Minute // looks are made for a reason only
		go func() { ended <- dispatch.New(config).Serve(ctx) }()
		until(t, "everything has come to an end", func() bool {
			n, err := d.unsettled(t.Context())
			return err == nil && n == 0
		})
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		came := far.all()
		d.audit(t, came)
		for i, a := range came {
			if places[a.key] != i {
				t.Fatalf("index %d came as number %d", places[a.key], i)
			}
		}
		if next, looks := c.next.Load(), c.looks.Load(); len(came) != length || next > length || looks > length/2 {
			t.Errorf("%d requests, %d claims of the next, %d looks for %d messages", len(came), next, looks, length)
		}
	})
}
