package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/consign-go/consign"
)

// far is the CRM that the notices go to: it keeps what reaches it.
type far struct{ got []consign.Attempt }

func (f *far) send(_ context.Context, a consign.Attempt) error {
	f.got = append(f.got, a)
	return nil // a known success
}

// deliver is the handler of the notice: it builds the request and calls the effect.
func (d *desk) deliver(ctx context.Context, dl *consign.Delivery, in noticeInput) error {
	request := map[string]any{"event": "ticket.triaged", "ticket": in.Ticket, "version": dl.Target.Version}
	return dl.Effect(ctx, request, d.far.send)
}

// visit delivers one piece of work, if it may be, and compares what became of it.
func (d *desk) visit(ctx context.Context, ref consign.Ref, status consign.Status, code consign.Code, sent int) error {
	r, err := d.outbox.Visit(ctx, ref)
	if err != nil {
		return err
	}
	if r.Status != status || r.Code != code || len(d.far.got) != sent {
		return fmt.Errorf("the work is %s %s and the CRM was reached %d times, expected %s %s and %d",
			r.Status, r.Code, len(d.far.got), status, code, sent)
	}
	return nil
}

func delivered(ctx context.Context, d *desk) (string, error) {
	if err := d.visit(ctx, d.notice, consign.StatusSucceeded, "", 1); err != nil {
		return "", err
	}
	a := d.far.got[0]
	if want := `{"event":"ticket.triaged","ticket":"42","version":"2"}`; string(a.Request) != want || a.Key != d.notice.String() {
		return "", fmt.Errorf("the CRM got %s under %s", a.Request, a.Key)
	}
	return fmt.Sprintf("the CRM got %s under the key %s", a.Request, a.Key), nil
}

func edited(ctx context.Context, d *desk) (string, error) {
	receipt, err := d.runTriage(ctx, 43, nil)
	if err != nil {
		return "", err
	}
	if _, err := d.db.ExecContext(ctx, `UPDATE ticket SET lock_version = lock_version + 1 WHERE id = 43`); err != nil {
		return "", err
	}
	err = d.visit(ctx, receipt.Work[0], consign.StatusReconciliationRequired, consign.CodeRecordChanged, 1)
	return "nothing was sent, and a person is asked to look: RECORD_CHANGED", err
}

func revoked(ctx context.Context, d *desk) (string, error) {
	receipt, err := d.runTriage(ctx, 41, nil)
	if err != nil {
		return "", err
	}
	if _, err := d.db.ExecContext(ctx, `UPDATE staff SET active = 0 WHERE id = 7`); err != nil {
		return "", err
	}
	if err := d.visit(ctx, receipt.Work[0], consign.StatusCancelled, consign.CodeAuthorityRevoked, 1); err != nil {
		return "", err
	}
	if _, err := d.runTriage(ctx, 41, nil); !errors.Is(err, consign.ErrRevoked) {
		return "", fmt.Errorf("an operation of a revoked actor: %v", err)
	}
	return "nothing was sent: AUTHORITY_REVOKED; what the operation committed stays", d.expect(ctx, 41, "triaged", 5)
}
