package consign_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/consigntest"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/driver/memory"
)

// runReceipt runs an operation with a business receipt and two pieces of work.
func runReceipt(t testing.TB, h *host) consign.Receipt {
	t.Helper()
	receipt, err := h.outbox.Run(t.Context(), admit, func(_ context.Context, tx *txn, run *consign.Run) error {
		for _, key := range []string{"second", "first"} {
			if _, err := triaged.Enqueue(run, key, noticeInput{Ticket: "41"}); err != nil {
				return err
			}
		}
		return errors.Join(tx.Exec(triageSQL), run.Receipt(map[string]any{"state": "triaged"}))
	})
	if err != nil {
		t.Fatal(err)
	}
	return receipt
}

func TestReceiptIsReadByWhoMayReadIt(t *testing.T) {
	unknown, elsewhere := consign.NewRef().ID, consign.Entity{Type: "tenant", ID: "4"}
	onDesk(t, func(t *testing.T, h *host, d *desk) {
		want := runReceipt(t, h)
		d.tryWrites, d.denied, d.undeliverable = true, true, true // other grants
		got, err := h.outbox.Receipt(t.Context(), want.Run, bea, acme)
		if err != nil || !reflect.DeepEqual(got, want) || len(got.Work) != 2 {
			t.Errorf("read %+v, %v; want %+v", got, err, want)
		}
		if d.writes != nil {
			t.Error(d.writes)
		}
		if last := d.asked[len(d.asked)-1]; last != "may read triage on ticket:41" {
			t.Errorf("the authority was asked last: %s", last)
		}
		// What is said of a run that may not be read, and of one that is not there.
		for name, c := range map[string]struct {
			set    func()
			run    consign.ID
			tenant consign.Entity
			is     error
		}{
			"may not be read":               {func() { d.unreadable = true }, want.Run, acme, consign.ErrNotPermitted},
			"unknown":                       {func() {}, unknown, acme, consign.ErrNotFound},
			"unknown, and would be refused": {func() { d.unreadable = true }, unknown, acme, consign.ErrNotFound},
			"of another tenant":             {func() {}, want.Run, elsewhere, consign.ErrNotFound},
			"revoked reader":                {func() { d.revoked = true }, want.Run, acme, consign.ErrRevoked},
			"revoked reader, unknown":       {func() { d.revoked = true }, unknown, acme, consign.ErrRevoked},
			"answered for somebody else":    {func() { d.stranger = true }, want.Run, acme, consign.ErrRevoked},
			"authority in trouble":          {func() { d.trouble = errBroken }, want.Run, acme, errBroken},
			"no run":                        {func() {}, consign.ID{}, acme, consign.ErrInvalid},
			"no tenant":                     {func() {}, want.Run, consign.Entity{}, consign.ErrInvalid},
		} {
			d.unreadable, d.revoked, d.stranger, d.trouble = false, false, false, nil
			c.set()
			reader := consign.Entity{Type: "staff", ID: "9"}
			got, err := h.outbox.Receipt(t.Context(), c.run, reader, c.tenant)
			if !errors.Is(err, c.is) || !reflect.DeepEqual(got, consign.Receipt{}) {
				t.Errorf("%s: %+v, %v; want %v", name, got, err, c.is)
			}
		}
	})
}

// What becomes of the work is not in the receipt, and does not change it.
func TestDeliveryNeverRewritesAReceipt(t *testing.T) {
	onDeskWith(t, consign.Options{Handlers: []consign.Handler{delivered}}, func(t *testing.T, h *host, d *desk) {
		want := runReceipt(t, h)
		same := func(when string) {
			t.Helper()
			got, err := h.outbox.Receipt(t.Context(), want.Run, ann, acme)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v, %v; want %+v", when, got, err, want)
			}
		}
		row := h.text(t, `SELECT target_version || receipt FROM {s}run`)
		same("while its work is pending")
		if got, err := h.outbox.Visit(t.Context(), want.Work[0]); err != nil || !got.Success() {
			t.Fatalf("%+v, %v", got, err)
		}
		same("with one piece delivered")
		d.undeliverable = true
		if got, err := h.outbox.Visit(t.Context(), want.Work[1]); err != nil || got.Status != consign.StatusCancelled {
			t.Fatalf("%+v, %v", got, err)
		}
		d.undeliverable = false
		same("with the other cancelled")
		if s := h.text(t, `SELECT status FROM {t}ticket WHERE id = 41`); s != "triaged" {
			t.Errorf("a cancelled delivery took the change back: the ticket is %s", s)
		}
		h.exec(t, `DELETE FROM {s}delivery;
DELETE FROM {s}intent`) // as retention does, in the end
		same("with its work pruned")
		if now := h.text(t, `SELECT target_version || receipt FROM {s}run`); now != row {
			t.Errorf("the stored receipt is %q, was %q", now, row)
		}
	})
}

// Three grants, all combinations: each opens its own door and no other.
func TestRunReadAndDeliverAreThreeGrants(t *testing.T) {
	onDeskWith(t, consign.Options{Handlers: []consign.Handler{delivered}}, func(t *testing.T, h *host, d *desk) {
		prepared := runReceipt(t, h)
		for i := range 8 {
			run, read, deliver := i&1 > 0, i&2 > 0, i&4 > 0
			name := fmt.Sprintf("run %v, read %v, deliver %v", run, read, deliver)
			d.denied, d.undeliverable = false, false
			work := runReceipt(t, h).Work[0]
			d.denied, d.unreadable, d.undeliverable = !run, !read, !deliver
			_, err := h.outbox.Run(t.Context(), admit, func(context.Context, *txn, *consign.Run) error { return nil })
			if run != (err == nil) || !run && !errors.Is(err, consign.ErrNotPermitted) {
				t.Errorf("%s: run gives %v", name, err)
			}
			_, err = h.outbox.Receipt(t.Context(), prepared.Run, ann, acme)
			if read != (err == nil) || !read && !errors.Is(err, consign.ErrNotPermitted) {
				t.Errorf("%s: reading gives %v", name, err)
			}
			h.exec(t, `UPDATE {t}ticket SET lock_version = (SELECT max(CAST(target_version AS integer)) FROM {s}intent)`)
			got, err := h.outbox.Visit(t.Context(), work)
			if err != nil || deliver != got.Success() || !deliver && got.Code != consign.CodeDeliveryNotPermitted {
				t.Errorf("%s: delivery gives %+v, %v", name, got, err)
			}
		}
	})
}

// An authority that could not decide has not said no, and is asked again.
func TestUndecidedIsNotANo(t *testing.T) {
	onDesk(t, func(t *testing.T, h *host, d *desk) {
		for name, c := range map[string]struct{ set, mend func() }{
			"an error":                   {func() { d.trouble = errBroken }, func() { d.trouble = nil }},
			"an answer without a thing":  {func() { d.empty = true }, func() { d.empty = false }},
			"an answer without a tenant": {func() { d.half = true }, func() { d.half = false }},
			"a target without a version": {func() { d.noVersion = true }, func() { d.noVersion = false }},
		} {
			c.set()
			_, err := runTriage(t, h, admit)
			for _, no := range []error{consign.ErrRevoked, consign.ErrUnavailable, consign.ErrNotPermitted, consign.ErrNotFound} {
				if err == nil || errors.Is(err, no) {
					t.Errorf("%s: %v", name, err)
				}
			}
			c.mend()
			if _, err := runTriage(t, h, admit); err != nil {
				t.Errorf("%s, mended: %v", name, err)
			}
		}
	})
}

// Without an authority nobody is anonymous and nobody is the system.
func TestWithoutAuthorityNothingIsAsked(t *testing.T) {
	onEveryStore(t, consign.Options{}, func(t *testing.T, h *host) {
		tx := h.begin(t)
		_, err := tx.Join(admit, func(context.Context, *consign.Run) error {
			t.Error("the operation ran")
			return nil
		})
		checkInvalid(t, "join", err, "authority is not configured")
		mustCommit(t, tx)
		_, err = h.outbox.Receipt(t.Context(), consign.NewRef().ID, ann, acme)
		checkInvalid(t, "receipt", err, "authority is not configured")
		leftNothing(t, h)
	})
	_, err := consign.New(memory.New(), &consign.Options{Handlers: []consign.Handler{delivered}})
	checkInvalid(t, "handlers", err, "authority is missing")
}

// A change of the target behind the join is not in the version that the run
// recorded. It does not go unnoticed: the work is stopped before its effect.
func TestChangeBehindAJoinIsNoticed(t *testing.T) {
	called := false
	o := consign.Options{Handlers: []consign.Handler{triaged.Handler(func(ctx context.Context, d *consign.Delivery, in noticeInput) error {
		return d.Effect(ctx, in, func(context.Context, consign.Attempt) error { called = true; return nil })
	})}}
	onDeskWith(t, o, func(t *testing.T, h *host, _ *desk) {
		tx := h.begin(t)
		receipt, err := tx.Join(admit, func(_ context.Context, run *consign.Run) error {
			_, err := triaged.Enqueue(run, "notice", noticeInput{Ticket: "41"})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.Exec(triageSQL); err != nil {
			t.Fatal(err)
		}
		mustCommit(t, tx)
		got, err := h.outbox.Visit(t.Context(), receipt.Work[0])
		if err != nil || called || got.Code != consign.CodeRecordChanged || got.Status != consign.StatusReconciliationRequired {
			t.Errorf("delivered as %+v, %v; called is %v", got, err, called)
		}
	})
}

// A join that the database cannot undo says so: the caller must not commit.
func TestJoinThatCannotBeUndoneSaysSo(t *testing.T) {
	onDesk(t, func(t *testing.T, h *host, _ *desk) {
		tx := h.begin(t)
		_, err := tx.Join(admit, func(context.Context, *consign.Run) error {
			// An operation that ends the transaction behind everybody's back.
			return errors.Join(errBroken, tx.Exec("ROLLBACK"), tx.Exec("BEGIN"))
		})
		if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "roll the transaction back") {
			t.Errorf("join: %v", err)
		}
		tx.Rollback()
		leftNothing(t, h)
	})
}

// Without work there is no ref to look for; the run itself is looked up.
func TestLostCommitAnswerOfARunIsLookedUp(t *testing.T) {
	for _, arrives := range []bool{true, false} {
		store := memory.New()
		ob, err := consign.New(unsure{store, arrives}, &consign.Options{Authority: onMemory{}})
		if err != nil {
			t.Fatal(err)
		}
		receipt, err := ob.Run(t.Context(), admit, func(context.Context, *memory.Tx, *consign.Run) error { return nil })
		if arrives != (err == nil) || !arrives && !errors.Is(err, consign.ErrUnconfirmed) || receipt.Run.IsZero() {
			t.Errorf("a commit that arrived: %v; receipt %+v, %v", arrives, receipt, err)
		}
		// So can whoever was told that it is not known.
		_, err = ob.Receipt(t.Context(), receipt.Run, ann, acme)
		if arrives != (err == nil) || !arrives && !errors.Is(err, consign.ErrNotFound) {
			t.Errorf("a commit that arrived: %v; the receipt is read with %v", arrives, err)
		}
	}
}

// onMemory is an authority that says yes.
type onMemory struct{}

func (onMemory) Principal(_ context.Context, _ consign.View, actor, tenant consign.Entity) (consign.Principal, error) {
	return consign.Principal{Actor: actor, Tenant: tenant, SecurityVersion: "1"}, nil
}

func (onMemory) Target(_ context.Context, _ consign.View, _ consign.Principal, e consign.Entity) (consign.Target, error) {
	return consign.Target{Entity: e, Version: "1"}, nil
}

func (onMemory) MayRun(context.Context, consign.View, consign.Principal, string, consign.Target) (bool, error) {
	return true, nil
}

func (onMemory) MayRead(context.Context, consign.View, consign.Principal, string, consign.Entity) (bool, error) {
	return true, nil
}

func (onMemory) MayDeliver(context.Context, consign.View, consign.Principal, string, string, consign.Target) (bool, error) {
	return true, nil
}

// The receipt of erased data is bare: that the run took place, at which version, with
// which work.
func TestErasureTakesTheBodyOfAReceipt(t *testing.T) {
	store := memory.New()
	ob, err := consign.New(store, &consign.Options{Authority: onMemory{}})
	if err != nil {
		t.Fatal(err)
	}
	want, err := ob.Run(t.Context(), admit, func(_ context.Context, _ *memory.Tx, run *consign.Run) error {
		_, err := triaged.Enqueue(run, "notice", noticeInput{Ticket: "41"})
		return errors.Join(err, run.Receipt(map[string]any{"name": "Ann"}))
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Driver(driver.Key{}).Erase(t.Context(), []string{admit.Subject}); err != nil {
		t.Fatal(err)
	}
	want.Body = nil
	if got, err := ob.Receipt(t.Context(), want.Run, ann, acme); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v; want %+v", got, err, want)
	}
}

// keeper keeps the views that it is given, and where it is told to, answers while
// somebody still reads through one.
type keeper struct {
	*consigntest.Authority
	views []consign.View
	leak  func(v consign.View)
}

func (k *keeper) Principal(ctx context.Context, v consign.View, actor, tenant consign.Entity) (consign.Principal, error) {
	k.views = append(k.views, v)
	if k.leak != nil {
		k.leak(v)
	}
	return k.Authority.Principal(ctx, v, actor, tenant)
}

// The views of a run and of a receipt end with the question: whoever kept one cannot
// make the run's transaction read-only, or undo a part of it, under its function.
func TestNoViewOutlivesTheQuestionOfARun(t *testing.T) {
	k := &keeper{Authority: consigntest.NewAuthority()}
	store := consigntest.NewStore()
	ob, err := consign.New(store, &consign.Options{Authority: k})
	if err != nil {
		t.Fatal(err)
	}
	closed := func(when string) {
		t.Helper()
		for _, v := range k.views {
			err := consign.Read(t.Context(), v, func(*consigntest.Tx) error { return nil })
			if !errors.Is(err, consign.ErrClosed) {
				t.Errorf("%s: reading through a view that was kept: %v", when, err)
			}
		}
	}
	run := func() (consign.Receipt, error) {
		return ob.Run(t.Context(), admit, func(context.Context, *consigntest.Tx, *consign.Run) error {
			closed("in the operation")
			return nil
		})
	}
	r, err := run()
	if err != nil {
		t.Fatal(err)
	}
	closed("after the run")
	if _, err := ob.Receipt(t.Context(), r.Run, ann, acme); err != nil {
		t.Fatal(err)
	}
	closed("after the receipt")

	var readers sync.WaitGroup
	done := make(chan struct{})
	k.views, k.leak = nil, func(v consign.View) {
		reading := make(chan struct{})
		readers.Go(func() {
			consign.Read(context.WithoutCancel(t.Context()), v, func(*consigntest.Tx) error { close(reading); <-done; return nil })
		})
		<-reading
	}
	if _, err := ob.Receipt(t.Context(), r.Run, ann, acme); err == nil {
		t.Error("a receipt was read while its view was still in use")
	}
	closed("after the receipt")
	if _, err := ob.Run(t.Context(), admit, func(context.Context, *consigntest.Tx, *consign.Run) error {
		t.Error("an operation ran in a transaction that was still read through")
		return nil
	}); err == nil {
		t.Error("it ran")
	}
	closed("after the run")
	close(done)
	readers.Wait()
}
