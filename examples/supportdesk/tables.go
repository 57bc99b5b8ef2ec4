package supportdesk

import "context"

// Tables are the program's own, in SQL that PostgreSQL and SQLite both read. What
// changes a row's meaning raises its lock_version.
const Tables = `
CREATE TABLE tenant (
    id           text PRIMARY KEY,
    active       boolean NOT NULL DEFAULT TRUE,
    lock_version integer NOT NULL DEFAULT 1
);
CREATE TABLE staff (
    id           text PRIMARY KEY,
    tenant       text NOT NULL,
    active       boolean NOT NULL DEFAULT TRUE,
    lock_version integer NOT NULL DEFAULT 1
);
CREATE TABLE permission (
    staff text NOT NULL,
    what  text NOT NULL,
    PRIMARY KEY (staff, what)
);
CREATE TABLE ticket (
    id           text PRIMARY KEY,
    tenant       text NOT NULL,
    customer     text NOT NULL,
    status       text NOT NULL DEFAULT 'new',
    priority     text NOT NULL DEFAULT 'normal',
    lock_version integer NOT NULL DEFAULT 1
);
CREATE TABLE answer (
    ticket text NOT NULL,
    body   text NOT NULL
)`

// What staff may do, as it is written in the table permission. Running an operation,
// reading its receipts and delivering its work are granted one by one.
const (
	ProposeTriage = "propose triage"
	ConfirmTriage = "confirm triage"
	RunTriage     = "run triage"
	ReadTriage    = "read triage"
	DeliverTriage = "deliver tickets.triaged of triage"
	RunClose      = "run close"
	DeliverClose  = "deliver tickets.closed of close"
)

// Create makes the tables.
func (d *Desk) Create(ctx context.Context) error {
	_, err := d.db.ExecContext(ctx, Tables)
	return err
}

// AddTenant adds a tenant.
func (d *Desk) AddTenant(ctx context.Context, tenant string) error {
	_, err := d.db.ExecContext(ctx, `INSERT INTO tenant (id) VALUES ($1)`, tenant)
	return err
}

// Hire adds a member of a tenant's staff, with what they may do.
func (d *Desk) Hire(ctx context.Context, tenant, staff string, may ...string) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `INSERT INTO staff (id, tenant) VALUES ($1, $2)`, staff, tenant); err != nil {
		return err
	}
	for _, what := range may {
		if _, err := tx.ExecContext(ctx, `INSERT INTO permission (staff, what) VALUES ($1, $2)`, staff, what); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// File adds a ticket of a tenant's customer.
func (d *Desk) File(ctx context.Context, tenant, ticket, customer string) error {
	_, err := d.db.ExecContext(ctx, `INSERT INTO ticket (id, tenant, customer) VALUES ($1, $2, $3)`, ticket, tenant, customer)
	return err
}
