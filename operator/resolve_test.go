package operator_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/operator"
)

// Review lists what waits for a person, the longest waiting first, with why, what is
// known and what can be done, and nothing of what the intents say.
func TestReviewShowsWhatWaitsForAPerson(t *testing.T) {
	onEveryStore(t, func(h *host) {
		h.serves(servesMessage("mail", once), servesMessage("loop", looped), servesWork("triaged", "1", once))
		stranded := h.strand(message("loop", looped))
		refused := h.rejected(work("triaged", once))
		unsure := h.unknown(message("mail", once))
		h.rejected(message("mail", once)) // certain: nobody needs to look
		h.put(message("mail", once))
		h.start(message("loop", looped)) // in flight, its lease runs
		want := []consign.Ref{stranded, refused, unsure}
		if got := h.review(); !slices.Equal(got, want) {
			h.Fatalf("review %v, want %v", got, want)
		}
		page, err := h.ann.Review(h.ctx, operator.ReviewFilter{})
		h.ok(err)
		if page.Next == "" && len(page.Entries) != 3 {
			h.Errorf("page of %d, next %q", len(page.Entries), page.Next)
		}
		for i, known := range []operator.Known{operator.KnownNothing, operator.KnownNot, operator.KnownNothing} {
			e := page.Entries[i]
			if e.Known != known || e.Means == "" || e.Do == "" || e.Content != nil || len(e.Choices) != 5 {
				h.Errorf("entry %d: %+v", i, e)
			}
		}
		e := page.Entries[1]
		if e.Status != consign.StatusReconciliationRequired || e.Code != consign.CodeRejected || len(e.Evidence) != 1 ||
			e.Evidence[0].Outcome != "rejected" || e.Evidence[0].StartedAt.IsZero() || e.Evidence[0].At.IsZero() || e.Program != "worker" {
			h.Errorf("rejected work: %+v", e)
		}
		if e := page.Entries[0]; !e.Stranded || !e.OwnerMayLive || e.Status != consign.StatusDelivering {
			h.Errorf("stranded: %+v", e)
		}
		if whole := h.show(unsure); whole.Content == nil || !strings.Contains(string(whole.Content.Payload), secret) || whole.Content.To != secret {
			h.Errorf("show has no content: %+v", whole.Content)
		}
		_, err = h.ann.Show(h.ctx, consign.NewRef())
		h.is("show of nothing", err, consign.ErrNotFound)
	})
}

// A finding is appended, leaves the status as it is, takes the intent out of review,
// and is corrected by another one only.
func TestFindingIsAppendedAndSuperseded(t *testing.T) {
	onEveryStore(t, func(h *host) {
		ref := h.unknown(message("mail", once))
		before := h.show(ref)
		first, err := h.ann.Resolve(h.ctx, ann, ref, operator.Finding{Outcome: operator.FoundNotDelivered, Evidence: "they have no such key"})
		h.ok(err)
		after := h.show(ref)
		if after.Status != before.Status || after.Code != before.Code || !after.Uncertain || after.Known != operator.KnownNothing {
			h.Errorf("a finding changed the status: %+v", after)
		}
		if after.Current == nil || *after.Current != first || first.By != "ann" || first.At.IsZero() || first.Evidence != "they have no such key" {
			h.Errorf("finding %+v, current %+v", first, after.Current)
		}
		if len(h.review()) != 0 {
			h.Error("what has a finding is still in review")
		}
		_, err = h.bob.Resolve(h.ctx, bob, ref, operator.Finding{Outcome: operator.FoundDelivered, Evidence: "it is there"})
		h.is("a second finding beside the first", err, operator.ErrChanged)
		_, err = h.bob.Resolve(h.ctx, bob, ref, operator.Finding{Outcome: operator.FoundDelivered, Evidence: "it is there", Supersedes: consign.ID(ref.ID)})
		h.is("a correction of another finding", err, operator.ErrChanged)
		second, err := h.bob.Resolve(h.ctx, bob, ref, operator.Finding{Outcome: operator.FoundDelivered, Evidence: "it is there", Supersedes: first.ID})
		h.ok(err)
		if got := h.show(ref); !slices.Equal(got.Resolutions, []operator.Resolution{first, second}) || *got.Current != second || second.Supersedes != first.ID {
			h.Errorf("findings %+v", got.Resolutions)
		}
	})
}

// There is something to find out only about what waits for it.
func TestFindingsAreAboutWhatIsInReview(t *testing.T) {
	onEveryStore(t, func(h *host) {
		f := operator.Finding{Outcome: operator.FoundAbandoned, Evidence: "nobody wants it"}
		pending := message("mail", once)
		h.put(pending)
		_, err := h.ann.Resolve(h.ctx, ann, refOf(pending), f)
		h.refusal("pending", err, "open")
		_, err = h.ann.Resolve(h.ctx, ann, h.start(message("loop", looped)), f)
		h.refusal("in flight", err, "open")
		delivered := h.start(message("mail", once))
		h.happen(delivered, is(lifecycle.EvSucceeded))
		_, err = h.ann.Resolve(h.ctx, ann, delivered, f)
		h.refusal("delivered", err, "success")
		_, err = h.ann.Resolve(h.ctx, ann, h.rejected(message("mail", once)), f)
		h.refusal("certain", err, "certain")
		_, err = h.ann.Resolve(h.ctx, ann, consign.NewRef(), f)
		h.is("unknown ref", err, consign.ErrNotFound)

		_, err = h.ann.Resolve(h.ctx, ann, h.rejected(work("triaged", once)), f)
		h.ok(err)
		stranded := h.strand(message("loop", looped))
		owner := h.record(stranded).State
		_, err = h.ann.Resolve(h.ctx, ann, stranded, f)
		h.ok(err)
		s := h.record(stranded).State
		if s.Status != lifecycle.Delivering || !s.Uncertain || s.Generation != owner.Generation+1 || s.Owner != (lifecycle.Token{}) {
			h.Errorf("stranded and resolved: %+v", s)
		}
		late := lifecycle.DefaultPolicy.Apply(s, lifecycle.Event{Kind: lifecycle.EvSucceeded, Owner: owner.Owner, Generation: owner.Generation, Attempt: 1})
		if late.Answer != lifecycle.Refuse {
			h.Errorf("its late owner is not fenced: %s", late.Answer)
		}
	})
}

// Of people who act on one intent at the same time one wins, and each other one is
// told so.
func TestOfTwoOperatorsOneWins(t *testing.T) {
	onEveryStore(t, func(h *host) {
		h.serves(servesMessage("mail", twice))
		found := func(o operator.Outcome) operator.Finding { return operator.Finding{Outcome: o, Evidence: "asked"} }
		for name, c := range map[string]struct {
			ref  func() consign.Ref
			acts []func(o *operator.Operator, by operator.By, ref consign.Ref) error
			also error // what a loser may be told as well, where the two acts differ
		}{
			"resolve and resolve": {
				ref: func() consign.Ref { return h.unknown(message("mail", once)) },
				acts: []func(o *operator.Operator, by operator.By, ref consign.Ref) error{
					func(o *operator.Operator, by operator.By, ref consign.Ref) error {
						_, err := o.Resolve(h.ctx, by, ref, found(operator.FoundDelivered))
						return err
					},
					func(o *operator.Operator, by operator.By, ref consign.Ref) error {
						_, err := o.Resolve(h.ctx, by, ref, found(operator.FoundNotDelivered))
						return err
					},
				},
			},
			"redeliver and redeliver": {
				ref: func() consign.Ref { return h.rejected(message("mail", once)) },
				acts: []func(o *operator.Operator, by operator.By, ref consign.Ref) error{
					redeliver(h), redeliver(h),
				},
			},
			"redeliver and reissue": {
				ref: func() consign.Ref { return h.rejected(message("mail", once)) },
				acts: []func(o *operator.Operator, by operator.By, ref consign.Ref) error{
					redeliver(h),
					func(o *operator.Operator, by operator.By, ref consign.Ref) error {
						_, err := o.Reissue(h.ctx, by, ref)
						return err
					},
				},
			},
			"cancel and cancel": {
				ref: func() consign.Ref { n := message("mail", once); h.put(n); return refOf(n) },
				acts: []func(o *operator.Operator, by operator.By, ref consign.Ref) error{
					cancel(h), cancel(h),
				},
			},
		} {
			for range 3 {
				ref := c.ref()
				errs := together(
					func() error { return c.acts[0](h.ann, ann, ref) },
					func() error { return c.acts[1](h.bob, bob, ref) },
				)
				won, told := 0, 0
				for _, err := range errs {
					switch {
					case err == nil:
						won++
					case errors.Is(err, operator.ErrChanged):
						told++
					}
				}
				if won != 1 || told != 1 {
					h.Errorf("%s: %v", name, errs)
				}
				rows, err := h.ann.Audit(h.ctx, operator.AuditFilter{Ref: ref})
				h.ok(err)
				if len(rows) != 1 {
					h.Errorf("%s: %d audit rows, want that of the winner alone", name, len(rows))
				}
			}
		}
	})
}

func redeliver(h *host) func(o *operator.Operator, by operator.By, ref consign.Ref) error {
	return func(o *operator.Operator, by operator.By, ref consign.Ref) error {
		_, err := o.Redeliver(h.ctx, by, ref)
		return err
	}
}

func cancel(h *host) func(o *operator.Operator, by operator.By, ref consign.Ref) error {
	return func(o *operator.Operator, by operator.By, ref consign.Ref) error {
		_, err := o.Cancel(h.ctx, by, ref)
		return err
	}
}

// What came late leads the entry where it answers the question, and becomes a finding
// only where somebody accepts it.
func TestLateEvidenceAnswersAndIsAccepted(t *testing.T) {
	onEveryStore(t, func(h *host) {
		ref := h.unknown(message("mail", once))
		_, err := h.ann.AcceptEvidence(h.ctx, ann, ref, consign.ID{})
		h.refusal("nothing came late", err, "late")
		h.late(ref, 7, lifecycle.Unknown)
		_, err = h.ann.AcceptEvidence(h.ctx, ann, ref, consign.ID{})
		h.refusal("what came late answers nothing", err, "late")
		h.late(ref, 1, lifecycle.Accepted)
		h.late(ref, 8, lifecycle.Refused)
		e := h.show(ref)
		if e.Answer != operator.FoundDelivered || !e.Evidence[0].Answers || e.Evidence[0].Outcome != "accepted" || e.Evidence[0].HTTPStatus != 201 {
			h.Errorf("evidence %+v, answer %q", e.Evidence, e.Answer)
		}
		if !e.Evidence[1].Late || !e.Evidence[2].Late || e.Evidence[3].Late {
			h.Errorf("what came late is not before the rest: %+v", e.Evidence)
		}
		if e.Known != operator.KnownNothing || len(h.review()) != 1 {
			h.Error("evidence became a finding by itself")
		}
		f, err := h.ann.AcceptEvidence(h.ctx, ann, ref, consign.ID{})
		h.ok(err)
		if f.Outcome != operator.FoundDelivered || f.Source != "late evidence" || !strings.Contains(f.Evidence, "accepted") {
			h.Errorf("finding %+v", f)
		}
		if got := h.show(ref); got.Status != consign.StatusFailed || len(h.review()) != 0 {
			h.Errorf("after: %+v", got.Summary)
		}
		_, err = h.bob.AcceptEvidence(h.ctx, bob, ref, consign.ID{})
		h.is("accepted twice", err, operator.ErrChanged)
	})
}
