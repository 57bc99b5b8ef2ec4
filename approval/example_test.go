package approval_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/approval"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/sqlite"
)

// refund is declared once: whoever proposes it and whoever runs it mean the same.
var refund = consign.Operation{Name: "refund", Approval: consign.OtherConfirmer}

type refundInput struct {
	Order string `json:"order"`
	Cents int    `json:"cents"`
}

// An agent proposes, a person signs off, the program runs exactly that, once.
func Example() {
	ctx := context.Background()
	outbox, approvals, done := shop(ctx)
	defer done()

	input := refundInput{Order: "1007", Cents: 4200}
	admission := consign.Admission{
		Operation: refund, Input: input,
		Actor:  consign.Entity{Type: "staff", ID: "7"},
		Tenant: consign.Entity{Type: "shop", ID: "3"},
		Target: consign.Entity{Type: "order", ID: input.Order},
	}
	apply := func(ctx context.Context, tx *sql.Tx, run *consign.Run) error {
		_, err := tx.ExecContext(ctx, `UPDATE orders SET refunded = ?, version = version + 1 WHERE id = ?`, input.Cents, run.Target().ID)
		return err
	}

	// The agent asks.
	id, err := approvals.ProposeNow(ctx, approval.Proposal{
		Admission: admission, Proposer: consign.Entity{Type: "agent", ID: "support"}, Reason: "the parcel was lost",
	})
	if err != nil {
		log.Fatal(err)
	}
	admission.Approval = id
	_, err = outbox.Run(ctx, admission, apply)
	fmt.Println(codeOfRun(err))

	// A person, signed in and allowed to decide in this shop, looks at it.
	waiting, _, err := approvals.Open(ctx, approval.Query{Tenant: admission.Tenant})
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range waiting {
		fmt.Printf("%s %s %s: %s\n", a.Operation, a.Target, a.Input, a.Reason)
	}
	_, err = approvals.Confirm(ctx, approval.Decision{Approval: id, Tenant: admission.Tenant, By: consign.Entity{Type: "staff", ID: "8"}})
	if err != nil {
		log.Fatal(err)
	}

	// The program runs it: not with another amount, and not twice.
	more := admission
	more.Input = refundInput{Order: "1007", Cents: 420000}
	_, err = outbox.Run(ctx, more, apply)
	fmt.Println(codeOfRun(err))
	receipt, err := outbox.Run(ctx, admission, apply)
	fmt.Println(receipt.Target, "at version", receipt.Version, err)
	_, err = outbox.Run(ctx, admission, apply)
	fmt.Println(codeOfRun(err))
	// Output:
	// APPROVAL_OPEN
	// refund order:1007 {"cents":4200,"order":"1007"}: the parcel was lost
	// APPROVAL_UNKNOWN
	// order:1007 at version 2 <nil>
	// APPROVAL_CONSUMED
}

func codeOfRun(err error) consign.Code {
	var e *consign.Error
	if !errors.Is(err, consign.ErrNotApproved) || !errors.As(err, &e) {
		log.Fatal(err)
	}
	return e.Code
}

// shop opens a database with one order.
func shop(ctx context.Context) (*consign.Outbox[*sql.Tx], *approval.Approvals[*sql.Tx], func()) {
	dir, err := os.MkdirTemp("", "consign-example-")
	if err != nil {
		log.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "shop.db"))
	if err != nil {
		log.Fatal(err)
	}
	store, err := sqlite.New(db, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := migrate.Up(ctx, store); err != nil {
		log.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, `CREATE TABLE orders (id TEXT PRIMARY KEY, refunded INTEGER, version INTEGER);
		INSERT INTO orders VALUES ('1007', 0, 1)`); err != nil {
		log.Fatal(err)
	}
	outbox, err := consign.New(store, &consign.Options{Authority: till{}})
	if err != nil {
		log.Fatal(err)
	}
	approvals, err := approval.New(store)
	if err != nil {
		log.Fatal(err)
	}
	return outbox, approvals, func() { db.Close(); os.RemoveAll(dir) }
}

// till is an authority as small as it gets: a real one looks actor and tenant up.
type till struct{}

func (till) Principal(_ context.Context, _ consign.View, actor, tenant consign.Entity) (consign.Principal, error) {
	return consign.Principal{Actor: actor, Tenant: tenant, SecurityVersion: "1"}, nil
}

func (till) Target(ctx context.Context, v consign.View, _ consign.Principal, e consign.Entity) (consign.Target, error) {
	t := consign.Target{Entity: e}
	err := consign.Read(ctx, v, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT version FROM orders WHERE id = ?`, e.ID).Scan(&t.Version)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return consign.Target{}, consign.ErrUnavailable
	}
	return t, err
}

func (till) MayRun(_ context.Context, _ consign.View, _ consign.Principal, operation string, _ consign.Target) (bool, error) {
	return operation == refund.Name, nil
}

func (till) MayRead(context.Context, consign.View, consign.Principal, string, consign.Entity) (bool, error) {
	return false, nil
}

func (till) MayDeliver(context.Context, consign.View, consign.Principal, string, string, consign.Target) (bool, error) {
	return false, nil
}
