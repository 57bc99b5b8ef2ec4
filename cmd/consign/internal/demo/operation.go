package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/examples/supportdesk"
)

// approved is a triage that somebody has proposed and somebody else has confirmed.
func (d *desk) approved(ctx context.Context, ticket int) (supportdesk.Order, consign.ID, error) {
	order := supportdesk.Order{Tenant: "acme", Staff: "7", Ticket: strconv.Itoa(ticket)}
	id, err := d.ProposeTriage(ctx, order, "normal", "")
	if err == nil {
		err = d.ConfirmTriage(ctx, "acme", "8", id)
	}
	return order, id, err
}

// runTriage has one ticket triaged. With a fault the last step of it fails.
func (d *desk) runTriage(ctx context.Context, ticket int, fault error) (consign.Receipt, error) {
	order, id, err := d.approved(ctx, ticket)
	if err != nil {
		return consign.Receipt{}, err
	}
	return d.Triage(ctx, order, "normal", id, func(context.Context, *sql.Tx, *consign.Run) error { return fault })
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
