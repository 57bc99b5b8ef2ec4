package supportdesk

import (
	"context"
	"database/sql"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/approval"
	"github.com/consign-go/consign/webhook"
)

// Options are what a desk needs from its surroundings.
type Options struct {
	// CRM is where notices go. It has to drop repeated delivery keys: the kinds of
	// work that it gets are declared idempotent.
	CRM *webhook.Endpoint

	// Channels are the ways to customers; answers take the one named [Mail].
	Channels []consign.Channel
}

// Desk is the program. Its methods may be called from many goroutines.
type Desk struct {
	// Outbox delivers what the desk commits, as soon as somebody calls its Serve.
	Outbox *consign.Outbox[*sql.Tx]

	// Approvals lists what waits to be confirmed.
	Approvals *approval.Approvals[*sql.Tx]

	db  *sql.DB
	crm *webhook.Endpoint
}

// New returns a desk on db, whose outbox is in store: what sqlite.New(db, …) or
// postgres.NewSQL(…, db, …) returned.
func New(db *sql.DB, store consign.Store[*sql.Tx], o Options) (*Desk, error) {
	d := &Desk{db: db, crm: o.CRM}
	var err error
	if d.Approvals, err = approval.New(store); err != nil {
		return nil, err
	}
	d.Outbox, err = consign.New(store, &consign.Options{
		Handlers:  []consign.Handler{Notice.Handler(d.DeliverNotice), Closing.Handler(d.DeliverClosing)},
		Channels:  o.Channels,
		Authority: Authority{},
	})
	return d, err
}

// The entities that operations are about.
func tenantEntity(id string) consign.Entity { return consign.Entity{Type: "tenant", ID: id} }
func staffEntity(id string) consign.Entity  { return consign.Entity{Type: "staff", ID: id} }
func ticketEntity(id string) consign.Entity { return consign.Entity{Type: "ticket", ID: id} }

// may tells whether a member of a tenant's staff may do something, for what Consign
// leaves to the program: who proposes and who confirms.
func (d *Desk) may(ctx context.Context, tenant, staff, what string) error {
	var n int
	err := d.db.QueryRowContext(ctx, `
		SELECT count(*) FROM staff s JOIN tenant t ON t.id = s.tenant JOIN permission p ON p.staff = s.id
		WHERE s.id = $1 AND s.active AND t.id = $2 AND t.active AND p.what = $3`, staff, tenant, what).Scan(&n)
	if err == nil && n == 0 {
		return consign.ErrNotPermitted
	}
	return err
}
