package operator_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/operator"
)

// Lists find exactly what a filter asks for, in pages of any size, and show nothing of
// what the intents say.
func TestListFindsWhatIsAskedFor(t *testing.T) {
	onEveryStore(t, func(h *host) {
		pending, held, other := message("mail", once), message("mail", once), message("chat", once)
		other.Subject = "customer:1"
		open := work("triaged", once)
		h.put(pending, held, other, open)
		h.claim(held)
		rejected := h.rejected(message("mail", once))
		unknown := h.unknown(message("mail", once))
		review := h.rejected(work("triaged", once))
		delivered := h.start(message("chat", once))
		h.happen(delivered, is(lifecycle.EvSucceeded))
		loop := h.start(message("loop", looped))
		gone := message("mail", once)
		gone.Subject = "customer:2"
		h.put(gone)
		_, err := h.ann.Erase(h.ctx, ann, []string{"customer:2"})
		h.ok(err)
		all := []consign.Ref{refOf(pending), refOf(held), refOf(other), refOf(open), rejected, unknown, review, delivered, loop}
		now, err := h.store.Now(h.ctx)
		h.ok(err)
		for name, c := range map[string]struct {
			filter operator.Filter
			want   []consign.Ref
		}{
			"all":           {operator.Filter{}, all},
			"pending":       {operator.Filter{Status: []consign.Status{consign.StatusPending}}, []consign.Ref{refOf(pending), refOf(held), refOf(other), refOf(open)}},
			"failed":        {operator.Filter{Status: []consign.Status{consign.StatusFailed}}, []consign.Ref{rejected, unknown}},
			"delivering":    {operator.Filter{Status: []consign.Status{consign.StatusDelivering}}, []consign.Ref{loop}},
			"two statuses":  {operator.Filter{Status: []consign.Status{consign.StatusDelivered, consign.StatusReconciliationRequired}}, []consign.Ref{delivered, review}},
			"work":          {operator.Filter{Profile: consign.ProfileWork}, []consign.Ref{refOf(open), review}},
			"failed work":   {operator.Filter{Profile: consign.ProfileWork, Status: []consign.Status{consign.StatusFailed}}, nil},
			"kind":          {operator.Filter{Kind: "chat"}, []consign.Ref{refOf(other), delivered}},
			"code":          {operator.Filter{Code: consign.CodeRejected}, []consign.Ref{rejected, review}},
			"kind and code": {operator.Filter{Kind: "mail", Code: consign.CodeOutcomeUnknown}, []consign.Ref{unknown}},
			"subject":       {operator.Filter{Subject: "customer:1"}, []consign.Ref{refOf(other)}},
			"erased":        {operator.Filter{Subject: "customer:2"}, nil},
			"later":         {operator.Filter{Since: now.Add(time.Hour)}, nil},
			"earlier":       {operator.Filter{Before: now.Add(-time.Hour)}, nil},
			"until now":     {operator.Filter{Before: now.Add(time.Hour), Since: now.Add(-time.Hour)}, all},
		} {
			for _, limit := range []int{1, 4} {
				c.filter.Limit, c.filter.After = limit, ""
				var got []consign.Ref
				for pages := 0; ; pages++ {
					page, err := h.ann.List(h.ctx, c.filter)
					h.ok(err)
					for _, s := range page.Entries {
						got = append(got, s.Ref)
					}
					if c.filter.After = page.Next; page.Next == "" {
						break
					}
					if limit > 0 && len(page.Entries) > limit || pages > 40 {
						h.Fatalf("%s: page %d of %d entries", name, pages, len(page.Entries))
					}
				}
				if !sameRefs(got, c.want) {
					h.Errorf("%s, limit %d: %v, want %v", name, limit, got, c.want)
				}
			}
		}
	})
}

func sameRefs(a, b []consign.Ref) bool {
	text := func(refs []consign.Ref) (out []string) {
		for _, r := range refs {
			out = append(out, r.String())
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(text(a), text(b))
}

// Counts tell how much there is of each kind and status, what waits for a person and
// since when, and what is paused.
func TestCountsTellHowMuchThereIs(t *testing.T) {
	onEveryStore(t, func(h *host) {
		held := message("mail", once)
		h.put(message("mail", once), held, work("triaged", once))
		h.claim(held)
		h.unknown(message("mail", once))
		h.rejected(message("mail", once))
		h.start(message("loop", looped))
		h.strand(message("loop", looped))
		h.ok(h.ann.Pause(h.ctx, ann, consign.ProfileWork, "triaged"))
		got, err := h.ann.Count(h.ctx, 0)
		h.ok(err)
		want := []operator.Count{
			{Profile: consign.ProfileWork, Kind: "triaged", Status: consign.StatusPending, N: 1},
			{Profile: consign.ProfileMessage, Kind: "loop", Status: consign.StatusDelivering, N: 2},
			{Profile: consign.ProfileMessage, Kind: "mail", Status: consign.StatusFailed, N: 2},
			{Profile: consign.ProfileMessage, Kind: "mail", Status: consign.StatusPending, N: 2},
		}
		if !slices.Equal(got.Counts, want) || got.Review != 2 || got.ReviewCapped || got.OldestReview.IsZero() || len(got.Pauses) != 1 || len(got.Due) != 2 || got.At.IsZero() {
			h.Errorf("counts %+v", got)
		}
		got, err = h.ann.Count(h.ctx, 1)
		h.ok(err)
		if got.Review != 1 || !got.ReviewCapped {
			h.Errorf("not capped: %+v", got)
		}
	})
}

// Everything that an operator does is on record: who, when, why, before and after, and
// nothing of what the intents say.
func TestEveryActionIsAudited(t *testing.T) {
	onEveryStore(t, func(h *host) {
		h.serves(servesMessage("mail", once))
		unknown, rejected, pending, old := h.unknown(message("mail", once)), h.rejected(message("mail", once)), message("mail", once), h.start(message("mail", once))
		h.happen(old, is(lifecycle.EvSucceeded))
		person := message("mail", once)
		person.Subject = "customer:1"
		h.put(pending, person)
		f, err := h.ann.Resolve(h.ctx, ann, unknown, operator.Finding{Outcome: operator.FoundNotDelivered, Evidence: secret})
		h.ok(err)
		_, err = h.ann.Reissue(h.ctx, ann, unknown)
		h.ok(err)
		h.ok(redeliver(h)(h.ann, ann, rejected))
		h.ok(cancel(h)(h.ann, ann, refOf(pending)))
		h.ok(h.ann.Pause(h.ctx, ann, consign.ProfileMessage, "mail"))
		h.ok(h.ann.Resume(h.ctx, ann, consign.ProfileMessage, "mail"))
		now, err := h.store.Now(h.ctx)
		h.ok(err)
		n, err := h.ann.Prune(h.ctx, ann, consign.ProfileMessage, now.Add(time.Hour))
		h.ok(err)
		if n < 1 {
			h.Errorf("%d removed", n)
		}
		n, err = h.ann.Erase(h.ctx, ann, []string{"customer:1", " "})
		h.ok(err)
		if n != 1 {
			h.Errorf("%d erased", n)
		}
		rows, err := h.ann.Audit(h.ctx, operator.AuditFilter{})
		h.ok(err)
		var actions []string
		for _, r := range slices.Backward(rows) {
			actions = append(actions, r.Action)
			if r.By != "ann" || r.Why != ann.Why || r.At.IsZero() || len(r.Before) == 0 || len(r.After) == 0 {
				h.Errorf("audit %+v", r)
			}
			if text := string(r.Before) + string(r.After); strings.Contains(text, secret) || strings.Contains(text, "customer:1") {
				h.Errorf("the audit has content: %s", text)
			}
		}
		want := []string{"resolve", "reissue", "redeliver", "cancel", "pause", "resume", "prune", "erase"}
		if !slices.Equal(actions, want) {
			h.Errorf("audited %v, want %v", actions, want)
		}
		first := rows[len(rows)-1]
		if string(first.Before) != `{"status":"failed","code":"OUTCOME_UNKNOWN","uncertain":true,"generation":1,"revision":3}` ||
			string(first.After) != `{"status":"failed","code":"OUTCOME_UNKNOWN","uncertain":true,"generation":1,"revision":4,"finding":"not-delivered"}` {
			h.Errorf("resolve: before %s, after %s, of %s", first.Before, first.After, f.Ref)
		}
		mine, err := h.ann.Audit(h.ctx, operator.AuditFilter{Ref: unknown, Limit: 1})
		h.ok(err)
		if len(mine) != 1 || mine[0].Action != "reissue" {
			h.Errorf("newest of one: %+v", mine)
		}
	})
}

// Erasure takes evidence with it, and what removes nothing says so.
func TestRetentionAndErasure(t *testing.T) {
	onEveryStore(t, func(h *host) {
		n := message("mail", once)
		n.Subject = "customer:1"
		ref := h.unknown(n)
		_, err := h.ann.Resolve(h.ctx, ann, ref, operator.Finding{Outcome: operator.FoundDelivered, Evidence: secret})
		h.ok(err)
		for _, subjects := range [][]string{nil, {}, {"", " "}, {"customer:2"}} {
			n, err := h.ann.Erase(h.ctx, ann, subjects)
			h.ok(err)
			if n != 0 {
				h.Errorf("%q erased %d", subjects, n)
			}
		}
		_, err = h.ann.Erase(h.ctx, operator.By{Who: "ann", Why: "customer:1 asked for it"}, []string{"customer:1"})
		h.is("a reason that names the subject", err, consign.ErrInvalid)
		_, err = h.ann.Erase(h.ctx, ann, []string{"customer:1"})
		h.ok(err)
		e := h.show(ref)
		if !e.Erased || e.Current == nil || e.Current.Evidence != "" || e.Known != operator.KnownNothing || strings.Contains(h.text(), secret) {
			h.Errorf("after the erasure: %+v", e)
		}
		review := h.rejected(work("triaged", once))
		removed, err := h.ann.Prune(h.ctx, ann, "", time.Now().Add(time.Hour))
		h.ok(err)
		if removed != 0 || h.record(review).State.Status != lifecycle.ReconciliationRequired {
			h.Errorf("%d removed of what waits in review", removed)
		}
	})
}
