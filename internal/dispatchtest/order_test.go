//go:build unix

package dispatchtest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/dispatch"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// ordered is a store that notes, of each delivery, that its claim was committed
// when it was handed out, and what became of its starts.
type ordered struct {
	driver.Driver
	seen func(ref string) (generation int64, err error) // by another connection

	mu       sync.Mutex
	claimed  map[driver.ID]int64
	starts   int
	slowest  time.Duration
	breaches []string
}

func (o *ordered) breach(format string, args ...any) {
	o.breaches = append(o.breaches, fmt.Sprintf(format, args...))
}

func (o *ordered) Claim(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	began := time.Now()
	out, err := o.Driver.Claim(ctx, r)
	took := time.Since(began)
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range out {
		ref, generation := out[i].Intent.Ref, out[i].State.Generation
		o.slowest = max(o.slowest, took)
		if n, err := o.seen(name(ref)); err != nil || n != generation {
			o.breach("%s was handed out under generation %d while others see %d, %v", ref, generation, n, err)
		}
		o.claimed[ref] = generation
	}
	return out, err
}

func (o *ordered) Apply(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
	o.mu.Lock()
	for i := range ts {
		if starting(&ts[i]) && o.claimed[ts[i].Ref] != ts[i].Fence.Generation {
			o.breach("%s is started under generation %d before its claim was answered", name(ts[i].Ref), ts[i].Fence.Generation)
		}
	}
	o.mu.Unlock()
	held, err := o.Driver.Apply(ctx, ts)
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range ts {
		if starting(&ts[i]) {
			if o.starts++; err != nil || !held[i] {
				o.breach("the start of %s did not hold, %v", name(ts[i].Ref), err)
			}
		}
	}
	return held, err
}

// Where commits take long (in PostgreSQL by a constraint that is checked at the
// commit, after the claimed rows have already been sent), no delivery is handed
// out, and none is started, before its claim is committed; and every start holds.
func TestStartNeverOvertakesItsClaim(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		const slow = 150 * time.Millisecond
		if d.File == "" {
			d.exec(t, `CREATE FUNCTION slow_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.15); RETURN NULL; END $$`)
			d.exec(t, `CREATE CONSTRAINT TRIGGER slow_commit AFTER UPDATE ON delivery DEFERRABLE INITIALLY DEFERRED
				FOR EACH ROW WHEN (NEW.status = 1) EXECUTE FUNCTION slow_commit()`)
		}
		far := newReceiver(t)
		p := program{Address: d.address, Name: "ordered", Receiver: far.place(), Policy: steady, Kinds: grid(2*time.Minute, time.Minute)}
		for _, k := range p.Kinds {
			d.enqueue(t, k, 4)
		}
		o := &ordered{Driver: d.Driver, claimed: map[driver.ID]int64{}}
		o.seen = func(ref string) (int64, error) {
			return d.one(t.Context(), "SELECT generation FROM "+d.prefix+"delivery WHERE "+d.uuid("ref")+" = $1", ref)
		}
		c := p.config(o, func(ob dispatch.Observation) {
			if ob.Event == "fence" || ob.Event == "error" {
				o.mu.Lock()
				defer o.mu.Unlock()
				o.breach("%s of %s: %v", ob.Event, ob.Ref, ob.Err)
			}
		})
		c.Workers, c.Patience = 5, time.Minute
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- dispatch.New(c).Serve(ctx) }()
		until(t, "everything has come to an end", func() bool {
			n, err := d.unsettled(t.Context())
			return err == nil && n == 0
		})
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		d.audit(t, far.all())
		if len(o.breaches) > 0 {
			t.Error(o.breaches)
		}
		if want := 4 * len(p.Kinds); o.starts != want || len(o.claimed) != want || d.File == "" && o.slowest < slow {
			t.Errorf("%d starts of %d claims, want %d; the slowest claim took %s", o.starts, len(o.claimed), want, o.slowest)
		}
	})
}
