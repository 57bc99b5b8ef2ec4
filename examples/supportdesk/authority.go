package supportdesk

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/consign-go/consign"
)

// Authority answers from the desk's tables who may do what, at the moment at which
// it is asked: an actor is an active member of an active tenant's staff, and
// everything is looked up through that tenant.
//
// A row that is not there is a definite no. An error of the database is none: it is
// returned as it is, and leaves the work undecided.
type Authority struct{}

var _ consign.Authority = Authority{}

// Principal finds the actor among the tenant's staff. Its security version changes
// with either row.
func (Authority) Principal(ctx context.Context, v consign.View, actor, tenant consign.Entity) (consign.Principal, error) {
	if actor.Type != "staff" || tenant.Type != "tenant" {
		return consign.Principal{}, consign.ErrRevoked
	}
	var staff, company int
	err := one(ctx, v, []any{&staff, &company}, `
		SELECT s.lock_version, t.lock_version FROM staff s JOIN tenant t ON t.id = s.tenant
		WHERE s.id = $1 AND s.active AND t.id = $2 AND t.active`, actor.ID, tenant.ID)
	if errors.Is(err, sql.ErrNoRows) {
		return consign.Principal{}, consign.ErrRevoked
	}
	return consign.Principal{Actor: actor, Tenant: tenant, SecurityVersion: fmt.Sprintf("%d.%d", staff, company)}, err
}

// Target finds a ticket of the principal's tenant.
func (Authority) Target(ctx context.Context, v consign.View, p consign.Principal, target consign.Entity) (consign.Target, error) {
	if target.Type != "ticket" {
		return consign.Target{}, consign.ErrUnavailable
	}
	t := consign.Target{Entity: target}
	err := one(ctx, v, []any{&t.Version}, `SELECT lock_version FROM ticket WHERE id = $1 AND tenant = $2`, target.ID, p.Tenant.ID)
	if errors.Is(err, sql.ErrNoRows) {
		return consign.Target{}, consign.ErrUnavailable
	}
	return t, err
}

// MayRun asks for the permission to run the operation.
func (Authority) MayRun(ctx context.Context, v consign.View, p consign.Principal, operation string, _ consign.Target) (bool, error) {
	return granted(ctx, v, p, "run "+operation)
}

// MayRead asks for the permission to read the operation's receipts.
func (Authority) MayRead(ctx context.Context, v consign.View, p consign.Principal, operation string, _ consign.Entity) (bool, error) {
	return granted(ctx, v, p, "read "+operation)
}

// MayDeliver asks for the permission to deliver this kind of work of the operation.
func (Authority) MayDeliver(ctx context.Context, v consign.View, p consign.Principal, operation, kind string, _ consign.Target) (bool, error) {
	return granted(ctx, v, p, "deliver "+kind+" of "+operation)
}

func granted(ctx context.Context, v consign.View, p consign.Principal, what string) (bool, error) {
	var n int
	err := one(ctx, v, []any{&n}, `SELECT count(*) FROM permission WHERE staff = $1 AND what = $2`, p.Actor.ID, what)
	return n > 0, err
}

// one reads one row through the view.
func one(ctx context.Context, v consign.View, into []any, query string, args ...any) error {
	return consign.Read(ctx, v, func(tx *sql.Tx) error { return tx.QueryRowContext(ctx, query, args...).Scan(into...) })
}
