package drivertest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/consign-go/consign/internal/driver"
)

func approvalTests[TX any]() []test[TX] {
	return []test[TX]{
		{"is proposed and read again", "a person sees what was proposed, and until when", approvalProposed[TX]},
		{"is proposed with what it is about", "a proposal commits with the caller's transaction or not at all", approvalRolledBack[TX]},
		{"is decided once", "what was confirmed or dismissed stays so", approvalDecided[TX]},
		{"is consumed once", "an approval is consumed by the one run that commits", approvalConsumed[TX]},
		{"is consumed with its run", "a savepoint that is rolled back gives the approval back", approvalGivenBack[TX]},
		{"is locked", "two that want one approval meet one after the other", approvalLocked[TX]},
		{"expires on the database's clock", "its time is over when the database says so", approvalExpires[TX]},
		{"is listed while it is open", "the list shows what waits for a person, the most urgent first", approvalListed[TX]},
		{"is erased", "what is left of it fits nothing any more", approvalErased[TX]},
		{"has its shape", "the database itself refuses an impossible approval", approvalChecked[TX]},
	}
}

const ttl = time.Hour

// proposal is an approval to propose.
func proposal(change ...func(*driver.Approval)) driver.Approval {
	a := driver.Approval{
		ID: driver.NewID(), Operation: "triage", Actor: "staff:7", Tenant: "tenant:1", Target: "ticket:9",
		Input: []byte(`{"ü":"é"}`), InputDigest: digest, Proposer: "agent:1", Reason: "it is urgent",
	}
	for _, c := range change {
		c(&a)
	}
	return a
}

// within runs fn in a transaction that is committed unless fn fails.
func (b *bench[TX]) within(fn func(tx driver.Tx) error) error {
	_, tx, err := b.Bound.Begin(b.ctx)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		tx.Rollback(b.ctx)
		return err
	}
	return tx.Commit(b.ctx)
}

// propose proposes and returns the approval as it is read.
func (b *bench[TX]) propose(a driver.Approval, ttl time.Duration) driver.Approval {
	b.t.Helper()
	b.ok("propose", b.within(func(tx driver.Tx) error { return tx.Propose(b.ctx, a, ttl) }))
	return b.approval(a.ID)
}

// approval reads an approval that exists.
func (b *bench[TX]) approval(id driver.ID) driver.Approval {
	b.t.Helper()
	a, found, err := b.Bound.Approval(b.ctx, id)
	b.ok("approval", err)
	b.that(found && a.ID == id, "there is no approval %s", id)
	return a
}

// decideIt confirms or dismisses.
func (b *bench[TX]) decideIt(id driver.ID, status driver.ApprovalStatus) error {
	return b.within(func(tx driver.Tx) error {
		_, err := tx.Decide(b.ctx, driver.Decision{Approval: id, Status: status, By: "staff:8", Why: "looked at it"})
		return err
	})
}

// consume opens a run that consumes an approval and returns the run.
func (b *bench[TX]) consume(tx driver.Tx, approval driver.ID) (driver.Run, error) {
	r := driver.Run{ID: driver.NewID(), Operation: "triage", Actor: "staff:7", Tenant: "tenant:1"}
	if err := tx.OpenRun(b.ctx, r); err != nil {
		return r, err
	}
	return r, tx.Consume(b.ctx, approval, r.ID)
}

// rowsOf returns all rows of table, byte for byte.
func (b *bench[TX]) rowsOf(table string) string {
	b.t.Helper()
	text, err := b.raw(b.ctx, table, func(map[string]any) bool { return true })
	b.ok("rows", err)
	return text
}

// audits returns who did what with approvals, in order.
func (b *bench[TX]) audits() []string {
	b.t.Helper()
	rows, err := b.Rows(b.ctx, "audit")
	b.ok("rows", err)
	byID := map[int64]string{}
	var most int64
	for _, row := range rows {
		n, err := toInt(row["id"])
		b.ok("id", err)
		by, err := b.format(asText, row["made_by"], b.clock(), lease)
		b.ok("made_by", err)
		action, err := b.format(asText, row["action"], b.clock(), lease)
		b.ok("action", err)
		byID[n], most = by+" "+action, max(most, n)
		if row["approval_id"] == nil {
			byID[n] += " no approval"
		}
	}
	var list []string
	for n := range most + 1 {
		if line, there := byID[n]; there {
			list = append(list, line)
		}
	}
	return list
}

func approvalProposed[TX any](b *bench[TX]) {
	_, found, err := b.Bound.Approval(b.ctx, driver.NewID())
	b.that(err == nil && !found, "an approval that nobody proposed: %v, %v", found, err)
	full := proposal(func(a *driver.Approval) { a.Subject, a.OtherConfirmer = "customer:1", true })
	bare := proposal(func(a *driver.Approval) { a.Target, a.Reason = "", "" })
	for _, want := range []driver.Approval{full, bare} {
		got := b.propose(want, ttl)
		b.that(b.clock().Sub(got.CreatedAt).Abs() < slack, "created at %v", got.CreatedAt)
		b.that(got.ExpiresAt.Sub(got.CreatedAt) == ttl, "expires %v after its creation", got.ExpiresAt.Sub(got.CreatedAt))
		want.CreatedAt, want.ExpiresAt = got.CreatedAt, got.ExpiresAt
		b.that(reflect.DeepEqual(got, want), "read\n%+v, want\n%+v", got, want)
	}
	b.that(fmt.Sprint(b.audits()) == `["agent:1" "propose" "agent:1" "propose"]`, "audit is %v", b.audits())
	b.that(b.within(func(tx driver.Tx) error { return tx.Propose(b.ctx, full, ttl) }) != nil, "proposed twice")
}

func approvalRolledBack[TX any](b *bench[TX]) {
	raw, tx := b.begin()
	a := proposal()
	b.ok("write", b.Write(b.ctx, raw, "draft"))
	b.ok("propose", tx.Propose(b.ctx, a, ttl))
	_, found, err := tx.LockApproval(b.ctx, a.ID)
	b.that(err == nil && found, "its own transaction does not see it: %v", err)
	b.ok("rollback", tx.Rollback(b.ctx))
	b.that(b.count("approval") == 0 && b.count("audit") == 0, "something is left of a proposal that was rolled back")
	b.that(!b.reads("draft"), "the draft is left")
}

func approvalDecided[TX any](b *bench[TX]) {
	for status, action := range map[driver.ApprovalStatus]string{driver.ApprovalConfirmed: "confirm", driver.ApprovalDismissed: "dismiss"} {
		a := b.propose(proposal(), ttl)
		var at time.Time
		b.ok("decide", b.within(func(tx driver.Tx) (err error) {
			at, err = tx.Decide(b.ctx, driver.Decision{Approval: a.ID, Status: status, By: "staff:8", Why: "looked at it"})
			return err
		}))
		got := b.approval(a.ID)
		b.that(got.DecidedAt.Equal(at) && b.clock().Sub(at).Abs() < slack, "decided at %v, told %v", got.DecidedAt, at)
		want := a
		want.Status, want.By, want.Decision, want.DecidedAt = status, "staff:8", "looked at it", got.DecidedAt
		b.that(reflect.DeepEqual(got, want), "read\n%+v, want\n%+v", got, want)
		list := b.audits()
		b.that(list[len(list)-1] == fmt.Sprintf(`"staff:8" %q`, action), "audit is %v", list)
		before := b.everything()
		for _, again := range []driver.ApprovalStatus{driver.ApprovalConfirmed, driver.ApprovalDismissed} {
			b.that(b.decideIt(a.ID, again) != nil, "decided twice")
			b.that(b.decideIt(driver.NewID(), again) != nil, "decided what nobody proposed")
		}
		b.that(b.everything() == before, "rows changed")
	}
}

func approvalConsumed[TX any](b *bench[TX]) {
	open, dismissed, a := b.propose(proposal(), ttl), b.propose(proposal(), ttl), b.propose(proposal(), ttl)
	b.ok("dismiss", b.decideIt(dismissed.ID, driver.ApprovalDismissed))
	b.ok("confirm", b.decideIt(a.ID, driver.ApprovalConfirmed))
	consume := func(id driver.ID, commit bool) (driver.Run, error) {
		_, tx := b.begin()
		r, err := b.consume(tx, id)
		if err != nil || !commit {
			b.ok("rollback", tx.Rollback(b.ctx))
			return r, err
		}
		r.SecurityVersion, r.Target, r.TargetVersion = "v3", "ticket:9", "4"
		b.ok("seal run", tx.SealRun(b.ctx, r))
		return r, tx.Commit(b.ctx)
	}
	for what, id := range map[string]driver.ID{"open": open.ID, "dismissed": dismissed.ID, "absent": driver.NewID()} {
		_, err := consume(id, true)
		b.that(err != nil, "an approval was consumed that is %s", what)
	}
	_, err := consume(a.ID, false)
	b.ok("first run, rolled back", err)
	b.that(b.approval(a.ID).Status == driver.ApprovalConfirmed, "a run that was rolled back consumed it")
	r, err := consume(a.ID, true)
	b.ok("second run, committed", err)
	got := b.approval(a.ID)
	b.that(got.Status == driver.ApprovalConsumed && got.Run == r.ID && b.clock().Sub(got.ConsumedAt).Abs() < slack, "approval is %+v", got)
	run, _, err := b.Bound.Run(b.ctx, r.ID)
	b.that(err == nil && run.Approval == a.ID, "the run names the approval %s, %v", run.Approval, err)
	list := b.audits()
	b.that(list[len(list)-1] == `"staff:7" "run"`, "audit is %v", list)
	before := b.rowsOf("run")
	_, err = consume(a.ID, true)
	b.that(err != nil, "an approval was consumed twice")
	b.that(b.decideIt(a.ID, driver.ApprovalDismissed) != nil, "what was consumed was dismissed")
	other := b.propose(proposal(), ttl)
	b.ok("confirm", b.decideIt(other.ID, driver.ApprovalConfirmed))
	b.that(b.within(func(tx driver.Tx) error { return tx.Consume(b.ctx, other.ID, r.ID) }) != nil, "consumed by a run that has ended")
	b.that(b.approval(other.ID).Status == driver.ApprovalConfirmed, "half of a consumption was written")
	b.that(b.rowsOf("run") == before, "the run changed")
}

func approvalGivenBack[TX any](b *bench[TX]) {
	a := b.propose(proposal(), ttl)
	b.ok("confirm", b.decideIt(a.ID, driver.ApprovalConfirmed))
	_, tx := b.begin()
	for range 2 {
		sp, err := tx.Savepoint(b.ctx)
		b.ok("savepoint", err)
		_, err = b.consume(tx, a.ID)
		b.ok("consume", err)
		locked, _, err := tx.LockApproval(b.ctx, a.ID)
		b.that(err == nil && locked.Status == driver.ApprovalConsumed, "its own transaction reads %+v, %v", locked, err)
		b.ok("roll back", sp.Rollback(b.ctx))
	}
	b.ok("commit", tx.Commit(b.ctx))
	b.that(b.approval(a.ID).Status == driver.ApprovalConfirmed && b.count("run") == 0, "approval is %+v", b.approval(a.ID))
}

func approvalLocked[TX any](b *bench[TX]) {
	for round := range 5 {
		a := b.propose(proposal(), ttl)
		var won [4]bool
		var faults [4]error
		together(len(won), func(i int) {
			faults[i] = b.within(func(tx driver.Tx) error {
				held, _, err := tx.LockApproval(b.ctx, a.ID)
				if err != nil || held.Status != driver.ApprovalOpen {
					return err
				}
				won[i] = true
				_, err = tx.Decide(b.ctx, driver.Decision{Approval: a.ID, Status: driver.ApprovalConfirmed, By: fmt.Sprint("staff:", i)})
				return err
			})
		})
		b.ok("decisions", errors.Join(faults[:]...))
		n := 0
		for i, w := range won {
			if w {
				n++
				b.that(b.approval(a.ID).By == fmt.Sprint("staff:", i), "another one is stored than was told")
			}
		}
		b.that(n == 1, "round %d: %d found it open, want 1", round, n)
	}
	if !b.ConcurrentWriters {
		return
	}
	a := b.propose(proposal(), ttl)
	_, tx := b.begin()
	_, _, err := tx.LockApproval(b.ctx, a.ID)
	b.ok("lock", err)
	ctx, cancel := context.WithTimeout(b.ctx, 50*time.Millisecond)
	defer cancel()
	_, other := b.begin()
	_, _, err = other.LockApproval(ctx, a.ID)
	b.that(err != nil, "locked twice at once")
}

func approvalExpires[TX any](b *bench[TX]) {
	a := b.propose(proposal(), ttl)
	b.that(!a.Expired, "expired at once")
	b.shift(ttl - time.Minute)
	b.that(!b.approval(a.ID).Expired, "expired before its time")
	b.shift(2 * time.Minute)
	got := b.approval(a.ID)
	b.that(got.Expired && got.Status == driver.ApprovalOpen, "approval is %+v", got)
	_, tx := b.begin()
	locked, found, err := tx.LockApproval(b.ctx, a.ID)
	b.that(err == nil && found && locked.Expired, "locked %+v, %v", locked, err)
	b.ok("rollback", tx.Rollback(b.ctx))
}

func approvalListed[TX any](b *bench[TX]) {
	elsewhere := func(a *driver.Approval) { a.Tenant = "tenant:2" }
	late := b.propose(proposal(), 3*ttl)
	soon := b.propose(proposal(elsewhere), ttl)
	next := b.propose(proposal(), 2*ttl)
	gone, done := b.propose(proposal(), time.Minute), b.propose(proposal(), ttl)
	b.ok("dismiss", b.decideIt(done.ID, driver.ApprovalDismissed))
	b.shift(2 * time.Minute)
	list := func(q driver.OpenApprovals) []driver.ID {
		b.t.Helper()
		got, err := b.Bound.OpenApprovals(b.ctx, q)
		b.ok("open approvals", err)
		var ids []driver.ID
		for _, a := range got {
			b.that(reflect.DeepEqual(a, b.approval(a.ID)), "the list shows %+v", a)
			ids = append(ids, a.ID)
		}
		return ids
	}
	same := func(what string, got []driver.ID, want ...driver.ID) {
		b.t.Helper()
		b.that(fmt.Sprint(got) == fmt.Sprint(want), "%s: %v, want %v", what, got, want)
	}
	same("all", list(driver.OpenApprovals{Limit: 10}), soon.ID, next.ID, late.ID)
	same("of one tenant", list(driver.OpenApprovals{Limit: 10, Tenant: "tenant:1"}), next.ID, late.ID)
	same("of no tenant", list(driver.OpenApprovals{Limit: 10, Tenant: "tenant"}))
	q := driver.OpenApprovals{Limit: 1}
	for _, want := range []driver.ID{soon.ID, next.ID, late.ID} {
		page := list(q)
		same("a page", page, want)
		q.After = driver.ApprovalCursor{ExpiresAt: b.approval(want).ExpiresAt, ID: want}
	}
	same("behind the last", list(q))
	q = driver.OpenApprovals{Limit: 10, After: driver.ApprovalCursor{ExpiresAt: b.approval(gone.ID).ExpiresAt, ID: gone.ID}}
	same("behind one that has expired", list(q), soon.ID, next.ID, late.ID)
}

func approvalErased[TX any](b *bench[TX]) {
	whose := func(a *driver.Approval) {
		a.Subject, a.Target, a.Reason, a.Input = "customer:1", "of "+secret, secret, []byte(`"`+secret+`"`)
	}
	open, confirmed, consumed := b.propose(proposal(whose), ttl), b.propose(proposal(whose), ttl), b.propose(proposal(whose), ttl)
	kept := b.propose(proposal(func(a *driver.Approval) { a.Subject = "customer:2" }), ttl)
	for _, id := range []driver.ID{confirmed.ID, consumed.ID} {
		b.ok("confirm", b.within(func(tx driver.Tx) error {
			_, err := tx.Decide(b.ctx, driver.Decision{Approval: id, Status: driver.ApprovalConfirmed, By: "staff:8", Why: secret})
			return err
		}))
	}
	b.ok("consume", b.within(func(tx driver.Tx) error { _, err := b.consume(tx, consumed.ID); return err }))
	b.erase("customer:1")
	b.that(!strings.Contains(b.everything(), secret), "content is left")
	for id, expired := range map[driver.ID]bool{open.ID: true, confirmed.ID: true, consumed.ID: false} {
		a := b.approval(id)
		b.that(a.Expired == expired && a.InputDigest == digest, "approval is %+v", a)
		b.that(a.Target+a.Subject+a.Reason+a.Decision == "" && a.Input == nil, "approval is %+v", a)
	}
	b.that(reflect.DeepEqual(b.approval(kept.ID), kept), "another subject's changed")
	list, err := b.Bound.OpenApprovals(b.ctx, driver.OpenApprovals{Limit: 9})
	b.that(err == nil && len(list) == 1 && list[0].ID == kept.ID, "open are %+v, %v", list, err)
}

func approvalChecked[TX any](b *bench[TX]) {
	before := b.everything()
	for what, a := range map[string]driver.Approval{
		"no digest":               proposal(func(a *driver.Approval) { a.InputDigest = [32]byte{} }),
		"an input of 16385 bytes": proposal(func(a *driver.Approval) { a.Input = []byte(`"` + strings.Repeat("x", 16383) + `"`) }),
	} {
		b.that(b.within(func(tx driver.Tx) error { return tx.Propose(b.ctx, a, ttl) }) != nil, "stored: %s", what)
	}
	b.that(b.everything() == before, "rows changed")
	b.propose(proposal(func(a *driver.Approval) { a.Input = []byte(`"` + strings.Repeat("x", 16382) + `"`) }), ttl)
	own := b.propose(proposal(func(a *driver.Approval) { a.OtherConfirmer = true }), ttl)
	decide := func(status driver.ApprovalStatus) error {
		return b.within(func(tx driver.Tx) error {
			_, err := tx.Decide(b.ctx, driver.Decision{Approval: own.ID, Status: status, By: own.Proposer})
			return err
		})
	}
	b.that(decide(driver.ApprovalConfirmed) != nil, "confirmed by its own proposer")
	b.ok("withdrawn by its proposer", decide(driver.ApprovalDismissed))
}
