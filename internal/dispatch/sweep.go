package dispatch

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// sweepPage is how many rows of the due index one step of a sweep looks at, and
// sweepRest how many times as long as that look it rests afterwards. So a sweep
// over millions takes minutes and little of the database, and one over thousands
// a moment.
const (
	sweepPage = 1000
	sweepRest = 19
)

// sweeping sweeps again and again until ctx ends. The pause varies, so that
// several programs on one database do not sweep in step.
func (e *Engine) sweeping(ctx context.Context) {
	for {
		e.sweep(ctx, sweepRest) // what fails is observed, and tried again
		if !sleep(ctx, e.Sweep*3/4+time.Duration(rand.Int64N(int64(e.Sweep/2)+1))) {
			return
		}
	}
}

// sleep reports false where ctx has ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// SweepOnce walks over all open deliveries whose lease or deadline is over, ends
// those that nobody may claim any more, and returns how many it ended.
func (e *Engine) SweepOnce(ctx context.Context) (ended int, err error) { return e.sweep(ctx, 0) }

// sweep is SweepOnce with a rest after each step, so many times as long as it took.
func (e *Engine) sweep(ctx context.Context, rest int) (ended int, err error) {
	began := time.Now()
	r := driver.OverdueRequest{Limit: sweepPage}
	for {
		step := time.Now()
		rows, next, err := e.store.Overdue(ctx, r)
		if err != nil {
			return ended, err
		}
		n, err := e.applyAll(ctx, rows, lifecycle.Event{Kind: lifecycle.EvSweep})
		if ended += n; err != nil {
			return ended, err
		}
		if next == (driver.Cursor{}) {
			break
		}
		if r.After = next; rest > 0 && !sleep(ctx, time.Duration(rest)*time.Since(step)) {
			break
		}
	}
	if ended > 0 {
		e.fromFront() // the gate of what stands behind them in their tasks may be open
		e.observe(Observation{Event: "sweep", Count: ended, Duration: time.Since(began)})
	}
	return ended, nil
}

// applyAll brings one event about for many deliveries, where it changes
// anything, and returns for how many it did. What does not hold has moved on by
// itself.
func (e *Engine) applyAll(ctx context.Context, rows []driver.Overdue, ev lifecycle.Event) (int, error) {
	var ts []lifecycle.Transition
	for i := range rows {
		tr := e.Policy.Apply(rows[i].State, ev)
		if tr.Answer == lifecycle.Apply {
			tr.Ref = rows[i].Ref
			ts = append(ts, tr)
		}
	}
	n := 0
	for len(ts) > 0 {
		batch := ts[:min(len(ts), e.Batch)]
		ts = ts[len(batch):]
		held, err := e.store.Apply(ctx, batch)
		if err != nil {
			return n, err
		}
		for _, h := range held {
			if h {
				n++
			}
		}
	}
	return n, nil
}

// overdue is records as what a walk over the due index would have found.
func overdue(records []driver.Record) []driver.Overdue {
	rows := make([]driver.Overdue, len(records))
	for i := range records {
		rows[i] = driver.Overdue{Ref: records[i].Intent.Ref, State: records[i].State}
	}
	return rows
}
