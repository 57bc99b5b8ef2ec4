package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"github.com/consign-go/consign"
)

// membership is the desk's authority: an actor is an active member of staff, and
// everything is looked up through the tenant that the actor belongs to.
type membership struct{}

func (membership) Principal(ctx context.Context, v consign.View, actor, tenant consign.Entity) (consign.Principal, error) {
	if actor.Type != "staff" || tenant.Type != "tenant" {
		return consign.Principal{}, consign.ErrRevoked
	}
	p := consign.Principal{Actor: actor, Tenant: tenant}
	err := consign.Read(ctx, v, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT security_version FROM staff WHERE id = ? AND tenant = ? AND active`,
			actor.ID, tenant.ID).Scan(&p.SecurityVersion)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return consign.Principal{}, consign.ErrRevoked
	}
	return p, err
}

func (membership) Target(ctx context.Context, v consign.View, p consign.Principal, e consign.Entity) (consign.Target, error) {
	if e.Type != "ticket" {
		return consign.Target{}, consign.ErrUnavailable
	}
	t := consign.Target{Entity: e}
	err := consign.Read(ctx, v, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT lock_version FROM ticket WHERE id = ? AND tenant = ?`,
			e.ID, p.Tenant.ID).Scan(&t.Version)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return consign.Target{}, consign.ErrUnavailable
	}
	return t, err
}

func (membership) MayRun(_ context.Context, _ consign.View, _ consign.Principal, operation string, t consign.Target) (bool, error) {
	return operation == "triage" && t.Entity.Type == "ticket", nil
}

func (membership) MayRead(_ context.Context, _ consign.View, _ consign.Principal, operation string, target consign.Entity) (bool, error) {
	return operation == "triage" && target.Type == "ticket", nil
}

func (membership) MayDeliver(_ context.Context, _ consign.View, _ consign.Principal, operation, kind string, t consign.Target) (bool, error) {
	return operation == "triage" && kind == notice.Kind && t.Entity.Type == "ticket", nil
}

// noticeInput is what the notice about a triaged ticket needs to know.
type noticeInput struct {
	Ticket string `json:"ticket"`
}

var notice = consign.Work[noticeInput]{Kind: "tickets.triaged", Idempotent: true}

// runTriage executes the operation on one ticket.
func (d *desk) runTriage(ctx context.Context, ticket int, fault error) (consign.Receipt, error) {
	return d.outbox.Run(ctx, consign.Admission{
		Operation: consign.Operation{Name: "triage"},
		Actor:     consign.Entity{Type: "staff", ID: "7"},
		Tenant:    consign.Entity{Type: "tenant", ID: "acme"},
		Target:    consign.Entity{Type: "ticket", ID: strconv.Itoa(ticket)},
	}, func(ctx context.Context, tx *sql.Tx, run *consign.Run) error {
		if _, err := tx.ExecContext(ctx,
			`UPDATE ticket SET status = 'triaged', lock_version = lock_version + 1 WHERE id = ?`, run.Target().ID); err != nil {
			return err
		}
		if _, err := notice.Enqueue(run, "notice", noticeInput{Ticket: run.Target().ID}); err != nil {
			return err
		}
		if err := run.Receipt(map[string]any{"triaged": run.Target().ID}); err != nil {
			return err
		}
		return fault
	})
}

func operation(ctx context.Context, d *desk) (string, error) {
	fault := errors.New("the operation changes its mind")
	if _, err := d.runTriage(ctx, 42, fault); !errors.Is(err, fault) {
		return "", fmt.Errorf("a failing operation: %v", err)
	}
	if err := d.expect(ctx, 42, "new", 2); err != nil {
		return "", err
	}
	receipt, err := d.runTriage(ctx, 42, nil)
	if err != nil {
		return "", err
	}
	if len(receipt.Work) != 1 || receipt.Version != "2" {
		return "", fmt.Errorf("the receipt has %d pieces of work at version %s", len(receipt.Work), receipt.Version)
	}
	d.notice = receipt.Work[0]
	return fmt.Sprintf("run %s committed ticket 42 at version %s with work %s; a run that failed before it left nothing",
		receipt.Run, receipt.Version, receipt.Work[0]), d.expect(ctx, 42, "triaged", 3)
}
