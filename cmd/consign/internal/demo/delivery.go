package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/consign-go/consign"
)

// visit delivers one piece of work, if it may be, and compares what became of it.
func (d *desk) visit(ctx context.Context, ref consign.Ref, status consign.Status, code consign.Code, sent int) error {
	r, err := d.Outbox.Visit(ctx, ref)
	if err != nil {
		return err
	}
	if r.Status != status || r.Code != code || len(d.crm.got()) != sent {
		return fmt.Errorf("the work is %s %s and the CRM was reached %d times, expected %s %s and %d",
			r.Status, r.Code, len(d.crm.got()), status, code, sent)
	}
	return nil
}

func delivered(ctx context.Context, d *desk) (string, error) {
	if err := d.visit(ctx, d.notice, consign.StatusSucceeded, "", 1); err != nil {
		return "", err
	}
	a := d.crm.got()[0]
	if want := `{"event":"ticket.triaged","ticket":"42","version":"2"}`; a.body != want || a.key != d.notice.String() {
		return "", fmt.Errorf("the CRM got %s under %s", a.body, a.key)
	}
	return fmt.Sprintf("the CRM got %s under the key %s", a.body, a.key), nil
}

func edited(ctx context.Context, d *desk) (string, error) {
	receipt, err := d.runTriage(ctx, 43, nil)
	if err != nil {
		return "", err
	}
	if _, err := d.db.ExecContext(ctx, `UPDATE ticket SET lock_version = lock_version + 1 WHERE id = '43'`); err != nil {
		return "", err
	}
	err = d.visit(ctx, receipt.Work[0], consign.StatusReconciliationRequired, consign.CodeRecordChanged, 3)
	return "nothing was sent, and a person is asked to look: RECORD_CHANGED", err
}

func revoked(ctx context.Context, d *desk) (string, error) {
	receipt, err := d.runTriage(ctx, 41, nil)
	if err != nil {
		return "", err
	}
	order, next, err := d.approved(ctx, 41)
	if err != nil {
		return "", err
	}
	if _, err := d.db.ExecContext(ctx, `UPDATE staff SET active = FALSE WHERE id = '7'`); err != nil {
		return "", err
	}
	if err := d.visit(ctx, receipt.Work[0], consign.StatusCancelled, consign.CodeAuthorityRevoked, 3); err != nil {
		return "", err
	}
	if _, err := d.Triage(ctx, order, "normal", next); !errors.Is(err, consign.ErrRevoked) {
		return "", fmt.Errorf("an operation of a revoked actor: %v", err)
	}
	return "nothing was sent: AUTHORITY_REVOKED; what the operation committed stays", d.expect(ctx, 41, "triaged", 7)
}
