package operator_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver/memory"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/operator"
)

// Every code has its own meaning and its own answer, and none calls the unknown
// unsent.
func TestEveryCodeHasAdvice(t *testing.T) {
	seen := map[string]lifecycle.Code{}
	unknown := operator.Advice("NOT_A_CODE")
	for _, code := range lifecycle.Codes {
		a := operator.Advice(code)
		if a == unknown || a.Means == "" || a.Do == "" {
			t.Errorf("%s has no advice", code)
		}
		if other, twice := seen[a.Means]; twice {
			t.Errorf("%s and %s mean the same", code, other)
		}
		seen[a.Means] = code
	}
	for _, word := range []string{"not delivered.", "unsent", "was not sent"} {
		if strings.Contains(operator.Advice(consign.CodeOutcomeUnknown).Means, word) {
			t.Errorf("an unknown outcome is called %q", word)
		}
	}
}

// Whatever the code, an outcome that nobody knows is shown as unknown, in every status
// in which it can be stored, and until somebody has found out the advice begins with that.
func TestUnknownIsNeverCalledNotDelivered(t *testing.T) {
	onEveryStore(t, func(h *host) {
		refs := []consign.Ref{
			h.unknown(message("mail", once)), h.unknown(work("triaged", once)), h.strand(message("loop", looped)),
		}
		resolved := h.strand(message("loop", looped))
		_, err := h.ann.Resolve(h.ctx, ann, resolved, operator.Finding{Outcome: operator.FoundAbandoned, Evidence: "nobody knows"})
		h.ok(err)
		back := h.start(message("mail", twice))
		h.happen(back, is(lifecycle.EvUnknown))
		refs = append(refs, resolved, back)
		for _, code := range []lifecycle.Code{lifecycle.DeadlineExpired, lifecycle.AttemptsExhausted, lifecycle.OutcomeRejected, lifecycle.AuthorityRevoked, lifecycle.CancelledByOperator} {
			ref := h.unknown(work("triaged", once))
			h.exec("UPDATE {s}delivery SET code = '"+string(code)+"' WHERE ref = $1", ref.ID)
			refs = append(refs, ref)
		}
		for _, ref := range refs {
			e := h.show(ref)
			if e.Known != operator.KnownNothing || !e.Uncertain {
				h.Errorf("%s %s is shown as %q", e.Status, e.Code, e.Known)
			}
			if e.Status != consign.StatusPending && e.Current == nil && !strings.Contains(e.Do, "far side") {
				h.Errorf("%s %s: the advice is %q", e.Status, e.Code, e.Do)
			}
			for _, c := range e.Choices {
				if c.Refused != "" && strings.Contains(c.Refused, "not delivered") {
					h.Errorf("%s %s: %s is refused with %q", e.Status, e.Code, c.Action, c.Refused)
				}
			}
		}
	})
}

// Bad arguments are told all at once, with field and limit, and nothing happens.
func TestBadArgumentsAreToldAllAtOnce(t *testing.T) {
	s := memory.New()
	o, err := operator.New(s)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 5000)
	ctx, nobody := t.Context(), operator.By{Who: "", Why: long}
	for name, c := range map[string]struct {
		call   func() error
		fields []string
	}{
		"resolve": {func() error {
			_, err := o.Resolve(ctx, nobody, consign.Ref{}, operator.Finding{Outcome: "maybe", Evidence: long})
			return err
		}, []string{"by.who", "by.why", "ref", "evidence", "outcome"}},
		"accept": {func() error { _, err := o.AcceptEvidence(ctx, nobody, consign.Ref{}, consign.ID{}); return err }, []string{"by.who", "by.why", "ref"}},
		"redeliver": {func() error {
			_, err := o.Redeliver(ctx, operator.By{Who: " ", Why: "\x00"}, consign.Ref{})
			return err
		}, []string{"by.who", "by.why", "ref"}},
		"cancel": {func() error { _, err := o.Cancel(ctx, nobody, consign.Ref{}); return err }, []string{"by.who", "by.why", "ref"}},
		"pause":  {func() error { return o.Pause(ctx, nobody, "letters", "") }, []string{"by.who", "by.why", "profile", "kind"}},
		"resume": {func() error { return o.Resume(ctx, nobody, "", "späť") }, []string{"by.who", "by.why", "profile", "kind"}},
		"prune":  {func() error { _, err := o.Prune(ctx, nobody, "letters", time.Time{}); return err }, []string{"by.who", "by.why", "profile", "before"}},
		"erase":  {func() error { _, err := o.Erase(ctx, nobody, []string{"a", long}); return err }, []string{"by.who", "by.why", "subjects[1]"}},
		"review": {func() error { _, err := o.Review(ctx, operator.ReviewFilter{Limit: 201, After: "x"}); return err }, []string{"limit", "after"}},
		"list": {func() error {
			_, err := o.List(ctx, operator.Filter{
				Status: []consign.Status{"lost"}, Profile: "letters", Kind: long, Code: "WHY", Subject: long, Limit: -1, After: "{}",
				Since: time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC),
			})
			return err
		}, []string{"status", "profile", "kind", "code", "subject", "limit", "after", "since"}},
		"count":   {func() error { _, err := o.Count(ctx, -1); return err }, []string{"most"}},
		"audit":   {func() error { _, err := o.Audit(ctx, operator.AuditFilter{Limit: 2000, Before: -1}); return err }, []string{"limit", "before"}},
		"preview": {func() error { _, err := o.Preview(ctx, "burn", make([]consign.Ref, 1001)); return err }, []string{"action", "refs"}},
		"show":    {func() error { _, err := o.Show(ctx, consign.Ref{}); return err }, []string{"ref"}},
	} {
		var e *consign.Error
		if err := c.call(); !errors.Is(err, consign.ErrInvalid) || !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, field := range c.fields {
			found := false
			for _, f := range e.Faults {
				found = found || f.Field == field
			}
			if !found {
				t.Errorf("%s: nothing about %s in %v", name, field, e)
			}
		}
	}
	rows, err := s.Rows("audit")
	if err != nil || len(rows) != 0 {
		t.Errorf("%d audit rows, %v", len(rows), err)
	}
	if _, err := operator.New[*memory.Tx](nil); !errors.Is(err, consign.ErrInvalid) {
		t.Errorf("a nil store: %v", err)
	}
}

// The guide for operators has a row for every code.
func TestEveryCodeIsInTheGuide(t *testing.T) {
	guide, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range lifecycle.Codes {
		if !strings.Contains(string(guide), "| `"+string(code)+"` | ") {
			t.Errorf("%s has no row", code)
		}
	}
}

// TestAdviceHeedsWhatWasDone: who looks after somebody else has found out, or has sent
// it again, is not told to do that once more.
func TestAdviceHeedsWhatWasDone(t *testing.T) {
	onEveryStore(t, func(h *host) {
		says := func(ref consign.Ref, want string) {
			h.Helper()
			if e := h.show(ref); !strings.Contains(e.Do, want) || want != "far side" && strings.Contains(e.Do, "far side") {
				h.Errorf("%s: the advice is %q, want %q", e.Status, e.Do, want)
			}
		}
		ref := h.unknown(message("mail", once))
		says(ref, "far side")
		_, err := h.ann.Resolve(h.ctx, ann, ref, operator.Finding{Outcome: operator.FoundNotDelivered, Evidence: "nothing in their log"})
		h.ok(err)
		says(ref, "Reissue it if it is still wanted")
		_, err = h.ann.Reissue(h.ctx, ann, ref)
		h.ok(err)
		says(ref, "sent again")

		for _, found := range []operator.Outcome{operator.FoundDelivered, operator.FoundAbandoned} {
			ref := h.unknown(message("mail", once))
			_, err := h.ann.Resolve(h.ctx, ann, ref, operator.Finding{Outcome: found, Evidence: "seen"})
			h.ok(err)
			says(ref, "Nothing")
		}
	})
}
