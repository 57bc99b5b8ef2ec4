package operator_test

import (
	"context"
	"errors"
	"testing"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/driver/memory"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/operator"
)

// lossy is a store that loses the answer to every action, after it or instead of it.
type lossy struct {
	*memory.Store
	happens bool
}

func (l *lossy) Driver(driver.Key) driver.Bound[*memory.Tx] { return l }

func (l *lossy) Act(ctx context.Context, a *driver.Action) (bool, error) {
	if l.happens {
		if held, err := l.Store.Act(ctx, a); err != nil || !held {
			return held, err
		}
	}
	return false, driver.ErrUnconfirmed
}

// An action whose confirmation was lost is looked up: it is reported as done where it
// was, and as unconfirmed where it is not to be seen.
func TestLostConfirmationIsLookedUp(t *testing.T) {
	for _, happens := range []bool{true, false} {
		s := &lossy{Store: memory.New(), happens: happens}
		h := &host{T: t, ctx: t.Context(), store: on[*memory.Tx]{s.Store, s.Store}}
		o, err := operator.New(s)
		h.ok(err)
		h.serves(servesMessage("mail", once))
		pending := message("mail", once)
		h.put(pending)
		unknown, rejected := h.unknown(message("mail", once)), h.rejected(message("mail", once))
		for name, act := range map[string]func() error{
			"cancel":    func() error { return cancel(h)(o, ann, refOf(pending)) },
			"redeliver": func() error { return redeliver(h)(o, ann, rejected) },
			"resolve": func() error {
				_, err := o.Resolve(h.ctx, ann, unknown, operator.Finding{Outcome: operator.FoundDelivered, Evidence: "asked"})
				return err
			},
		} {
			if err := act(); happens && err != nil || !happens && !errors.Is(err, consign.ErrUnconfirmed) {
				t.Errorf("%s, happened %v: %v", name, happens, err)
			}
		}
		if s := h.record(refOf(pending)).State.Status; s.Terminal() != happens {
			t.Errorf("happened %v: %s", happens, s)
		}
		if happens && h.record(unknown).State.Status != lifecycle.Failed {
			t.Error("a finding changed the status")
		}
	}
}
