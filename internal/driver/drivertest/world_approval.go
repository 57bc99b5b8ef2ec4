package drivertest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/consign-go/consign/internal/driver"
)

// sign does one thing with approvals, and compares what is read of them.
func (w *world) sign() {
	commit := !w.oneIn(4, "roll back")
	switch {
	case len(w.approvals) == 0 || w.oneIn(3, "propose"):
		w.propose(commit)
	case w.oneIn(2, "decide"):
		w.decideApproval(commit)
	default:
		w.consume(commit)
	}
	id := driver.ID{0xff} // nobody's
	if len(w.approvals) > 0 {
		id = pick(w, w.approvals, "approval")
	}
	w.both("approval", func(s *side) string {
		a, found, err := s.Approval(w.ctx, id)
		return fmt.Sprint(found, fault(err), approvalText(&a))
	})
	tenant := pick(w, []string{"", "tenant:1", "tenant:2"}, "tenant")
	w.both("open approvals", func(s *side) string {
		list, err := s.OpenApprovals(w.ctx, driver.OpenApprovals{Tenant: tenant, Limit: 100})
		lines := []string{fault(err)}
		for i := range list { // the times of two stores differ by less than an order needs
			lines = append(lines, approvalText(&list[i]))
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	})
}

// approvalText writes an approval without its times, which the tables are compared by.
func approvalText(a *driver.Approval) string {
	return fmt.Sprint(a.ID, a.Operation, a.Actor, a.Tenant, a.Target, a.Subject, string(a.Input), a.Proposer, a.Reason, a.Status,
		a.By, a.Decision, a.Run, a.OtherConfirmer, a.Expired, a.DecidedAt.IsZero(), a.ConsumedAt.IsZero())
}

func (w *world) propose(commit bool) {
	a := proposal(func(a *driver.Approval) {
		a.ID, a.Subject = w.id(), pick(w, []string{"", "s1", "s2"}, "subject")
		a.Tenant = pick(w, []string{"tenant:1", "tenant:2"}, "tenant")
		a.OtherConfirmer = w.oneIn(3, "other confirmer")
	})
	if len(w.approvals) > 0 && w.oneIn(8, "again") {
		a.ID = pick(w, w.approvals, "approval")
	}
	ttl := w.units(5, "ttl")
	w.both("propose", func(s *side) string {
		return fault(s.within(w.ctx, commit, func(tx driver.Tx) error { return tx.Propose(w.ctx, a, ttl) }))
	})
	w.approvals = append(w.approvals, a.ID)
	w.seen["propose"]++
}

func (w *world) decideApproval(commit bool) {
	d := driver.Decision{
		Approval: pick(w, w.approvals, "approval"), Status: driver.ApprovalConfirmed, Why: "looked at it",
		By: pick(w, []string{"staff:8", "agent:1"}, "by"), // the second one has proposed it
	}
	if w.oneIn(4, "dismiss") {
		d.Status = driver.ApprovalDismissed
	}
	answer := w.both("decide", func(s *side) string {
		var held driver.Approval
		err := s.within(w.ctx, commit, func(tx driver.Tx) (err error) {
			if held, _, err = tx.LockApproval(w.ctx, d.Approval); err != nil {
				return err
			}
			_, err = tx.Decide(w.ctx, d)
			return err
		})
		return fault(err) + " " + approvalText(&held)
	})
	w.seen["decide: "+answer[:strings.Index(answer, " ")]]++
}

func (w *world) consume(commit bool) {
	id := pick(w, w.approvals, "approval")
	r := driver.Run{ID: w.id(), Operation: "triage", Actor: "staff:7", Tenant: "tenant:1"}
	answer := w.both("consume", func(s *side) string {
		return fault(s.within(w.ctx, commit, func(tx driver.Tx) error {
			if err := tx.OpenRun(w.ctx, r); err != nil {
				return err
			}
			if err := tx.Consume(w.ctx, id, r.ID); err != nil {
				return err
			}
			sealed := r
			sealed.SecurityVersion, sealed.Target, sealed.TargetVersion, sealed.Work = "v3", "ticket:9", "4", []driver.ID{id}
			return tx.SealRun(w.ctx, sealed)
		}))
	})
	w.seen["consume: "+answer]++
	w.both("run", func(s *side) string {
		got, found, err := s.Run(w.ctx, r.ID)
		got.CreatedAt, got.SealedAt = time.Time{}, time.Time{}
		return fmt.Sprint(found, fault(err), got)
	})
}
