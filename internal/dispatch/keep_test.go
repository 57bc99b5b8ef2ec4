package dispatch

import (
	"context"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/lifecycle"
)

// What a delivery function keeps of one delivery does nothing to the next one, which
// is driven by the same goroutine and in the same memory.
func TestWhatIsKeptOfADeliveryTouchesNoOther(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				var kept *Task
				var attempt Attempt
				var contexts []context.Context
				deliveries := 0
				s := &Served{Profile: k.profile, Kind: k.name, Contract: k.contract, Schedule: DefaultSchedule}
				send := func(ctx context.Context, a Attempt) error {
					if deliveries == 1 {
						kept, attempt, contexts = a.task, a, append(contexts, ctx)
						return nil
					}
					attempt.Prove("of the first")
					return &Definite{Event: lifecycle.EvRefused}
				}
				s.Deliver = func(ctx context.Context, t *Task) error {
					if deliveries++; deliveries == 1 {
						contexts = append(contexts, ctx)
						return t.Effect(ctx, t.Intent.Digest, send)
					}
					if t == kept {
						r.Error("a task was used again")
					}
					if err := kept.Effect(ctx, t.Intent.Digest, send); err != errTwice {
						r.Errorf("an effect of the first: %v", err)
					}
					for _, c := range contexts {
						if ctx.Err() != nil || c.Err() != context.Canceled {
							r.Errorf("contexts ended with %v, and of the first with %v", ctx.Err(), c.Err())
						}
					}
					return t.Effect(ctx, t.Intent.Digest, send)
				}
				e := r.engineOn(r.store, s)
				stop := r.serve(e)
				first := r.enqueue(k, 1)
				r.settled(time.Minute, first...)
				second := r.enqueue(k, 1)[0]
				r.until(time.Minute, "the second was tried", func() bool { return len(r.log(second)) > 0 })
				if err := stop(); err != nil {
					r.Error(err)
				}
				rows, err := r.store.History(context.Background(), second)
				if err != nil || len(rows) == 0 {
					r.Fatal(rows, err)
				}
				for _, row := range rows {
					if row.Outcome != lifecycle.Refused || row.Proof != "" {
						r.Errorf("%+v", row)
					}
				}
				r.is(first[0], lifecycle.Succeeded, "", false)
			})
		})
	}
}
