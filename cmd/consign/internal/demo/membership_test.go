package demo

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/consign-go/consign"
)

func openDesk(t *testing.T) *desk {
	t.Helper()
	d, err := open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.close)
	return d
}

// An actor, a tenant or a target of a type that the desk does not know, or that is
// not there, is a definite no, and so is a tenant that the actor does not belong to.
func TestStrangersAreDefinitelyRefused(t *testing.T) {
	d := openDesk(t)
	e := func(typ, id string) consign.Entity { return consign.Entity{Type: typ, ID: id} }
	staff, acme, ticket := e("staff", "7"), e("tenant", "acme"), e("ticket", "41")
	for _, c := range []struct {
		actor, tenant, target consign.Entity
		want                  error
	}{
		{staff, acme, ticket, nil},
		{e("customer", "7"), acme, ticket, consign.ErrRevoked},
		{e("staff", "8"), acme, ticket, consign.ErrRevoked},
		{e("staff", "7 OR 1"), acme, ticket, consign.ErrRevoked},
		{staff, e("customer", "acme"), ticket, consign.ErrRevoked},
		{staff, e("tenant", "other"), ticket, consign.ErrRevoked},
		{staff, acme, e("customer", "41"), consign.ErrUnavailable},
		{staff, acme, e("ticket", "99"), consign.ErrUnavailable},
	} {
		_, err := d.outbox.Run(t.Context(), consign.Admission{
			Operation: consign.Operation{Name: "triage"}, Actor: c.actor, Tenant: c.tenant, Target: c.target,
		}, func(context.Context, *sql.Tx, *consign.Run) error { return nil })
		if !errors.Is(err, c.want) {
			t.Errorf("%s in %s on %s: %v, want %v", c.actor, c.tenant, c.target, err, c.want)
		}
	}
}

// Work that waits is cancelled when its actor, or the membership, is gone, and when
// its target is.
func TestWaitingWorkOfWhatIsGoneIsCancelled(t *testing.T) {
	for change, code := range map[string]consign.Code{
		`DELETE FROM staff`:                  consign.CodeAuthorityRevoked,
		`UPDATE staff SET tenant = 'other'`:  consign.CodeAuthorityRevoked,
		`DELETE FROM ticket`:                 consign.CodeTargetUnavailable,
		`UPDATE ticket SET tenant = 'other'`: consign.CodeTargetUnavailable,
	} {
		d := openDesk(t)
		receipt, err := d.runTriage(t.Context(), 41, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.db.ExecContext(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		if err := d.visit(t.Context(), receipt.Work[0], consign.StatusCancelled, code, 0); err != nil {
			t.Errorf("%s: %v", change, err)
		}
	}
}
