package consign_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/approval"
)

var (
	robot  = consign.Entity{Type: "agent", ID: "triage-bot"}
	bea    = consign.Entity{Type: "staff", ID: "8"}
	signed = with(admit, func(a *consign.Admission) {
		a.Operation.Approval = consign.OtherConfirmer
		a.Input = map[string]any{"to": "triaged", "why": "é"}
	})
)

// propose asks for an admission to be signed off.
func propose(t testing.TB, h *host, a consign.Admission) consign.ID {
	t.Helper()
	id, err := h.approvals.ProposeNow(t.Context(), approval.Proposal{Admission: a, Proposer: robot, Reason: "it looks urgent"})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// approved is an admission with a confirmed approval.
func approved(t testing.TB, h *host, a consign.Admission) consign.Admission {
	t.Helper()
	a.Approval = propose(t, h, a)
	if _, err := h.approvals.Confirm(t.Context(), decision(a.Approval, bea)); err != nil {
		t.Fatal(err)
	}
	return a
}

func decision(id consign.ID, by consign.Entity) approval.Decision {
	return approval.Decision{Approval: id, Tenant: acme, By: by, Reason: "read it twice"}
}

func statusOf(t testing.TB, h *host, id consign.ID) approval.Status {
	t.Helper()
	a, err := h.approvals.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return a.Status
}

// runTriage runs the operation with one piece of work.
func runTriage(t testing.TB, h *host, a consign.Admission) (consign.Receipt, error) {
	return h.outbox.Run(t.Context(), a, func(_ context.Context, tx *txn, run *consign.Run) error {
		if err := tx.Exec(triageSQL); err != nil {
			return err
		}
		_, err := triaged.Enqueue(run, "notice", noticeInput{Ticket: run.Target().ID})
		return err
	})
}

// checkRefused checks the code of a run that an approval stood in the way of.
func checkRefused(t testing.TB, what string, err error, code consign.Code) {
	t.Helper()
	var e *consign.Error
	if !errors.Is(err, consign.ErrNotApproved) || !errors.As(err, &e) || e.Code != code {
		t.Errorf("%s: %v, want ErrNotApproved with %s", what, err, code)
	}
}

func TestApprovedOperationRunsOnce(t *testing.T) {
	onDesk(t, func(t *testing.T, h *host, _ *desk) {
		_, err := runTriage(t, h, signed)
		checkRefused(t, "none named", err, consign.CodeApprovalRequired)
		leftNothing(t, h)

		a := signed
		a.Approval = propose(t, h, a)
		_, err = runTriage(t, h, a)
		checkRefused(t, "nobody confirmed it", err, consign.CodeApprovalOpen)
		if n := h.count(t, `SELECT count(*) FROM {s}run`); n != 0 || statusOf(t, h, a.Approval) != approval.Open {
			t.Errorf("%d runs, the approval is %s", n, statusOf(t, h, a.Approval))
		}
		if _, err := h.approvals.Confirm(t.Context(), decision(a.Approval, bea)); err != nil {
			t.Fatal(err)
		}
		receipt, err := runTriage(t, h, a)
		if err != nil {
			t.Fatal(err)
		}
		got, err := h.approvals.Find(t.Context(), a.Approval)
		if err != nil || got.Status != approval.Consumed || got.Run != receipt.Run || got.By != bea || got.ConsumedAt.IsZero() {
			t.Errorf("the approval is %+v, %v; want it consumed by run %s", got, err, receipt.Run)
		}
		_, err = runTriage(t, h, a)
		checkRefused(t, "a second time", err, consign.CodeApprovalConsumed)

		// Domain row, intent, run, consumption, audit and receipt: all of it once.
		for query, want := range map[string]int{
			`SELECT lock_version FROM {t}ticket WHERE id = 41`:                                                            2,
			`SELECT count(*) FROM {s}intent`:                                                                              1,
			`SELECT count(*) FROM {s}run WHERE approval_id IS NOT NULL`:                                                   1,
			`SELECT count(*) FROM {s}audit WHERE action = 'propose' AND made_by = 'agent:triage-bot'`:                     1,
			`SELECT count(*) FROM {s}audit WHERE action = 'confirm' AND made_by = 'staff:8'`:                              1,
			`SELECT count(*) FROM {s}audit WHERE action = 'run' AND made_by = 'staff:7' AND run_id IS NOT NULL`:           1,
			`SELECT count(*) FROM {s}audit u JOIN {s}approval a ON a.id = u.approval_id`:                                  3,
			`SELECT count(*) FROM {s}approval WHERE reason = 'it looks urgent' AND decision = 'read it twice'`:            1,
			`SELECT count(*) FROM {s}run r JOIN {s}approval a ON a.run_id = r.id AND r.approval_id = a.id AND status = 3`: 1,
		} {
			if n := h.count(t, query); n != want {
				t.Errorf("%s: %d, want %d", query, n, want)
			}
		}
	})
}

// An approval is for exactly what was proposed. Who asks with another one is not
// told whether it exists.
func TestApprovalFitsExactlyWhatItWasProposedFor(t *testing.T) {
	other := map[string]func(*consign.Admission){
		"operation": func(a *consign.Admission) { a.Operation.Name = "close" },
		"actor":     func(a *consign.Admission) { a.Actor.ID = "9" },
		"tenant":    func(a *consign.Admission) { a.Tenant.ID = "4" },
		"target":    func(a *consign.Admission) { a.Target.ID = "42" },
		"no target": func(a *consign.Admission) { a.Target = consign.Entity{} },
		"input":     func(a *consign.Admission) { a.Input = map[string]any{"to": "closed", "why": "é"} },
		"no input":  func(a *consign.Admission) { a.Input = nil },
		"approval":  func(a *consign.Admission) { a.Approval = consign.NewRef().ID },
	}
	onDesk(t, func(t *testing.T, h *host, _ *desk) {
		a := approved(t, h, signed)
		texts := map[string]bool{}
		for what, change := range other {
			_, err := runTriage(t, h, with(a, change))
			checkRefused(t, "another "+what, err, consign.CodeApprovalUnknown)
			texts[fmt.Sprint(err)] = true
		}
		if len(texts) != 1 {
			t.Errorf("it is told what differs: %v", texts)
		}
		if statusOf(t, h, a.Approval) != approval.Confirmed {
			t.Errorf("the approval is %s after runs that it does not fit", statusOf(t, h, a.Approval))
		}
		// The same input in other words is the same input.
		a.Input = json.RawMessage(`{ "why": "\u00e9", "to": "triaged" }`)
		if _, err := runTriage(t, h, a); err != nil {
			t.Error(err)
		}
		// No input is the empty object, and an operation that needs no approval
		// consumes the one that is named all the same.
		bare := approved(t, h, admit)
		bare.Input = struct{}{}
		if _, err := runTriage(t, h, bare); err != nil || statusOf(t, h, bare.Approval) != approval.Consumed {
			t.Errorf("%v, the approval is %s", err, statusOf(t, h, bare.Approval))
		}
	})
}

func TestApprovalThatDoesNotServeIsRefused(t *testing.T) {
	anybody := with(signed, func(a *consign.Admission) { a.Operation.Approval = consign.AnyConfirmer })
	onDesk(t, func(t *testing.T, h *host, _ *desk) {
		dismissed := with(signed, func(a *consign.Admission) { a.Approval = propose(t, h, signed) })
		if _, err := h.approvals.Dismiss(t.Context(), decision(dismissed.Approval, bea)); err != nil {
			t.Fatal(err)
		}
		_, err := runTriage(t, h, dismissed)
		checkRefused(t, "dismissed", err, consign.CodeApprovalDismissed)

		// Proposed where anybody may confirm, run where the proposer may not.
		own := with(anybody, func(a *consign.Admission) { a.Approval = propose(t, h, anybody) })
		if _, err := h.approvals.Confirm(t.Context(), decision(own.Approval, robot)); err != nil {
			t.Fatal(err)
		}
		own.Operation.Approval = consign.OtherConfirmer
		_, err = runTriage(t, h, own)
		checkRefused(t, "confirmed by its proposer", err, consign.CodeApprovalSelfConfirmed)

		for _, confirm := range []bool{false, true} {
			late := with(signed, func(a *consign.Admission) { a.Approval = propose(t, h, signed) })
			if confirm {
				late = approved(t, h, signed)
			}
			h.exec(t, `UPDATE {s}approval SET expires_at = created_at WHERE status < 2`)
			_, err = runTriage(t, h, late)
			checkRefused(t, "expired", err, consign.CodeApprovalExpired)
			if s := statusOf(t, h, late.Approval); s != approval.Expired {
				t.Errorf("it is shown as %s", s)
			}
		}
		if n := h.count(t, `SELECT count(*) FROM {s}run`) + stored(t, h); n != 0 {
			t.Errorf("%d runs and intents, want none", n)
		}
		own.Operation.Approval = consign.AnyConfirmer
		far := `9000000000000000` // microseconds
		if h.postgres {
			far = `'2255-01-01'`
		}
		h.exec(t, `UPDATE {s}approval SET expires_at = `+far)
		if _, err := runTriage(t, h, own); err != nil {
			t.Errorf("confirmed by its proposer, where anybody may: %v", err)
		}
	})
}

// Who is told no was asked about before anything of the operation happened.
func TestOperationIsNotCalledBeforeItIsAdmitted(t *testing.T) {
	onDesk(t, func(t *testing.T, h *host, d *desk) {
		for name, c := range map[string]struct {
			set func()
			a   consign.Admission
			is  error
		}{
			"revoked":       {func() { d.revoked = true }, admit, consign.ErrRevoked},
			"no target":     {func() { d.gone = true }, admit, consign.ErrUnavailable},
			"not permitted": {func() { d.denied = true }, admit, consign.ErrNotPermitted},
			"undecided":     {func() { d.trouble = errBroken }, admit, errBroken},
			"not approved":  {func() {}, signed, consign.ErrNotApproved},
		} {
			d.revoked, d.gone, d.denied, d.trouble = false, false, false, nil
			c.set()
			called := false
			_, err := h.outbox.Run(t.Context(), c.a, func(context.Context, *txn, *consign.Run) error { called = true; return nil })
			if !errors.Is(err, c.is) || called {
				t.Errorf("%s: %v, called is %v", name, err, called)
			}
			tx := h.begin(t)
			_, err = tx.Join(c.a, func(context.Context, *consign.Run) error { called = true; return nil })
			if !errors.Is(err, c.is) || called {
				t.Errorf("join, %s: %v, called is %v", name, err, called)
			}
			mustCommit(t, tx)
			leftNothing(t, h)
		}
		// Permission is asked first: nobody learns of approvals who may not run.
		d.revoked, d.gone, d.denied, d.trouble = false, false, true, nil
		_, err := runTriage(t, h, signed)
		if !errors.Is(err, consign.ErrNotPermitted) {
			t.Errorf("neither permitted nor approved: %v, want ErrNotPermitted", err)
		}
	})
}

var errBroken = errors.New("broken")

// What is rolled back, by whatever, has consumed nothing.
func TestRunThatDoesNotCommitLeavesTheApproval(t *testing.T) {
	onDesk(t, func(t *testing.T, h *host, _ *desk) {
		a := approved(t, h, signed)
		unused := func(what string) {
			t.Helper()
			if s := statusOf(t, h, a.Approval); s != approval.Confirmed {
				t.Fatalf("%s: the approval is %s", what, s)
			}
			if n := h.count(t, `SELECT count(*) FROM {s}run`); n != 0 {
				t.Fatalf("%s: %d runs", what, n)
			}
		}
		_, err := h.outbox.Run(t.Context(), a, func(context.Context, *txn, *consign.Run) error { return errBroken })
		if !errors.Is(err, errBroken) {
			t.Error(err)
		}
		unused("the operation failed")
		func() {
			defer func() { recover() }()
			h.outbox.Run(t.Context(), a, func(context.Context, *txn, *consign.Run) error { panic("operation") })
		}()
		unused("the operation panicked")
		joins := func(tx *txn, fault error) error {
			_, err := tx.Join(a, func(context.Context, *consign.Run) error { return fault })
			return err
		}
		tx := h.begin(t)
		if err := joins(tx, errBroken); !errors.Is(err, errBroken) {
			t.Error(err)
		}
		mustCommit(t, tx)
		unused("the joined operation failed")
		tx = h.begin(t)
		if err := errors.Join(joins(tx, nil), tx.Rollback()); err != nil {
			t.Fatal(err)
		}
		unused("the caller rolled back")
		tx = h.begin(t)
		if err := joins(tx, errBroken); !errors.Is(err, errBroken) {
			t.Error(err)
		}
		if err := joins(tx, nil); err != nil {
			t.Errorf("joined again after a failure in the same transaction: %v", err)
		}
		checkRefused(t, "twice in one transaction", joins(tx, nil), consign.CodeApprovalConsumed)
		mustCommit(t, tx)
		if s := statusOf(t, h, a.Approval); s != approval.Consumed {
			t.Errorf("after a commit the approval is %s", s)
		}
	})
}

// Of many runs at once one consumes the approval; the others are told so.
func TestOfManyConsumptionsOneWins(t *testing.T) {
	onDesk(t, func(t *testing.T, h *host, _ *desk) {
		for range 3 {
			a := approved(t, h, signed)
			before := h.count(t, `SELECT lock_version FROM {t}ticket WHERE id = 41`)
			faults := atOnce(6, func(int) error {
				_, err := runTriage(t, h, a)
				return err
			})
			won := 0
			for _, err := range faults {
				if err == nil {
					won++
					continue
				}
				checkRefused(t, "lost", err, consign.CodeApprovalConsumed)
			}
			after := h.count(t, `SELECT lock_version FROM {t}ticket WHERE id = 41`)
			if won != 1 || after != before+1 {
				t.Errorf("%d of 6 runs won and the ticket changed %d times, want 1", won, after-before)
			}
		}
	})
}

// Two runs that meet on one approval: the second waits for the end of the first,
// and gets the approval exactly if the first was rolled back.
func TestSecondConsumptionWaitsForTheFirst(t *testing.T) {
	for name, open := range map[string]func(*testing.T, consign.Options) *host{"postgres": onPostgres, "postgres-sql": onPostgresSQL} {
		t.Run(name, func(t *testing.T) {
			h := open(t, consign.Options{Authority: &deskOn[any]{desk: &desk{}}})
			for _, fault := range []error{errBroken, nil} {
				a := approved(t, h, signed)
				second := make(chan error, 1)
				_, err := h.outbox.Run(t.Context(), a, func(context.Context, *txn, *consign.Run) error {
					go func() {
						_, err := runTriage(t, h, a)
						second <- err
					}()
					h.untilBlocked(t)
					return fault
				})
				if !errors.Is(err, fault) {
					t.Errorf("first: %v, want %v", err, fault)
				}
				err = <-second
				if fault != nil && err != nil {
					t.Errorf("second, after the first was rolled back: %v", err)
				}
				if fault == nil {
					checkRefused(t, "second, after the first committed", err, consign.CodeApprovalConsumed)
				}
			}
		})
	}
}

// Of many decisions at once one wins; the others are told what became of it.
func TestOfManyDecisionsOneWins(t *testing.T) {
	onDesk(t, func(t *testing.T, h *host, _ *desk) {
		for range 3 {
			id := propose(t, h, signed)
			faults := atOnce(6, func(i int) error {
				decide := h.approvals.Confirm
				if i%2 == 1 {
					decide = h.approvals.Dismiss
				}
				_, err := decide(t.Context(), decision(id, consign.Entity{Type: "staff", ID: fmt.Sprint(i)}))
				return err
			})
			got, err := h.approvals.Find(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			told := map[approval.Status]consign.Code{
				approval.Confirmed: consign.CodeApprovalConfirmed, approval.Dismissed: consign.CodeApprovalDismissed,
			}[got.Status]
			won := 0
			for i, err := range faults {
				if err == nil {
					won++
					if got.By.ID != fmt.Sprint(i) {
						t.Errorf("decided by %s, but %d was told so", got.By, i)
					}
					continue
				}
				var e *consign.Error
				if !errors.Is(err, consign.ErrConflict) || !errors.As(err, &e) || e.Code != told {
					t.Errorf("a loser is told %v, want %s", err, told)
				}
			}
			if n := h.count(t, `SELECT count(*) FROM {s}audit WHERE action IN ('confirm', 'dismiss')`); won != 1 || n != 1 {
				t.Errorf("%d of 6 decisions won, %d audit rows; want 1", won, n)
			}
			h.exec(t, `DELETE FROM {s}audit`)
		}
	})
}

// atOnce runs n calls at the same time and returns what each came to.
func atOnce(n int, call func(i int) error) []error {
	faults := make([]error, n)
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-begin
			faults[i] = call(i)
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
	return faults
}

// A proposal is a part of the transaction that it is about.
func TestProposalCommitsWithItsTransaction(t *testing.T) {
	onDesk(t, func(t *testing.T, h *host, _ *desk) {
		for _, commit := range []bool{false, true} {
			tx := h.begin(t)
			id, err := tx.Propose(approval.Proposal{Admission: signed, Proposer: robot, TTL: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			if !commit {
				tx.Rollback()
				if _, err := h.approvals.Find(t.Context(), id); !errors.Is(err, consign.ErrNotFound) {
					t.Errorf("rolled back, and found: %v", err)
				}
				continue
			}
			mustCommit(t, tx)
			got, err := h.approvals.Find(t.Context(), id)
			if err != nil || got.Status != approval.Open || got.Actor != ann || got.Tenant != acme || got.Target != t41 ||
				got.Proposer != robot || !got.OtherConfirmer || string(got.Input) != `{"to":"triaged","why":"é"}` ||
				got.ExpiresAt.Sub(got.CreatedAt) != time.Hour || got.Subject != "session-9" {
				t.Errorf("%+v, %v", got, err)
			}
		}
		tx := h.begin(t)
		if _, err := tx.Propose(approval.Proposal{}); !errors.Is(err, consign.ErrInvalid) {
			t.Errorf("an empty proposal: %v", err)
		}
		mustCommit(t, tx) // it is as it was
	})
}

// The time of an approval says until when it may be consumed. What a run then left
// has a deadline of its own, and acts under the authority of the moment.
func TestApprovedWorkHasItsOwnDeadlineAndAuthority(t *testing.T) {
	for name, c := range map[string]struct {
		after func(t *testing.T, h *host, d *desk)
		want  consign.Status
		code  consign.Code
	}{
		"its approval expired":  {func(*testing.T, *host, *desk) {}, consign.StatusSucceeded, ""},
		"its actor was revoked": {func(_ *testing.T, _ *host, d *desk) { d.revoked = true }, consign.StatusCancelled, consign.CodeAuthorityRevoked},
		"its deadline passed": {func(t *testing.T, h *host, _ *desk) {
			h.exec(t, `UPDATE {s}delivery SET deadline = created_at`)
		}, consign.StatusCancelled, consign.CodeDeadlineExpired},
	} {
		t.Run(name, func(t *testing.T) {
			onDeskWith(t, consign.Options{Handlers: []consign.Handler{delivered}}, func(t *testing.T, h *host, d *desk) {
				receipt, err := runTriage(t, h, approved(t, h, signed))
				if err != nil {
					t.Fatal(err)
				}
				h.exec(t, `UPDATE {s}approval SET expires_at = created_at`)
				c.after(t, h, d)
				got, err := h.outbox.Visit(t.Context(), receipt.Work[0])
				if err != nil || got.Status != c.want || got.Code != c.code {
					t.Errorf("delivered as %+v, %v; want %s %s", got, err, c.want, c.code)
				}
				if a := statusOf(t, h, firstApproval(t, h)); a != approval.Consumed {
					t.Errorf("the approval is %s", a)
				}
			})
		})
	}
}

// delivered is a handler whose far side always accepts.
var delivered = triaged.Handler(func(ctx context.Context, d *consign.Delivery, in noticeInput) error {
	return d.Effect(ctx, in, func(context.Context, consign.Attempt) error { return nil })
})

func firstApproval(t testing.TB, h *host) consign.ID {
	t.Helper()
	query := `SELECT lower(hex(id)) FROM {s}approval`
	if h.postgres {
		query = `SELECT replace(id::text, '-', '') FROM {s}approval`
	}
	s := h.text(t, query)
	id, err := consign.ParseID(s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:])
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// expiresMeanwhile has a second run wait for an approval that the first one has, until
// it has expired. It returns false where that was too early.
func expiresMeanwhile(t *testing.T, h *host, ttl time.Duration) bool {
	t.Helper()
	a := signed
	var err error
	a.Approval, err = h.approvals.ProposeNow(t.Context(), approval.Proposal{Admission: a, Proposer: robot, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	const expired = `SELECT count(*) FROM {s}approval WHERE expires_at < clock_timestamp()`
	if _, err := h.approvals.Confirm(t.Context(), decision(a.Approval, bea)); err != nil {
		if h.count(t, expired) == 1 {
			return false
		}
		t.Fatal(err)
	}
	second, waits := make(chan error, 1), false
	_, err = h.outbox.Run(t.Context(), a, func(context.Context, *txn, *consign.Run) error {
		go func() {
			_, err := runTriage(t, h, a)
			second <- err
		}()
		h.untilBlocked(t)
		waits = h.count(t, expired) == 0
		h.until(t, 1, expired)
		return errBroken
	})
	if errors.Is(err, errBroken) {
		err = <-second
	} else if waits || h.count(t, expired) == 0 {
		t.Errorf("first: %v", err)
	}
	if waits {
		checkRefused(t, "second", err, consign.CodeApprovalExpired)
	}
	return waits
}

// Whether an approval has expired is decided when a run has got hold of it, not
// when the run began to wait for it.
func TestApprovalThatExpiresWhileARunWaitsForItIsExpired(t *testing.T) {
	for name, open := range map[string]func(*testing.T, consign.Options) *host{"postgres": onPostgres, "postgres-sql": onPostgresSQL} {
		t.Run(name, func(t *testing.T) {
			h := open(t, consign.Options{Authority: &deskOn[any]{desk: &desk{}}})
			// Where the machine is too slow to have both there in time, they get more of it.
			for ttl := 2 * time.Second; !expiresMeanwhile(t, h, ttl); ttl *= 3 {
				if ttl > patience {
					t.Fatalf("two runs do not meet within %s", ttl)
				}
				h.exec(t, `DELETE FROM {s}approval`)
			}
		})
	}
}
