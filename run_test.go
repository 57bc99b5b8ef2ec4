package consign_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/driver/memory"
)

// onDesk runs a test on every store with a desk of its own.
func onDesk(t *testing.T, test func(t *testing.T, h *host, d *desk)) {
	onDeskWith(t, consign.Options{}, test)
}

// onDeskWith is onDesk with more than an authority.
func onDeskWith(t *testing.T, o consign.Options, test func(t *testing.T, h *host, d *desk)) {
	onDesks(t, o, test, map[string]func(*testing.T, consign.Options) *host{
		"postgres": onPostgres, "postgres-sql": onPostgresSQL, "sqlite": onSQLite,
	})
}

// onBothDesks is onDeskWith for long tables of cases in which the transactions of
// the caller play no part: once on each database.
func onBothDesks(t *testing.T, o consign.Options, test func(t *testing.T, h *host, d *desk)) {
	onDesks(t, o, test, map[string]func(*testing.T, consign.Options) *host{"postgres": onPostgres, "sqlite": onSQLite})
}

func onDesks(t *testing.T, o consign.Options, test func(*testing.T, *host, *desk), stores map[string]func(*testing.T, consign.Options) *host) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			d := &desk{}
			o := o
			o.Authority = &deskOn[any]{desk: d}
			test(t, open(t, o), d)
		})
	}
}

// leftNothing checks that neither the ticket changed nor anything was stored.
func leftNothing(t *testing.T, h *host) {
	t.Helper()
	if s := h.text(t, `SELECT status FROM {t}ticket WHERE id = 41`); s != "new" {
		t.Errorf("the ticket is %s, want new", s)
	}
	if n := stored(t, h); n != 0 {
		t.Errorf("%d intents, want none", n)
	}
	for _, table := range []string{"run", "audit"} {
		if n := h.count(t, `SELECT count(*) FROM {s}`+table); n != 0 {
			t.Errorf("%d rows in %s, want none", n, table)
		}
	}
}

func TestRunCommitsRowWorkAuditAndReceiptTogether(t *testing.T) {
	onDesk(t, func(t *testing.T, h *host, d *desk) {
		d.tryWrites = true
		var inside *consign.Run
		receipt, err := h.outbox.Run(t.Context(), admit, func(ctx context.Context, tx *txn, run *consign.Run) error {
			inside = run
			if err := tx.Exec(triageSQL); err != nil {
				return err
			}
			if run.Target() != t41 || run.Principal().SecurityVersion != "3" {
				t.Errorf("target %s, security version %q", run.Target(), run.Principal().SecurityVersion)
			}
			if _, err := triaged.Enqueue(run, "notice", noticeInput{Ticket: "41"}); err != nil {
				return err
			}
			if err := run.Receipt(map[string]any{"a": strings.Repeat("x", 4096-8)}); err != nil {
				t.Errorf("a receipt of 4,096 bytes: %v", err)
			}
			return run.Receipt(map[string]any{"triaged": true}) // the later one counts
		})
		if err != nil {
			t.Fatal(err)
		}
		if d.writes != nil {
			t.Error(d.writes)
		}
		if receipt.Version != "2" || receipt.Target != t41 || string(receipt.Body) != `{"triaged":true}` || len(receipt.Work) != 1 {
			t.Fatalf("receipt %+v: want version 2 as committed, and one piece of work", receipt)
		}
		got, err := h.outbox.Find(t.Context(), receipt.Work[0])
		if err != nil {
			t.Fatal(err)
		}
		if got.Run != receipt.Run || got.Key != "notice" || got.Kind != "tickets.triaged" || got.Target != "ticket:41" ||
			got.Profile != consign.ProfileWork || got.Status != consign.StatusPending || string(got.Payload) != `{"ticket":"41"}` {
			t.Errorf("stored %+v", got)
		}
		if s := h.text(t, `SELECT target_version || ' ' || security_version || ' ' || actor || ' ' || tenant || ' ' || operation || ' ' || subject FROM {s}intent`); s != "2 3 staff:7 tenant:3 triage session-9" {
			t.Errorf("the intent was admitted under %q", s)
		}
		if n := h.count(t, `SELECT count(*) FROM {s}run WHERE sealed_at IS NOT NULL AND target_version = '2' AND receipt = '{"triaged":true}'`); n != 1 {
			t.Errorf("%d sealed runs, want 1", n)
		}
		if n := h.count(t, `SELECT count(*) FROM {s}audit WHERE made_by = 'staff:7' AND run_id IS NOT NULL`); n != 1 {
			t.Errorf("%d audit rows, want 1", n)
		}
		if s := h.text(t, `SELECT status FROM {t}ticket WHERE id = 41`); s != "triaged" {
			t.Errorf("the ticket is %s", s)
		}
		want := []string{"principal", "target", "may run triage on ticket:41", "target"}
		if !slices.Equal(d.asked, want) {
			t.Errorf("the authority was asked %v, want %v", d.asked, want)
		}
		// The run is over: nothing more goes into it.
		if _, err := triaged.Enqueue(inside, "late", noticeInput{}); !errors.Is(err, consign.ErrClosed) {
			t.Errorf("enqueue after the run: %v, want ErrClosed", err)
		}
		if err := inside.Receipt(map[string]any{}); !errors.Is(err, consign.ErrClosed) {
			t.Errorf("receipt after the run: %v, want ErrClosed", err)
		}
	})
}

func TestFailedRunLeavesNothing(t *testing.T) {
	broken := errors.New("broken")
	cases := []struct {
		name string
		set  func(d *desk)
		is   error
		fn   func(ctx context.Context, run *consign.Run) error
	}{
		{name: "the operation fails", is: broken, fn: func(context.Context, *consign.Run) error { return broken }},
		{name: "the actor is revoked", is: consign.ErrRevoked, set: func(d *desk) { d.revoked = true }},
		{name: "the authority answers for another actor", is: consign.ErrRevoked, set: func(d *desk) { d.stranger = true }},
		{name: "the target is gone", is: consign.ErrUnavailable, set: func(d *desk) { d.gone = true }},
		{name: "the operation is not permitted", is: consign.ErrNotPermitted, set: func(d *desk) { d.denied = true }},
		{name: "the authority is in trouble", is: broken, set: func(d *desk) { d.trouble = broken }},
		{name: "the target has no version", is: consign.ErrInvalid, set: func(d *desk) { d.noVersion = true }},
		{name: "the authority answers nothing", set: func(d *desk) { d.empty = true }},
		{name: "a receipt of 4097 bytes", is: consign.ErrInvalid, fn: func(_ context.Context, run *consign.Run) error {
			return run.Receipt(map[string]any{"a": strings.Repeat("x", 4089)})
		}},
		{name: "the target is named twice", is: consign.ErrInvalid, fn: func(_ context.Context, run *consign.Run) error {
			return run.Created(consign.Entity{Type: "ticket", ID: "42"})
		}},
	}
	onDesk(t, func(t *testing.T, h *host, d *desk) {
		for _, c := range cases {
			*d = desk{}
			if c.set != nil {
				c.set(d)
			}
			body := func(ctx context.Context, exec func(string) error, run *consign.Run) error {
				if err := exec(triageSQL); err != nil {
					return err
				}
				if _, err := triaged.Enqueue(run, "notice", noticeInput{Ticket: "41"}); err != nil {
					return err
				}
				if c.fn != nil {
					return c.fn(ctx, run)
				}
				return nil
			}
			_, err := h.outbox.Run(t.Context(), admit, func(ctx context.Context, tx *txn, run *consign.Run) error {
				return body(ctx, tx.Exec, run)
			})
			if err == nil || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%s: %v, want %v", c.name, err, c.is)
			}
			leftNothing(t, h)

			// A failed Join undoes what happened inside it; the caller goes on.
			tx := h.begin(t)
			_, err = tx.Join(admit, func(ctx context.Context, run *consign.Run) error { return body(ctx, tx.Exec, run) })
			if err == nil || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("join, %s: %v, want %v", c.name, err, c.is)
			}
			if err := tx.Exec(`UPDATE {t}ticket SET lock_version = 1 WHERE id = 42`); err != nil {
				t.Errorf("join, %s: the caller's transaction is unusable: %v", c.name, err)
			}
			mustCommit(t, tx)
			leftNothing(t, h)
		}
	})
}

// Whatever savepoints the operation leaves open, of whatever name, a failed Join
// undoes it all.
func TestFailedJoinIsNotMisledBySavepoints(t *testing.T) {
	onDesk(t, func(t *testing.T, h *host, _ *desk) {
		tx := h.begin(t)
		broken := errors.New("broken")
		_, err := tx.Join(admit, func(context.Context, *consign.Run) error {
			for _, statement := range []string{triageSQL, "SAVEPOINT consign", "SAVEPOINT consign_part", "SAVEPOINT consign_"} {
				if err := tx.Exec(statement); err != nil {
					t.Error(err)
				}
			}
			return broken
		})
		if !errors.Is(err, broken) {
			t.Errorf("join: %v", err)
		}
		mustCommit(t, tx)
		leftNothing(t, h)
	})
}

func TestPanicInAnOperationRollsBack(t *testing.T) {
	onDesk(t, func(t *testing.T, h *host, _ *desk) {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			h.outbox.Run(t.Context(), admit, func(_ context.Context, tx *txn, run *consign.Run) error {
				tx.Exec(triageSQL)
				triaged.Enqueue(run, "notice", noticeInput{})
				panic("operation")
			})
		}()
		leftNothing(t, h)
	})
}

func TestJoinSealsInsideTheCallersTransaction(t *testing.T) {
	onDesk(t, func(t *testing.T, h *host, _ *desk) {
		for _, commit := range []bool{false, true} {
			tx := h.begin(t)
			if err := tx.Exec(triageSQL); err != nil {
				t.Fatal(err)
			}
			receipt, err := tx.Join(admit, func(_ context.Context, run *consign.Run) error {
				_, err := triaged.Enqueue(run, "notice", noticeInput{Ticket: "41"})
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if receipt.Version != "2" {
				t.Errorf("the receipt has version %s, want 2, as the transaction will commit it", receipt.Version)
			}
			if !commit {
				tx.Rollback()
				leftNothing(t, h)
				continue
			}
			mustCommit(t, tx)
			if n := stored(t, h); n != 1 {
				t.Errorf("%d intents, want 1", n)
			}
		}
		tx := h.begin(t)
		mustCommit(t, tx)
		if _, err := tx.Join(admit, func(context.Context, *consign.Run) error { return nil }); !errors.Is(err, consign.ErrClosed) {
			t.Errorf("join in a finished transaction: %v, want ErrClosed", err)
		}
	})
}

func TestWorkKeyIsUniqueInItsRun(t *testing.T) {
	onDesk(t, func(t *testing.T, h *host, _ *desk) {
		in := noticeInput{Ticket: "41", Note: "secret"}
		other := triaged
		other.Kind = "tickets.closed"
		bumped := triaged
		bumped.Version = "2"
		for range 2 { // the same key in another run is other work
			_, err := h.outbox.Run(t.Context(), admit, func(_ context.Context, _ *txn, run *consign.Run) error {
				first, err := triaged.Enqueue(run, "notice", in)
				if err != nil {
					return err
				}
				if made := driver.WorkRef(driver.ID(run.ID()), "notice"); first != (consign.Ref{ID: consign.ID(made)}) {
					t.Errorf("the ref is %s, and not made of run and key: nothing in the database holds that the key is unique", first)
				}
				if again, err := triaged.Enqueue(run, "notice", in); err != nil || again != first {
					t.Errorf("repeated: %s, %v; want %s", again, err, first)
				}
				_, kind := other.Enqueue(run, "notice", in)
				checkConflict(t, "kind", kind)
				_, fingerprint := bumped.Enqueue(run, "notice", in)
				checkConflict(t, "fingerprint", fingerprint)
				_, payload := triaged.Enqueue(run, "notice", noticeInput{Ticket: "42"})
				checkConflict(t, "payload", payload)
				_, err = triaged.Enqueue(run, "second", in)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if n := stored(t, h); n != 4 {
			t.Errorf("%d intents, want two in each of two runs", n)
		}
		// What conflicted has not taken the place of what was there.
		const first = `SELECT count(*) FROM {s}intent WHERE work_key = 'notice' AND kind = 'tickets.triaged' AND version = '1'
			AND payload = '{"note":"secret","ticket":"41"}'`
		if n := h.count(t, first); n != 2 {
			t.Errorf("%d intents under the key are as they were first enqueued, want 2", n)
		}
	})
}

func TestWorkLimits(t *testing.T) {
	onDesk(t, func(t *testing.T, h *host, _ *desk) {
		_, err := h.outbox.Run(t.Context(), admit, func(_ context.Context, _ *txn, run *consign.Run) error {
			_, err := triaged.Enqueue(run, "", noticeInput{})
			checkInvalid(t, "empty key", err, "key 0 bytes, limit 1 to 128")
			_, err = triaged.Enqueue(run, strings.Repeat("k", 129), noticeInput{})
			checkInvalid(t, "long key", err, "key 129 bytes, limit 1 to 128")
			_, err = triaged.Enqueue(nil, "k", noticeInput{})
			checkInvalid(t, "no run", err, "run is not one that Run or Join handed out")
			_, err = triaged.Enqueue(&consign.Run{}, "k", noticeInput{})
			checkInvalid(t, "a made-up run", err, "run is not one that Run or Join handed out")
			_, err = triaged.Enqueue(run, "clé", noticeInput{})
			checkInvalid(t, "key not ASCII", err, "key byte 2 is not printable ASCII")
			_, err = consign.Work[noticeInput]{Kind: "é"}.Enqueue(run, "k", noticeInput{})
			checkInvalid(t, "kind not ASCII", err, "work.kind byte 0 is not printable ASCII")
			if _, err := (consign.Work[noticeInput]{Kind: strings.Repeat("k", 128)}).Enqueue(run, strings.Repeat("k", 128), noticeInput{}); err != nil {
				t.Errorf("kind and key of 128 bytes: %v", err)
			}
			_, err = triaged.Enqueue(run, "k", noticeInput{Note: strings.Repeat("x", 4096-22)})
			checkInvalid(t, "4097 bytes", err, "4096")
			_, err = triaged.Enqueue(run, "k", noticeInput{Note: "secret\x00"})
			checkInvalid(t, "NUL", err, "note")
			_, err = consign.Work[noticeInput]{}.Enqueue(run, "k", noticeInput{})
			checkInvalid(t, "empty kind", err, "work.kind 0 bytes, limit 1 to 128")
			_, err = consign.Work[noticeInput]{Kind: strings.Repeat("k", 129)}.Enqueue(run, "k", noticeInput{})
			checkInvalid(t, "long kind", err, "work.kind 129 bytes, limit 1 to 128")
			_, err = consign.Work[string]{Kind: "k"}.Enqueue(run, "k", "")
			checkInvalid(t, "input not a struct", err, "work.input is string, want a struct")
			_, err = triaged.Enqueue(run, "k", noticeInput{Note: strings.Repeat("x", 4096-23)})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := h.count(t, `SELECT max(length(payload)) FROM {s}intent`); n != 4096 {
			t.Errorf("the payload at the limit has %d bytes, want 4096", n)
		}
	})
}

func TestOperationMayCreateItsTargetOnce(t *testing.T) {
	creating := admit
	creating.Target = consign.Entity{}
	t43 := consign.Entity{Type: "ticket", ID: "43"}
	onDesk(t, func(t *testing.T, h *host, _ *desk) {
		receipt, err := h.outbox.Run(t.Context(), creating, func(_ context.Context, tx *txn, run *consign.Run) error {
			if err := tx.Exec(`INSERT INTO {t}ticket VALUES (43, 'new', 7)`); err != nil {
				return err
			}
			if err := run.Created(t43); err != nil {
				return err
			}
			checkInvalid(t, "twice", run.Created(t43), "target is named already")
			_, err := triaged.Enqueue(run, "notice", noticeInput{Ticket: "43"})
			return err
		})
		if err != nil || receipt.Target != t43 || receipt.Version != "7" {
			t.Fatalf("receipt %+v, %v", receipt, err)
		}
		_, err = h.outbox.Run(t.Context(), creating, func(context.Context, *txn, *consign.Run) error { return nil })
		checkInvalid(t, "never named", err, "target was neither admitted nor created")
	})
}

func TestAdmissionIsChecked(t *testing.T) {
	onDesk(t, func(t *testing.T, h *host, _ *desk) {
		_, err := h.outbox.Run(t.Context(), consign.Admission{
			Actor: consign.Entity{Type: "a:b", ID: "1"}, Target: consign.Entity{Type: "t"}, Subject: "\x00",
		}, nil)
		for _, want := range []string{"operation.name 0 bytes", "actor.type contains a colon", "tenant.type 0 bytes",
			"tenant.id 0 bytes", "target.id 0 bytes", "subject contains a control character"} {
			checkInvalid(t, "admission", err, want)
		}
		a := admit
		a.Input = map[string]any{"a": strings.Repeat("x", 16<<10)}
		_, err = h.outbox.Run(t.Context(), a, func(context.Context, *txn, *consign.Run) error { return nil })
		checkInvalid(t, "input over 16 KiB", err, "16384")
		leftNothing(t, h)
	})
}

func TestWithoutAuthorityNothingRuns(t *testing.T) {
	onEveryStore(t, consign.Options{}, func(t *testing.T, h *host) {
		_, err := h.outbox.Run(t.Context(), admit, func(context.Context, *txn, *consign.Run) error {
			t.Error("the operation ran")
			return nil
		})
		checkInvalid(t, "no authority", err, "authority is not configured")
	})
}

func TestRunWithoutAFunctionIsRefused(t *testing.T) {
	ob, err := consign.New(memory.New(), &consign.Options{Authority: &deskOn[*memory.Tx]{desk: &desk{}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = ob.Run(t.Context(), admit, nil)
	checkInvalid(t, "run", err, "fn is nil")
	_, err = ob.Join(t.Context(), nil, admit, nil)
	checkInvalid(t, "join", err, "fn is nil")
}

// An authority that ends the transaction it reads in, as one would end one's own,
// fails that run and nothing after it.
func TestAuthorityThatEndsTheTransactionFailsThatRunAlone(t *testing.T) {
	onDesk(t, func(t *testing.T, h *host, d *desk) {
		d.ends = true
		if _, err := runTriage(t, h, admit); !errors.Is(err, consign.ErrClosed) {
			t.Errorf("run: %v, want ErrClosed", err)
		}
		tx := h.begin(t)
		_, err := tx.Join(admit, func(context.Context, *consign.Run) error { return nil })
		if !errors.Is(err, consign.ErrClosed) {
			t.Errorf("join: %v, want ErrClosed", err)
		}
		tx.Rollback()
		leftNothing(t, h)
		d.ends = false
		if _, err := runTriage(t, h, admit); err != nil {
			t.Errorf("the next run: %v", err)
		}
	})
}
