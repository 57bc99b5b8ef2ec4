package supportdesk_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/consigntest"
	"github.com/consign-go/consign/examples/supportdesk"
)

// conditions are what can happen in the desk's tables after a triage has committed,
// and what becomes of its work then.
var conditions = []struct {
	name, change string
	status       consign.Status
	code         consign.Code
}{
	{"the actor is deactivated", `UPDATE staff SET active = FALSE WHERE id = '7'`, consign.StatusCancelled, consign.CodeAuthorityRevoked},
	{"the actor is deleted", `DELETE FROM staff WHERE id = '7'`, consign.StatusCancelled, consign.CodeAuthorityRevoked},
	{"the actor moves to another tenant", `UPDATE staff SET tenant = 'other' WHERE id = '7'`, consign.StatusCancelled, consign.CodeAuthorityRevoked},
	{"the actor's rights are changed", `UPDATE staff SET lock_version = 2 WHERE id = '7'`, consign.StatusCancelled, consign.CodeAuthorityRevoked},
	{"the tenant is suspended", `UPDATE tenant SET active = FALSE`, consign.StatusCancelled, consign.CodeAuthorityRevoked},
	{"the tenant's rules are changed", `UPDATE tenant SET lock_version = 2`, consign.StatusCancelled, consign.CodeAuthorityRevoked},
	{"the tenant is deleted", `DELETE FROM tenant`, consign.StatusCancelled, consign.CodeAuthorityRevoked},
	{"the permission to deliver is withdrawn", `DELETE FROM permission WHERE what LIKE 'deliver %'`,
		consign.StatusCancelled, consign.CodeDeliveryNotPermitted},
	{"the ticket is deleted", `DELETE FROM ticket WHERE id = '41'`, consign.StatusCancelled, consign.CodeTargetUnavailable},
	{"the ticket moves to another tenant", `UPDATE ticket SET tenant = 'other' WHERE id = '41'`,
		consign.StatusCancelled, consign.CodeTargetUnavailable},
	{"the ticket is edited", `UPDATE ticket SET priority = 'low', lock_version = lock_version + 1 WHERE id = '41'`,
		consign.StatusReconciliationRequired, consign.CodeRecordChanged},
}

// Whatever of it happens between the commit and the delivery, nothing is sent.
func TestNothingIsSentOnceTheWorldHasChanged(t *testing.T) {
	everywhere(t, func(w *world) {
		for _, c := range conditions {
			w.anew(c.name, func(w *world) {
				ref := w.triaged()
				w.change(c.change)
				w.visit(ref)
				w.want(ref, c.status, c.code, 0, 0)
			})
		}
	})
}

// Nor is it when the handler has already prepared its request: everything is asked
// again right before the effect.
func TestNothingIsSentIfTheWorldChangesWhileTheRequestIsPrepared(t *testing.T) {
	everywhere(t, func(w *world) {
		for _, c := range conditions {
			w.anew(c.name, func(w *world) {
				ref, prepared := w.triaged(), 0
				outbox := w.between(func() { prepared++; w.change(c.change) })
				_, err := outbox.Visit(w.Context(), ref)
				w.do(err)
				if prepared != 1 {
					w.Errorf("the handler was called %d times", prepared)
				}
				w.want(ref, c.status, c.code, 0, 0)
			})
		}
	})
}

// What did not happen to this actor, tenant or ticket changes nothing.
func TestOthersAreNoneOfItsBusiness(t *testing.T) {
	everywhere(t, func(w *world) {
		ref := w.triaged()
		for _, change := range []string{
			`UPDATE staff SET active = FALSE WHERE id = '8'`, `DELETE FROM ticket WHERE id = '42'`,
			`DELETE FROM permission WHERE what LIKE 'run %'`, // it may not run the operation any more; it did
		} {
			w.change(change)
		}
		w.visit(ref)
		w.want(ref, consign.StatusSucceeded, "", 1, 1)
	})
}

// Under Current an edit does not stop the delivery, before it or during it, and an
// attempt that is repeated sends what the first one sent. Everything else is asked
// as always.
func TestClosingIsDeliveredAboutNewerVersions(t *testing.T) {
	const edit = `UPDATE ticket SET priority = 'low', lock_version = lock_version + 1 WHERE id = '41'`
	everywhere(t, func(w *world) {
		receipt, err := w.CloseTicket(w.Context(), order)
		w.do(err)
		ref := receipt.Work[0]
		w.change(edit)
		w.far.answers(503)
		w.visit(ref)
		w.want(ref, consign.StatusPending, "", 1, 1)
		w.change(edit)
		if i := consigntest.Drive(t, w.store, w.Outbox, ref, 0); i.Status != consign.StatusSucceeded {
			w.Errorf("it ends %s %q", i.Status, i.Code)
		}
		want := request{"/crm", ref.String(), `{"event":"ticket.closed","ticket":"41"}`}
		if got := w.far.got(); len(got) != 2 || got[0] != want || got[1] != want {
			w.Errorf("the CRM got %+v", got)
		}

		receipt, err = w.CloseTicket(w.Context(), order)
		w.do(err)
		w.change(`UPDATE ticket SET tenant = 'other' WHERE id = '41'`)
		w.visit(receipt.Work[0])
		w.want(receipt.Work[0], consign.StatusCancelled, consign.CodeTargetUnavailable, 0, 2)
	})
}

// While the authority cannot find anything out, nothing is sent and nothing is
// given up; once it can again, the work is delivered.
func TestWorkWaitsForAnAuthorityThatRecovers(t *testing.T) {
	everywhere(t, func(w *world) {
		ref := w.triaged()
		w.change(`ALTER TABLE permission RENAME TO elsewhere`) // its question is an error now
		for range 3 {
			consigntest.Drive(t, w.store, w.Outbox, ref, 1)
			w.want(ref, consign.StatusPending, "", 0, 0)
		}
		w.change(`ALTER TABLE elsewhere RENAME TO permission`)
		consigntest.Drive(t, w.store, w.Outbox, ref, 1)
		w.want(ref, consign.StatusSucceeded, "", 1, 1)
	})
}

// It does not wait for ever, and then it is cancelled, not sent.
func TestWorkDoesNotOutliveItsDeadline(t *testing.T) {
	everywhere(t, func(w *world) {
		ref := w.triaged()
		consigntest.Advance(t, w.store, 24*time.Hour)
		w.visit(ref)
		w.want(ref, consign.StatusCancelled, consign.CodeDeadlineExpired, 0, 0)
	})
}

// The next release calls the ticket by another name.
type noticeV2 struct {
	ID string `json:"id" consign:"required,maxlen=64"`
}

func (w *world) next(upgrade map[string]func([]byte) (noticeV2, error), grace time.Duration) *consign.Outbox[*sql.Tx] {
	notice := consign.Work[noticeV2]{Kind: supportdesk.Notice.Kind, Version: "2", Idempotent: true, Upgrade: upgrade}
	return w.program(notice.Handler(func(ctx context.Context, d *consign.Delivery, in noticeV2) error {
		return w.DeliverNotice(ctx, d, supportdesk.NoticeInput{Ticket: in.ID})
	}), grace)
}

// In a rolling deploy the new release leaves alone what only the old one serves.
func TestRollingDeployLeavesWorkToTheOldRelease(t *testing.T) {
	everywhere(t, func(w *world) {
		ref := w.triaged()
		_, err := w.next(nil, 0).Visit(w.Context(), ref)
		w.do(err)
		w.want(ref, consign.StatusPending, "", 0, 0)
		w.visit(ref)
		w.want(ref, consign.StatusSucceeded, "", 1, 1)
	})
}

// With an upgrade the new release delivers what the old one has left.
func TestUpgradeDeliversWhatTheOldReleaseLeft(t *testing.T) {
	everywhere(t, func(w *world) {
		ref := w.triaged()
		outbox := w.next(map[string]func([]byte) (noticeV2, error){"1": func(old []byte) (in noticeV2, err error) {
			var v1 supportdesk.NoticeInput
			err = json.Unmarshal(old, &v1)
			return noticeV2{ID: v1.Ticket}, err
		}}, 0)
		_, err := outbox.Visit(w.Context(), ref)
		w.do(err)
		w.want(ref, consign.StatusSucceeded, "", 1, 1)
		want := request{"/crm", ref.String(), `{"event":"ticket.triaged","ticket":"41","version":"2"}`}
		if got := w.far.got()[0]; got != want {
			w.Errorf("the CRM got %+v, want %+v", got, want)
		}
	})
}

// Without one, and with the old release gone, it waits for a while and then for a
// person. It is never sent by guesswork, and never lost.
func TestWithoutAnUpgradeAPersonDecides(t *testing.T) {
	everywhere(t, func(w *world) {
		ref := w.triaged()
		ctx, stop := context.WithCancel(w.Context())
		served := make(chan error, 1)
		outbox := w.next(nil, time.Nanosecond)
		go func() { served <- outbox.Serve(ctx) }()
		for patience := time.Now().Add(time.Minute); time.Now().Before(patience); time.Sleep(5 * time.Millisecond) {
			if i, err := w.Outbox.Find(w.Context(), ref); err != nil || i.Status != consign.StatusPending {
				break
			}
		}
		stop()
		if err := <-served; err != nil && !errors.Is(err, context.Canceled) {
			w.Error(err)
		}
		w.want(ref, consign.StatusReconciliationRequired, consign.CodeHandlerChanged, 0, 0)
	})
}

// An actor, a tenant or a ticket of a type that the desk does not know, or that is
// not there, is a definite no.
func TestStrangersAreDefinitelyRefused(t *testing.T) {
	e := func(typ, id string) consign.Entity { return consign.Entity{Type: typ, ID: id} }
	ann, acme, ticket := e("staff", "7"), e("tenant", "acme"), e("ticket", "41")
	everywhere(t, func(w *world) {
		for _, c := range []struct {
			actor, tenant, target consign.Entity
			want                  error
		}{
			{ann, acme, ticket, nil},
			{e("customer", "7"), acme, ticket, consign.ErrRevoked},
			{e("staff", "9"), acme, ticket, consign.ErrRevoked},
			{e("staff", "7' OR '1"), acme, ticket, consign.ErrRevoked},
			{ann, e("customer", "acme"), ticket, consign.ErrRevoked},
			{ann, e("tenant", "other"), ticket, consign.ErrRevoked},
			{ann, acme, e("customer", "41"), consign.ErrUnavailable},
			{ann, acme, e("ticket", "99"), consign.ErrUnavailable},
			{e("staff", "8"), acme, ticket, consign.ErrNotPermitted},
		} {
			_, err := w.Outbox.Run(w.Context(), consign.Admission{
				Operation: consign.Operation{Name: "close"}, Actor: c.actor, Tenant: c.tenant, Target: c.target,
			}, func(context.Context, *sql.Tx, *consign.Run) error { return nil })
			if !errors.Is(err, c.want) {
				w.Errorf("%s in %s on %s: %v, want %v", c.actor, c.tenant, c.target, err, c.want)
			}
		}
	})
}
