package supportdesk_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/consigntest"
	"github.com/consign-go/consign/examples/supportdesk"
)

func wantCode(w *world, what string, err error, code consign.Code) {
	w.Helper()
	var e *consign.Error
	if !errors.As(err, &e) || e.Code != code {
		w.Errorf("%s: %v, want %s", what, err, code)
	}
}

// The whole way: proposed, confirmed by somebody else, run once, delivered, read.
func TestTriageFromProposalToDelivery(t *testing.T) {
	everywhere(t, func(w *world) {
		ctx := w.Context()
		id, err := w.ProposeTriage(ctx, order, "urgent", "the shop is down")
		w.do(err)
		_, err = w.Triage(ctx, order, "urgent", consign.ID{})
		wantCode(w, "without an approval", err, consign.CodeApprovalRequired)
		_, err = w.Triage(ctx, order, "urgent", id)
		wantCode(w, "before it is confirmed", err, consign.CodeApprovalOpen)
		if err := w.ConfirmTriage(ctx, "acme", "7", id); !errors.Is(err, consign.ErrNotPermitted) {
			w.Errorf("confirmed by one who may not: %v", err)
		}
		w.do(w.ConfirmTriage(ctx, "acme", "8", id))
		_, err = w.Triage(ctx, order, "low", id)
		wantCode(w, "something else than was approved", err, consign.CodeApprovalUnknown)

		var tx *sql.Tx
		receipt, err := w.Triage(ctx, order, "urgent", id, func(_ context.Context, inside *sql.Tx, _ *consign.Run) error {
			tx = inside
			return nil
		})
		w.do(err)
		enqueued := consigntest.Enqueued(t, w.store, tx)
		if len(enqueued) != 1 || enqueued[0].Ref != receipt.Work[0] || enqueued[0].Kind != supportdesk.Notice.Kind || enqueued[0].Target != "ticket:41" {
			w.Errorf("enqueued %+v", enqueued)
		}
		if w.count(`SELECT count(*) FROM ticket WHERE id = '41' AND status = 'triaged' AND priority = 'urgent' AND lock_version = 2`) != 1 {
			w.Error("the ticket is not triaged")
		}
		_, err = w.Triage(ctx, order, "urgent", id)
		wantCode(w, "a second time", err, consign.CodeApprovalConsumed)

		w.want(receipt.Work[0], consign.StatusPending, "", 0, 0) // nothing has left with the commit
		w.visit(receipt.Work[0])
		w.want(receipt.Work[0], consign.StatusSucceeded, "", 1, 1)
		sent := request{"/crm", receipt.Work[0].String(), `{"event":"ticket.triaged","ticket":"41","version":"2"}`}
		if got := w.far.got()[0]; got != sent {
			w.Errorf("the CRM got %+v, want %+v", got, sent)
		}
		read, err := w.Outbox.Receipt(ctx, receipt.Run, consign.Entity{Type: "staff", ID: "7"}, consign.Entity{Type: "tenant", ID: "acme"})
		if err != nil || string(read.Body) != `{"triaged":"41"}` || read.Version != "2" {
			w.Errorf("the receipt is %+v, %v", read, err)
		}
		_, err = w.Outbox.Receipt(ctx, receipt.Run, consign.Entity{Type: "staff", ID: "8"}, consign.Entity{Type: "tenant", ID: "acme"})
		if !errors.Is(err, consign.ErrNotPermitted) && !errors.Is(err, consign.ErrNotFound) {
			w.Errorf("read by one who may not: %v", err)
		}
	})
}

// Who proposes cannot confirm, whatever else the one may do.
func TestProposerCannotConfirm(t *testing.T) {
	everywhere(t, func(w *world) {
		byBob := supportdesk.Order{Tenant: "acme", Staff: "8", Ticket: "41"}
		id, err := w.ProposeTriage(w.Context(), byBob, "low", "")
		w.do(err)
		wantCode(w, "confirmed by the proposer", w.ConfirmTriage(w.Context(), "acme", "8", id), consign.CodeApprovalSelfConfirmed)
	})
}

// A triage that fails at its very end leaves no row behind, neither of the desk nor
// of Consign, and gives the approval back.
func TestTriageThatFailsLeavesNoRow(t *testing.T) {
	everywhere(t, func(w *world) {
		id, before := w.approved(), w.rows()
		fault := errors.New("the last step fails")
		var tx *sql.Tx
		_, err := w.Triage(w.Context(), order, "urgent", id, func(ctx context.Context, inside *sql.Tx, _ *consign.Run) error {
			tx = inside
			if _, err := w.Outbox.Enqueue(ctx, inside, consign.Message{Channel: supportdesk.Mail, Payload: map[string]any{}}); err != nil {
				return err
			}
			return fault
		})
		if !errors.Is(err, fault) {
			w.Fatal(err)
		}
		if n := w.rows(); n != before || len(consigntest.Enqueued(t, w.store, tx)) != 0 {
			w.Errorf("%d rows of Consign, want %d as before", n, before)
		}
		if w.count(`SELECT count(*) FROM ticket WHERE status = 'new' AND lock_version = 1`) != 2 {
			w.Error("a ticket has changed")
		}
		if _, err := w.Triage(w.Context(), order, "urgent", id); err != nil {
			w.Errorf("the approval was not given back: %v", err)
		}
	})
}

// A key names one piece of work of a run: the same again is the same, anything else
// under it is a conflict and changes nothing.
func TestKeyRepeatsAndConflicts(t *testing.T) {
	type input = supportdesk.NoticeInput
	same, other := input{Ticket: "41"}, input{Ticket: "42"}
	newer := supportdesk.Notice
	newer.Version = "2"
	everywhere(t, func(w *world) {
		receipt, err := w.Triage(w.Context(), order, "urgent", w.approved(), func(_ context.Context, _ *sql.Tx, run *consign.Run) error {
			first, err := supportdesk.Notice.Enqueue(run, "notice", same)
			w.do(err)
			again, err := supportdesk.Notice.Enqueue(run, "notice", same)
			if err != nil || again != first {
				w.Errorf("the same again is %s after %s: %v", again, first, err)
			}
			for what, conflicts := range map[string]func() (consign.Ref, error){
				"another input":    func() (consign.Ref, error) { return supportdesk.Notice.Enqueue(run, "notice", other) },
				"another kind":     func() (consign.Ref, error) { return supportdesk.Closing.Enqueue(run, "notice", same) },
				"another contract": func() (consign.Ref, error) { return newer.Enqueue(run, "notice", same) },
			} {
				if ref, err := conflicts(); !errors.Is(err, consign.ErrConflict) {
					w.Errorf("%s under the key: %s, %v", what, ref, err)
				}
			}
			return nil
		})
		w.do(err)
		if len(receipt.Work) != 1 || w.count(`SELECT count(*) FROM `+w.table+`intent`) != 1 {
			w.Errorf("the run left %v", receipt.Work)
		}
		w.visit(receipt.Work[0])
		w.want(receipt.Work[0], consign.StatusSucceeded, "", 1, 1)
		if got := w.far.got()[0].body; got != `{"event":"ticket.triaged","ticket":"41","version":"2"}` {
			w.Errorf("a conflict has changed what is sent: %s", got)
		}
	})
}

// An answer and its message commit together; nobody is asked about a message, and
// what failed is sent again as it is.
func TestAnswerReachesTheCustomer(t *testing.T) {
	everywhere(t, func(w *world) {
		ref, err := w.Answer(w.Context(), "acme", "41", "It works again.")
		w.do(err)
		w.want(ref, consign.StatusPending, "", 0, 0)
		w.change(`UPDATE staff SET active = FALSE`)
		w.far.answers(503, 503)
		if i := consigntest.Drive(t, w.store, w.Outbox, ref, 0); i.Status != consign.StatusDelivered || i.Profile != consign.ProfileMessage {
			w.Errorf("it ends %s %q", i.Status, i.Code)
		}
		want := request{"/mail", ref.String(), `{"body":"It works again.","ticket":"41","to":"kim@example.org"}`}
		got := w.far.got()
		if len(got) != 3 || got[0] != want || got[1] != want || got[2] != want {
			w.Errorf("the gateway got %+v", got)
		}

		before := w.rows()
		if _, err := w.Answer(w.Context(), "other", "41", "Hello."); !errors.Is(err, supportdesk.ErrNoTicket) {
			w.Errorf("an answer to another tenant's ticket: %v", err)
		}
		if w.rows() != before || w.count(`SELECT count(*) FROM answer`) != 1 {
			w.Error("an answer that failed has left something")
		}
	})
}
