package consigntest_test

import (
	"context"
	"errors"
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

func TestTransactionsShowWhatTheyEnqueue(t *testing.T) {
	store := consigntest.NewStore()
	channel, far := consigntest.Channel("crm", errors.New("cut off"))
	outbox, err := consign.New(store, &consign.Options{Channels: []consign.Channel{channel}, Authority: consigntest.NewAuthority()})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	tx, err := store.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := outbox.Enqueue(ctx, tx, consign.Message{Channel: "crm", To: "them", Payload: map[string]any{"n": 1}, NotBefore: store.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	e := func(typ string) consign.Entity { return consign.Entity{Type: typ, ID: "1"} }
	admission := consign.Admission{Operation: consign.Operation{Name: "triage"}, Actor: e("staff"), Tenant: e("tenant"), Target: e("ticket")}
	_, err = outbox.Join(ctx, tx, admission, func(_ context.Context, run *consign.Run) error {
		_, err := notice.Enqueue(run, "notice", noticeInput{"41"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	got := consigntest.Enqueued(t, store, tx)
	if len(got) != 2 || got[0].Ref != ref || got[0].Profile != consign.ProfileMessage || got[0].To != "them" || string(got[0].Payload) != `{"n":1}` ||
		got[1].Profile != consign.ProfileWork || got[1].Kind != notice.Kind || got[1].Key != "notice" || got[1].Target != "ticket:1" {
		t.Errorf("enqueued %+v", got)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if n := len(consigntest.Enqueued(t, store, tx)); n != 0 {
		t.Errorf("%d are left in a committed transaction", n)
	}
	for _, step := range []struct{ by, sends int }{{0, 0}, {59, 0}, {1, 1}, {10, 2}} {
		consigntest.Advance(t, store, time.Duration(step.by)*time.Minute)
		if _, err := outbox.Drain(ctx, 0); err != nil {
			t.Fatal(err)
		}
		if n := len(far.Messages()); n != step.sends || len(far.Attempts()) != n {
			t.Errorf("after %d more minutes: sent %d times, want %d", step.by, n, step.sends)
		}
	}
	if i, err := outbox.Find(ctx, ref); err != nil || i.Status != consign.StatusDelivered {
		t.Errorf("%s, %v", i.Status, err)
	}
}
