package postgres

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign"
)

// yes is an authority that knows everybody and never looks.
type yes struct{}

func (yes) Principal(_ context.Context, _ consign.View, actor, tenant consign.Entity) (consign.Principal, error) {
	return consign.Principal{Actor: actor, Tenant: tenant, SecurityVersion: "1"}, nil
}

func (yes) Target(_ context.Context, _ consign.View, _ consign.Principal, e consign.Entity) (consign.Target, error) {
	return consign.Target{Entity: e, Version: "1"}, nil
}

func (yes) MayRun(context.Context, consign.View, consign.Principal, string, consign.Target) (bool, error) {
	return true, nil
}

func (yes) MayRead(context.Context, consign.View, consign.Principal, string, consign.Entity) (bool, error) {
	return true, nil
}

func (yes) MayDeliver(context.Context, consign.View, consign.Principal, string, string, consign.Target) (bool, error) {
	return true, nil
}

// TestRunWhoseCommitArrivesLateIsFound: a commit takes effect after its client was
// told that nobody knows. The run, which left no work, is looked for by the ID that
// came with the error.
func TestRunWhoseCommitArrivesLateIsFound(t *testing.T) {
	d := open(t)
	d.exec(t, fmt.Sprintf(`
CREATE FUNCTION {s}held_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    PERFORM pg_advisory_xact_lock_shared(%d); RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER held_up AFTER INSERT ON {s}run DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION {s}held_up()`, d.gateKey(t)))
	release := d.shut(t)
	_, slow, cut := behind(t, d) // one connection: neither a cancel request nor a look-up gets through
	o := &consign.Options{Authority: yes{}}
	outbox, err := consign.New(slow, o)
	if err != nil {
		t.Fatal(err)
	}
	ann, acme := consign.Entity{Type: "staff", ID: "7"}, consign.Entity{Type: "tenant", ID: "3"}
	type answer struct {
		consign.Receipt
		err error
	}
	done := make(chan answer, 1)
	go func() {
		receipt, err := outbox.Run(t.Context(), consign.Admission{
			Operation: consign.Operation{Name: "triage"}, Actor: ann, Tenant: acme, Target: consign.Entity{Type: "ticket", ID: "41"},
		}, func(_ context.Context, _ pgx.Tx, run *consign.Run) error {
			return run.Receipt(map[string]any{"done": true})
		})
		done <- answer{receipt, err}
	}()
	d.untilBlocked(t, 1, "%")
	cut()
	got := <-done
	if !errors.Is(got.err, consign.ErrUnconfirmed) || got.Run.IsZero() {
		t.Fatalf("a commit without an answer: %+v, %v; want a run and ErrUnconfirmed", got.Receipt, got.err)
	}
	later, err := consign.New(d.Store, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := later.Receipt(t.Context(), got.Run, ann, acme); !errors.Is(err, consign.ErrNotFound) {
		t.Errorf("before the commit arrived: %v", err)
	}
	release()
	receipt := consign.Receipt{}
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(time.Millisecond) { // asked again, not hoped for
		if receipt, err = later.Receipt(t.Context(), got.Run, ann, acme); !errors.Is(err, consign.ErrNotFound) {
			break
		}
	}
	if err != nil || !reflect.DeepEqual(receipt, got.Receipt) {
		t.Errorf("after the commit arrived: %+v, %v; want %+v", receipt, err, got.Receipt)
	}
}
