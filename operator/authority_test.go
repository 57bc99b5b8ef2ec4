package operator_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// office is an authority that can be withdrawn.
type office struct{ revoked atomic.Bool }

func (o *office) Principal(_ context.Context, _ consign.View, actor, tenant consign.Entity) (consign.Principal, error) {
	if o.revoked.Load() {
		return consign.Principal{}, consign.ErrRevoked
	}
	return consign.Principal{Actor: actor, Tenant: tenant, SecurityVersion: "5"}, nil
}

func (o *office) Target(_ context.Context, _ consign.View, _ consign.Principal, target consign.Entity) (consign.Target, error) {
	return consign.Target{Entity: target, Version: "2"}, nil
}

func (o *office) MayRun(context.Context, consign.View, consign.Principal, string, consign.Target) (bool, error) {
	return false, nil
}

func (o *office) MayRead(context.Context, consign.View, consign.Principal, string, consign.Entity) (bool, error) {
	return false, nil
}

func (o *office) MayDeliver(context.Context, consign.View, consign.Principal, string, string, consign.Target) (bool, error) {
	return true, nil
}

// Work that is sent again is delivered under authority that is asked for then, not
// under what the first delivery was allowed.
func TestAuthorityIsCheckedAfreshForWhatIsSentAgain(t *testing.T) {
	type input struct {
		Text string `json:"text"`
	}
	onEveryStore(t, func(h *host) {
		authority := &office{}
		var sent atomic.Int64
		triaged := consign.Work[input]{Kind: "triaged"}
		o := h.make(consign.Options{Authority: authority, Handlers: []consign.Handler{
			triaged.Handler(func(ctx context.Context, d *consign.Delivery, in input) error {
				return d.Effect(ctx, in, func(context.Context, consign.Attempt) error { sent.Add(1); return nil })
			}),
		}})
		h.serve(o)
		var served driver.Serves
		h.until("the program is seen", func() bool {
			list, err := h.store.Serving(h.ctx, time.Minute)
			h.ok(err)
			i := slices.IndexFunc(list, func(s driver.Serves) bool { return s.Kind == "triaged" })
			if i >= 0 {
				served = list[i]
			}
			return i >= 0
		})
		// stopped is work of a contract that this program does not serve.
		stopped := func() consign.Ref {
			n := work("triaged", served.Contract)
			h.put(n)
			h.claim(n)
			h.happen(refOf(n), lifecycle.Event{Kind: lifecycle.EvStopped, Code: lifecycle.HandlerChanged})
			return refOf(n)
		}
		first, err := h.ann.Redeliver(h.ctx, ann, stopped())
		h.ok(err)
		h.until("it is delivered", func() bool { return h.record(first.Ref).State.Status.Terminal() })
		if s := h.record(first.Ref).State; s.Status != lifecycle.Succeeded || sent.Load() != 1 {
			h.Fatalf("with authority: %s %s, sent %d times", s.Status, s.Code, sent.Load())
		}

		authority.revoked.Store(true)
		second, err := h.ann.Redeliver(h.ctx, ann, stopped())
		h.ok(err)
		h.until("it ends", func() bool { return h.record(second.Ref).State.Status.Terminal() })
		if s := h.record(second.Ref).State; s.Status != lifecycle.Cancelled || s.Code != lifecycle.AuthorityRevoked || sent.Load() != 1 {
			h.Errorf("without authority: %s %s, sent %d times", s.Status, s.Code, sent.Load())
		}
		h.refusal("what authority was revoked for", redeliver(h)(h.ann, ann, second.Ref), "run the operation again")
	})
}
