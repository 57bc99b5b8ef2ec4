package consigntest_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/consigntest"
)

type noticeInput struct {
	Ticket string `json:"ticket" consign:"required"`
}

var notice = consign.Work[noticeInput]{Kind: "tickets.triaged", Idempotent: true}

// handler is the code under test: its transport is handed to it.
func handler(send func(context.Context, consign.Attempt) error) func(context.Context, *consign.Delivery, noticeInput) error {
	return func(ctx context.Context, d *consign.Delivery, in noticeInput) error {
		if d.Principal.Value == "closed" {
			return consign.Cancel("the desk is closed")
		}
		return d.Effect(ctx, map[string]any{"ticket": in.Ticket, "target": d.Target.Entity.String()}, send)
	}
}

func TestDeliverDrivesWorkToItsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		outcomes []error
		set      func(a *consigntest.Authority)
		visits   int
		status   consign.Status
		code     consign.Code
		sends    int
	}{
		"at once":           {nil, nil, 0, consign.StatusSucceeded, "", 1},
		"refused twice":     {[]error{consign.Refused(io.EOF, time.Hour), consign.NotSent(io.EOF)}, nil, 0, consign.StatusSucceeded, "", 3},
		"one visit only":    {[]error{io.EOF}, nil, 1, consign.StatusPending, "", 1},
		"rejected":          {[]error{consign.Rejected(io.EOF)}, nil, 0, consign.StatusReconciliationRequired, consign.CodeRejected, 1},
		"always unknown":    {[]error{io.EOF, io.EOF, io.EOF}, nil, 0, consign.StatusReconciliationRequired, consign.CodeOutcomeUnknown, 3},
		"denied":            {nil, func(a *consigntest.Authority) { a.Deny(notice.Kind) }, 0, consign.StatusCancelled, consign.CodeDeliveryNotPermitted, 0},
		"another kind":      {nil, func(a *consigntest.Authority) { a.Deny("other") }, 0, consign.StatusSucceeded, "", 1},
		"the host's values": {nil, func(a *consigntest.Authority) { a.Give("closed", nil) }, 0, consign.StatusCancelled, consign.CodeCancelledByHandler, 0},
	} {
		t.Run(name, func(t *testing.T) {
			far, authority := consigntest.NewReceiver(c.outcomes...), consigntest.NewAuthority()
			if c.set != nil {
				c.set(authority)
			}
			i := consigntest.Deliver(t, notice, handler(far.Send), noticeInput{"41"}, &consigntest.Case{Authority: authority, Visits: c.visits})
			if i.Status != c.status || i.Code != c.code || i.Attempts != c.sends || len(far.Attempts()) != c.sends {
				t.Errorf("%s %q, attempts %d, sent %d times; want %s %q, %d", i.Status, i.Code, i.Attempts, len(far.Attempts()), c.status, c.code, c.sends)
			}
		})
	}
}

// What changes between the two askings is noticed at the second.
func TestAuthorityChangesInsideAHandler(t *testing.T) {
	for code, change := range map[consign.Code]func(a *consigntest.Authority){
		consign.CodeAuthorityRevoked:     (*consigntest.Authority).Revoke,
		consign.CodeTargetUnavailable:    (*consigntest.Authority).Remove,
		consign.CodeRecordChanged:        func(a *consigntest.Authority) { a.Edit("2") },
		consign.CodeDeliveryNotPermitted: func(a *consigntest.Authority) { a.Deny(notice.Kind) },
		"":                               func(a *consigntest.Authority) { a.Fail(io.EOF) },
	} {
		far, a := consigntest.NewReceiver(), consigntest.NewAuthority()
		i := consigntest.Deliver(t, notice, func(ctx context.Context, d *consign.Delivery, in noticeInput) error {
			change(a)
			return handler(far.Send)(ctx, d, in)
		}, noticeInput{"41"}, &consigntest.Case{Authority: a, Visits: 1})
		if i.Code != code || len(far.Attempts()) != 0 {
			t.Errorf("%s %q, sent %d times; want %q and nothing sent", i.Status, i.Code, len(far.Attempts()), code)
		}
	}
	a := consigntest.NewAuthority()
	i := consigntest.Deliver(t, notice, func(context.Context, *consign.Delivery, noticeInput) error {
		a.Secure("2")
		return io.EOF
	}, noticeInput{"41"}, &consigntest.Case{Authority: a})
	if i.Code != consign.CodeAuthorityRevoked {
		t.Errorf("after a new security version: %s %q", i.Status, i.Code)
	}
}
