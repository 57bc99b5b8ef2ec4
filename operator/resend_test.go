package operator_test

import (
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/operator"
)

// A redelivery is a new intent linked to the old one, which stays as it ended: same
// key, payload, bound digest, uncertain mark, run, actor, tenant and committed
// version, under the present contract with a new budget and deadline.
func TestRedeliverCarriesOverAndTakesThePresentContract(t *testing.T) {
	onEveryStore(t, func(h *host) {
		now := twice
		now.MaxAttempts, now.MaxAge, now.Lease = 7, time.Hour, 2*time.Minute
		old := work("triaged", twice)
		ref := h.start(old)
		h.happen(ref, is(lifecycle.EvUnknown)) // idempotent: goes back, uncertain
		h.exec("UPDATE {s}delivery SET deadline = "+h.past(time.Hour)+" WHERE ref = $1", ref.ID)
		h.happen(ref, is(lifecycle.EvSweep))
		before := h.record(ref)
		if before.State.Status != lifecycle.ReconciliationRequired || !before.State.Uncertain {
			h.Fatalf("before: %+v", before.State)
		}
		h.serves(servesWork("triaged", "1", now))
		sent, err := h.ann.Redeliver(h.ctx, ann, ref)
		h.ok(err)
		after, next := h.record(ref), h.record(sent.Ref)
		if after.State.Status != before.State.Status || after.State.Code != before.State.Code || !after.ReviewAt.IsZero() {
			h.Errorf("the old one: %+v", after.State)
		}
		i := next.Intent
		if i.Predecessor != driver.ID(ref.ID) || i.Link != driver.Redelivery || i.Key != old.Key || sent.Key != consign.ID(old.Key) ||
			string(i.Payload) != string(old.Payload) || i.Run != old.Run || i.Actor != old.Actor || i.Tenant != old.Tenant ||
			i.SecurityVersion != old.SecurityVersion || i.TargetVersion != old.TargetVersion || i.Fingerprint != old.Fingerprint {
			h.Errorf("successor %+v", i)
		}
		s := next.State
		if s.Status != lifecycle.Pending || s.Attempts != 0 || !s.Uncertain || s.Digest != before.State.Digest || s.Contract != now ||
			next.Deadline.IsZero() || len(h.review()) != 0 {
			h.Errorf("successor %+v until %s", s, next.Deadline)
		}
	})
}

// What may have been delivered goes under its old key only where both contracts drop
// repetitions, and under a fresh one only after a finding that it was not delivered.
func TestUncertainIsSentAgainOnlyWhereItMay(t *testing.T) {
	onEveryStore(t, func(h *host) {
		h.serves(servesMessage("mail", once), servesMessage("hook", twice))
		mail := h.unknown(message("mail", once))
		_, err := h.ann.Redeliver(h.ctx, ann, mail)
		h.refusal("not idempotent then", err, "unknown")
		hook := h.unknown(message("hook", once))
		_, err = h.ann.Redeliver(h.ctx, ann, hook)
		h.refusal("not idempotent then, idempotent now", err, "unknown")
		was := h.strand(message("mail", lifecycle.Contract{Retry: lifecycle.Process, Idempotent: true, MaxAttempts: 3, Lease: time.Minute, Timeout: time.Second}))
		_, err = h.ann.Redeliver(h.ctx, ann, was)
		h.refusal("idempotent then, not idempotent now", err, "present contract")
		_, err = h.ann.Reissue(h.ctx, ann, mail)
		h.refusal("reissue without a finding", err, "find out")
		for _, o := range []operator.Outcome{operator.FoundAbandoned, operator.FoundDelivered} {
			ref := h.unknown(message("mail", once))
			_, err := h.ann.Resolve(h.ctx, ann, ref, operator.Finding{Outcome: o, Evidence: "asked"})
			h.ok(err)
			_, err = h.ann.Reissue(h.ctx, ann, ref)
			h.refusal("reissue of what was found "+string(o), err, "found")
			_, err = h.ann.Redeliver(h.ctx, ann, ref)
			h.refusal("redelivery of what was found "+string(o), err, "found")
		}
		_, err = h.ann.Resolve(h.ctx, ann, mail, operator.Finding{Outcome: operator.FoundNotDelivered, Evidence: "they have no such key"})
		h.ok(err)
		sent, err := h.ann.Reissue(h.ctx, ann, mail)
		h.ok(err)
		next := h.record(sent.Ref)
		if next.Intent.Key != next.Intent.Ref || next.Intent.Link != driver.Reissue || next.State.Uncertain || next.State.Digest != (lifecycle.Digest{}) || sent.Warning != "" {
			h.Errorf("reissued %+v, %+v, warning %q", next.Intent, next.State, sent.Warning)
		}
	})
}

// A reissue warns where the last owner never said how it ended.
func TestReissueWarnsWhileTheLastOwnerMayLive(t *testing.T) {
	onEveryStore(t, func(h *host) {
		h.serves(servesMessage("loop", looped))
		ref := h.strand(message("loop", looped))
		_, err := h.ann.Resolve(h.ctx, ann, ref, operator.Finding{Outcome: operator.FoundNotDelivered, Evidence: "nothing there"})
		h.ok(err)
		for _, c := range h.show(ref).Choices {
			if c.Action == operator.ActReissue && (c.Refused != "" || c.Warning == "") {
				h.Errorf("choice %+v", c)
			}
		}
		sent, err := h.ann.Reissue(h.ctx, ann, ref)
		h.ok(err)
		if !strings.Contains(sent.Warning, "paused") {
			h.Errorf("warning %q", sent.Warning)
		}
		rows, err := h.ann.Audit(h.ctx, operator.AuditFilter{Ref: ref})
		h.ok(err)
		if !strings.Contains(string(rows[0].After), "paused") {
			h.Errorf("the audit does not know of the warning: %s", rows[0].After)
		}
	})
}

// What was delivered, is open or was erased is never sent again, nor what sending
// again does not cure, nor anything but the end of a chain.
func TestNothingIsSentAgainThatMustNot(t *testing.T) {
	onEveryStore(t, func(h *host) {
		h.serves(servesMessage("mail", once), servesWork("triaged", "1", once), servesMessage("loop", looped))
		delivered := h.start(message("mail", once))
		h.happen(delivered, is(lifecycle.EvSucceeded))
		pending, gone := message("mail", once), message("mail", once)
		gone.Subject = "customer:1"
		h.put(pending)
		h.rejected(gone)
		_, err := h.ann.Erase(h.ctx, ann, []string{"customer:1"})
		h.ok(err)
		flying := h.start(message("loop", looped))
		for name, send := range map[string]func(ref consign.Ref) error{
			"redeliver": func(ref consign.Ref) error { return redeliver(h)(h.ann, ann, ref) },
			"reissue":   func(ref consign.Ref) error { _, err := h.ann.Reissue(h.ctx, ann, ref); return err },
		} {
			h.refusal(name+" of delivered", send(delivered), "delivered")
			h.refusal(name+" of open", send(refOf(pending)), "open")
			h.refusal(name+" of what is in flight", send(flying), "open")
			h.is(name+" of erased", send(refOf(gone)), consign.ErrNotFound)
			h.is(name+" of nothing", send(consign.NewRef()), consign.ErrNotFound)
			for _, code := range []lifecycle.Code{lifecycle.RecordChanged, lifecycle.RequestChanged, lifecycle.AuthorityRevoked} {
				n := work("triaged", once)
				h.put(n)
				h.claim(n)
				h.happen(refOf(n), lifecycle.Event{Kind: lifecycle.EvStopped, Code: code})
				h.refusal(name+" of "+string(code), send(refOf(n)), "run the operation again")
				if told := h.show(refOf(n)).Do; !strings.Contains(told, "un the operation again") {
					h.Errorf("%s: the advice is %q", code, told)
				}
			}
			first := h.rejected(message("mail", once))
			h.ok(send(first))
			h.is(name+" of the middle of a chain", send(first), operator.ErrChanged)
		}
		unserved := h.rejected(work("closed", once))
		h.refusal("work that nobody serves", redeliver(h)(h.ann, ann, unserved), "serves")
		late := h.unknown(message("mail", once))
		_, err = h.ann.Resolve(h.ctx, ann, late, operator.Finding{Outcome: operator.FoundNotDelivered, Evidence: "nothing there yet"})
		h.ok(err)
		h.late(late, 1, lifecycle.Accepted)
		_, err = h.ann.Reissue(h.ctx, ann, late)
		h.refusal("reissue after a late success", err, "observed late")
	})
}

// Cancelled work can be sent again where the cause was cured.
func TestCancelledWorkIsSentAgain(t *testing.T) {
	onEveryStore(t, func(h *host) {
		h.serves(servesWork("triaged", "1", once))
		n := work("triaged", once)
		h.put(n)
		h.ok(cancel(h)(h.ann, ann, refOf(n)))
		errs := together(
			func() error { return redeliver(h)(h.ann, ann, refOf(n)) }, func() error { return redeliver(h)(h.bob, bob, refOf(n)) },
		)
		if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), operator.ErrChanged) {
			h.Errorf("two redeliveries of cancelled work: %v", errs)
		}
	})
}

// The version of what is sent again is the one that live programs can read it with.
func TestSentAgainUnderTheVersionThatIsServed(t *testing.T) {
	onEveryStore(t, func(h *host) {
		send := func() (driver.Intent, error) {
			sent, err := h.ann.Redeliver(h.ctx, ann, h.rejected(work("triaged", once)))
			if err != nil {
				return driver.Intent{}, err
			}
			return h.record(sent.Ref).Intent, nil
		}
		second := servesWork("triaged", "2", twice)
		program := driver.Program{ID: driver.NewID(), Name: "web", Serves: []driver.Serves{second}}
		h.ok(h.store.Register(h.ctx, program))
		if i, err := send(); err != nil || i.Version != "2" || i.Fingerprint != second.Fingerprint {
			h.Errorf("without an upgrade: version %q, %v", i.Version, err)
		}
		upgrade := servesWork("triaged", "1", twice)
		upgrade.Upgrade, upgrade.Fingerprint = true, [32]byte{}
		program.Serves = append(program.Serves, upgrade)
		h.ok(h.store.Register(h.ctx, program))
		if i, err := send(); err != nil || i.Version != "1" || i.Fingerprint != sha256.Sum256([]byte("triaged 1")) {
			h.Errorf("with an upgrade: version %q, %v", i.Version, err)
		}
		program.Serves = program.Serves[:1]
		h.ok(h.store.Register(h.ctx, program))
		h.serves(servesWork("triaged", "3", twice))
		_, err := send()
		h.refusal("in the middle of a deploy", err, "different contracts")
		h.serves(servesWork("triaged", "1", once))
		if i, err := send(); err != nil || i.Version != "1" {
			h.Errorf("as it was created: version %q, %v", i.Version, err)
		}
	})
}

// What is learned late about one intent shows on all that were sent for it.
func TestLateEvidenceShowsOnTheWholeChain(t *testing.T) {
	onEveryStore(t, func(h *host) {
		h.serves(servesMessage("loop", lifecycle.Contract{Retry: lifecycle.Process, Idempotent: true, MaxAttempts: 3, Lease: time.Minute, Timeout: time.Second}))
		idempotent := looped
		idempotent.Idempotent = true
		first := h.strand(message("loop", idempotent))
		sent, err := h.ann.Redeliver(h.ctx, ann, first)
		h.ok(err)
		next := h.record(sent.Ref)
		h.claim(driver.New{Intent: next.Intent, Contract: next.State.Contract})
		h.happen(sent.Ref, is(lifecycle.EvStart))
		h.exec("UPDATE {s}delivery SET lease_until = "+h.past(time.Second)+", review_at = "+h.past(time.Second)+" WHERE ref = $1", sent.Ref.ID)
		h.late(first, 1, lifecycle.Accepted)
		for _, ref := range []consign.Ref{first, sent.Ref} {
			e := h.show(ref)
			if len(e.Chain) != 2 || e.Chain[0].Ref != first || e.Chain[1].Ref != sent.Ref || e.Chain[1].How != "redelivery" || e.Chain[1].Predecessor != first {
				h.Errorf("chain %+v", e.Chain)
			}
			if len(e.Evidence) != 1 || e.Evidence[0].Ref != first || !e.Evidence[0].Late || e.Answer != operator.FoundDelivered {
				h.Errorf("evidence of %s: %+v, answer %q", ref, e.Evidence, e.Answer)
			}
		}
		_, err = h.ann.AcceptEvidence(h.ctx, ann, sent.Ref, consign.ID{})
		h.ok(err)
	})
}

// A stranded message outlives what was sent in its place: that it was sent again is
// still known once retention has removed the successor.
func TestSentAgainIsRememberedBeyondRetention(t *testing.T) {
	onEveryStore(t, func(h *host) {
		h.serves(servesMessage("loop", looped))
		ref := h.strand(message("loop", looped))
		_, err := h.ann.Resolve(h.ctx, ann, ref, operator.Finding{Outcome: operator.FoundNotDelivered, Evidence: "nothing there"})
		h.ok(err)
		sent, err := h.ann.Reissue(h.ctx, ann, ref)
		h.ok(err)
		next := h.record(sent.Ref)
		h.claim(driver.New{Intent: next.Intent, Contract: next.State.Contract})
		h.happen(sent.Ref, is(lifecycle.EvStart), is(lifecycle.EvSucceeded))
		n, err := h.ann.Prune(h.ctx, ann, "", time.Now().Add(time.Hour))
		h.ok(err)
		if n != 1 {
			h.Fatalf("%d removed, want the successor", n)
		}
		_, err = h.bob.Reissue(h.ctx, bob, ref)
		h.is("sent again twice", err, operator.ErrChanged)
		seen, err := h.bob.Preview(h.ctx, operator.ActReissue, []consign.Ref{ref})
		h.ok(err)
		if len(seen) != 1 || seen[0].Refused == "" {
			h.Errorf("preview %+v", seen)
		}
	})
}

// Several are sent again only as they were looked at.
func TestBulkIsPreviewedAndConfirmed(t *testing.T) {
	onEveryStore(t, func(h *host) {
		h.serves(servesMessage("mail", once))
		a, b, c := h.rejected(message("mail", once)), h.rejected(message("mail", once)), h.unknown(message("mail", once))
		before := h.text()
		seen, err := h.ann.Preview(h.ctx, operator.ActRedeliver, []consign.Ref{a, b, c, consign.NewRef()})
		h.ok(err)
		if h.text() != before {
			h.Error("a preview changed something")
		}
		if len(seen) != 3 || seen[0].Refused != "" || seen[1].Refused != "" || seen[2].Refused == "" {
			h.Fatalf("preview %+v", seen)
		}
		h.ok(redeliver(h)(h.bob, bob, b))
		got, err := h.ann.Confirm(h.ctx, ann, operator.ActRedeliver, seen)
		h.ok(err)
		if len(got) != 3 || got[0].Err != nil || got[0].Sent.Ref.IsZero() {
			h.Fatalf("confirmed %+v", got)
		}
		h.is("what another person sent again meanwhile", got[1].Err, operator.ErrChanged)
		h.refusal("what was refused in the preview", got[2].Err, "unknown")
		again, err := h.ann.Confirm(h.ctx, ann, operator.ActRedeliver, seen[:1])
		h.ok(err)
		h.is("confirmed twice", again[0].Err, operator.ErrChanged)
	})
}
