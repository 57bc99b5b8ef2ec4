package operator_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/operator"
)

// TestContentIsReadOnlyWithATrace: the entry in the audit is there before anything is
// shown, and what was erased is not shown.
func TestContentIsReadOnlyWithATrace(t *testing.T) {
	onEveryStore(t, func(h *host) {
		m := message("mail", once)
		m.Subject = "customer:1"
		h.put(m)
		got, err := h.ann.ReadContent(h.ctx, ann, refOf(m))
		h.ok(err)
		if !strings.Contains(string(got.Payload), secret) || got.To != secret || got.Subject != "customer:1" {
			t.Errorf("read %+v", got)
		}
		rows, err := h.ann.Audit(h.ctx, operator.AuditFilter{Ref: refOf(m)})
		h.ok(err)
		if len(rows) != 1 || rows[0].Action != "read" || rows[0].By != "ann" || rows[0].Why != "weekly look" || rows[0].Before != nil || rows[0].After != nil {
			t.Errorf("audited %+v", rows)
		}
		_, err = h.ann.ReadContent(h.ctx, operator.By{Who: "ann"}, refOf(m))
		h.is("without a reason", err, consign.ErrInvalid)
		gone, cancel := context.WithCancel(h.ctx)
		cancel()
		if got, err := h.ann.ReadContent(gone, ann, refOf(m)); err == nil || got.Payload != nil {
			t.Errorf("unaudited: %+v, %v", got, err)
		}
		_, err = h.ann.Erase(h.ctx, ann, []string{"customer:1"})
		h.ok(err)
		_, err = h.ann.ReadContent(h.ctx, ann, refOf(m))
		h.is("erased", err, consign.ErrNotFound)
		_, err = h.ann.ReadContent(h.ctx, ann, consign.NewRef())
		h.is("unknown", err, consign.ErrNotFound)
		id := consign.NewRef().ID
		h.ok(h.ann.NoteApprovalRead(h.ctx, ann, id))
		h.is("no approval", h.ann.NoteApprovalRead(h.ctx, ann, consign.ID{}), consign.ErrInvalid)
		rows, err = h.ann.Audit(h.ctx, operator.AuditFilter{Limit: 1})
		h.ok(err)
		if rows[0].Action != "read" || !strings.Contains(string(rows[0].After), id.String()) {
			t.Errorf("audited %+v", rows)
		}
	})
}

// TestRecentEndsAreCountedByPart in words of the public, and up to a limit.
func TestRecentEndsAreCountedByPart(t *testing.T) {
	onEveryStore(t, func(h *host) {
		h.unknown(message("mail", once))
		h.rejected(message("mail", once))
		h.rejected(work("triaged", once))
		h.put(message("mail", once))
		got, err := h.ann.Recent(h.ctx, time.Hour, 4)
		h.ok(err)
		if len(got) != 2 || got[0].Status != consign.StatusReconciliationRequired || !slices.Equal(got[0].N, []int{0, 0, 0, 1}) ||
			got[1].Profile != consign.ProfileMessage || got[1].Status != consign.StatusFailed || !slices.Equal(got[1].N, []int{0, 0, 0, 2}) ||
			slices.Contains(got[1].Capped, true) || got[1].Part != 15*time.Minute {
			t.Errorf("counted %+v", got)
		}
		for _, wrong := range []struct {
			span  time.Duration
			parts int
		}{{0, 1}, {time.Hour, 0}, {time.Hour, 101}, {1000 * time.Hour, 1}} {
			_, err := h.ann.Recent(h.ctx, wrong.span, wrong.parts)
			h.is("wrong", err, consign.ErrInvalid)
		}
		_, err = h.ann.List(h.ctx, operator.Filter{Look: 999})
		h.is("look", err, consign.ErrInvalid)
		page, err := h.ann.List(h.ctx, operator.Filter{Look: 1000})
		h.ok(err)
		if len(page.Entries) != 4 || page.Next != "" {
			t.Errorf("%d are listed, then %q", len(page.Entries), page.Next)
		}
	})
}

// TestContractIsShown as it was copied, and as live programs have it.
func TestContractIsShown(t *testing.T) {
	onEveryStore(t, func(h *host) {
		w := work("triaged", once)
		h.put(w)
		h.serves(servesWork("triaged", "1", once))
		c := h.show(refOf(w)).Contract
		if c.Lease != time.Minute || c.Timeout != time.Second || c.MaxAttempts != 3 || c.Idempotent || c.Retry != "schedule" || c.Version != "1" || c.Fingerprint != w.Fingerprint {
			t.Errorf("the contract is %+v", c)
		}
		served, err := h.ann.Serving(h.ctx)
		h.ok(err)
		if len(served) != 1 || served[0].Contract != c {
			t.Errorf("served %+v", served)
		}
	})
	for _, c := range operator.Codes() {
		if c == consign.CodeFenced || c == consign.CodeAuthorityMissing || c == consign.CodeEffectCalledTwice {
			t.Errorf("%s is never stored", c)
		}
	}
	if len(operator.Codes()) != 20 {
		t.Errorf("%d codes", len(operator.Codes()))
	}
}
