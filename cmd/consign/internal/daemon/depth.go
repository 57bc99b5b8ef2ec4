package daemon

import (
	"context"
	"time"

	"github.com/consign-go/consign/cli"
	"github.com/consign-go/consign/cmd/consign/internal/metrics"
	"github.com/consign-go/consign/operator"
)

// How often the daemon counts what is in the database, for the metrics, up to how
// many of a group, and how often it removes what retention says.
const (
	countEvery  = 15 * time.Second
	countMost   = 10_000
	retainEvery = time.Hour
)

// attend counts, and removes what is old, until ctx ends.
func (d *Daemon) attend(ctx context.Context) {
	counts, retains := time.NewTicker(countEvery), time.NewTicker(retainEvery)
	defer counts.Stop()
	defer retains.Stop()
	d.count(ctx)
	d.retain(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-counts.C:
			d.count(ctx)
		case <-retains.C:
			d.retain(ctx)
		}
	}
}

// count shows a look at the database, or none where it could not be looked at.
func (d *Daemon) count(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, countEvery)
	defer cancel()
	o, err := d.health.program.Load().Operator()
	if err != nil {
		return
	}
	c, err := o.Count(ctx, countMost)
	if err != nil {
		d.metrics.SetDepth(nil)
		if ctx.Err() == nil {
			d.Log.Warn("intents could not be counted", "error", err)
		}
		return
	}
	d.metrics.SetDepth(depth(&c))
}

func depth(c *operator.Counts) *metrics.Depth {
	out := &metrics.Depth{Review: c.Review}
	for _, n := range c.Counts {
		out.Groups = append(out.Groups, metrics.Group{Profile: string(n.Profile), Kind: n.Kind, Status: string(n.Status), N: n.N, Capped: n.Capped})
	}
	if due := cli.OldestDue(c); !due.IsZero() {
		out.OldestDue = c.At.Sub(due)
	}
	if !c.OldestReview.IsZero() {
		out.OldestReview = max(c.At.Sub(c.OldestReview), 0)
	}
	return out
}

// retain removes what has ended and is older than the configuration allows. The
// database's clock says what is older.
func (d *Daemon) retain(ctx context.Context) {
	age := time.Duration(d.retention.Load())
	if age == 0 {
		return
	}
	p := d.health.program.Load()
	n, err := 0, error(nil)
	o, err := p.Operator()
	if err == nil {
		var now time.Time
		if now, err = p.Now(ctx); err == nil {
			n, err = o.Prune(ctx, operator.By{Who: "consign serve", Why: "retention of " + age.String()}, "", now.Add(-age))
		}
	}
	if err != nil && ctx.Err() == nil {
		d.Log.Warn("what is old could not be removed", "error", err)
	}
	if n > 0 {
		d.Log.Info("removed what is old", "count", n, "retention", age)
	}
}
