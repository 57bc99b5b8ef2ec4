package dispatch

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// lastWrites is how long Serve waits, at the very end, for writes that were under
// way when the time was up.
const lastWrites = time.Second

// Serve scans, sweeps and delivers until ctx ends. Then it claims nothing more,
// gives back what was not started, lets effects end within the grace period,
// cancels them after it, and returns once everything known is written down. An
// error says how many effects went on although their context had ended; what
// becomes of them is left to their leases.
func (e *Engine) Serve(ctx context.Context) error {
	life, cancel := lifetimes(ctx, e.Grace, e.Policy.SettleMargin)
	defer cancel()
	e.alarm.start(e.Wake)
	defer e.alarm.stop()
	f := &feeder{Engine: e, slots: newSlots(e.Workers), life: life, spare: make(chan *Task)}
	var aside sync.WaitGroup
	aside.Go(func() { e.sweeping(ctx) })
	aside.Go(func() { e.attending(ctx) })
	aside.Go(func() { e.listening(ctx) })
	for range e.Lanes { // after the stop deliveries write for themselves, and a write that hangs is left behind with them
		f.tasks.Go(func() { e.writes.assist(ctx.Done()) })
	}
	f.feed()
	aside.Wait()
	defer e.hints.wait()
	return f.end()
}

// end waits for what is in hand.
func (f *feeder) end() error {
	close(f.spare)
	ended := make(chan struct{})
	go func() {
		f.tasks.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-f.life.hard.Done():
	}
	timer := time.NewTimer(lastWrites)
	defer timer.Stop()
	select {
	case <-ended:
		return nil
	case <-timer.C:
		return fmt.Errorf("%d deliveries did not end in time", f.slots.taken(f.Workers))
	}
}

// lifetimes are the three ends of an engine: ctx, a grace period after it, and
// the time to write down what is known after that.
func lifetimes(ctx context.Context, grace, flush time.Duration) (lives, context.CancelFunc) {
	effect, cancelEffect := linger(ctx, grace)
	hard, cancelHard := linger(effect, flush)
	return lives{stop: ctx, effect: effect, hard: hard}, func() { cancelHard(); cancelEffect() }
}

// linger is a context with ctx's values that ends d after ctx does.
func linger(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var mu sync.Mutex
	var timer *time.Timer
	done := false
	release := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		if !done {
			timer = time.AfterFunc(d, cancel)
		}
	})
	return out, func() {
		mu.Lock()
		defer mu.Unlock()
		done = true
		release()
		if timer != nil {
			timer.Stop()
		}
		cancel()
	}
}
