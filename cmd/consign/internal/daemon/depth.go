package daemon

import (
	"context"
	"time"
)

// lookEvery is how often the daemon counts what is in the database, for the metrics.
const lookEvery = 15 * time.Second

// look counts until ctx ends.
func (d *Daemon) look(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		d.count(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (d *Daemon) count(ctx context.Context) {}
