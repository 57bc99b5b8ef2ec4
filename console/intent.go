package console

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/operator"
)

// intentData is what the page of one intent shows.
type intentData struct {
	operator.Entry
	Timeline []event
	Actions  []action
	Content  *operator.Content // nil: not asked for
	HasMore  bool              // there is content that can be asked for
	Audit    []operator.Audited
	Typed    typed
}

// typed is what was written into a form that was not accepted.
type typed struct{ Outcome, Evidence, Proof, Why string }

// event is something that happened to an intent.
type event struct {
	At    time.Time
	What  standing
	More  string
	Error string
	Proof string
	By    string
	Ref   consign.Ref // of another intent of the chain; zero: of this one
	Late  bool
	order int
}

// action is what may be done, or why not.
type action struct {
	Name    operator.Action
	Title   string
	Says    string
	Refused string
	Warning string
}

var actionTexts = map[operator.Action][2]string{
	operator.ActResolve:   {"Record what you found", "It takes the intent out of review. Its status stays as it is. A wrong finding can be corrected by another; both stay."},
	operator.ActProve:     {"Hand in a proof", "What the receiver signed is checked by the keys of its channel, against the delivery key and the bound request, and is then the finding that it was delivered. What does not hold changes nothing."},
	operator.ActRedeliver: {"Redeliver", "Creates a new intent under the same delivery key: a far side that drops repeated keys takes it for the same."},
	operator.ActReissue:   {"Reissue", "Creates a new intent under a fresh delivery key: to the far side it is something new."},
	operator.ActCancel:    {"Cancel", "Stops it before it is started again. What was started cannot be recalled."},
}

var actionNeeds = map[operator.Action]Permission{
	operator.ActResolve: Resolve, operator.ActProve: Resolve, operator.ActRedeliver: Resend, operator.ActReissue: Resend, operator.ActCancel: Cancel,
}

// actions are what v may do about e, and why not the others.
func (c *Console) actions(v *visit, e *operator.Entry) (out []action) {
	for _, ch := range e.Choices {
		a := action{ch.Action, actionTexts[ch.Action][0], actionTexts[ch.Action][1], ch.Refused, ch.Warning}
		if a.Refused == "" && ch.Action == operator.ActProve && c.o.Proofs == nil {
			a.Refused = "this console knows no keys to check proofs with"
		}
		if a.Refused == "" && !v.may(actionNeeds[ch.Action]) {
			a.Refused = "your role does not allow it"
		}
		out = append(out, a)
	}
	return out
}

// refOf reads the ref in the path.
func refOf(v *visit) (consign.Ref, error) {
	ref, err := consign.ParseRef(v.r.PathValue("ref"))
	if err != nil {
		return consign.Ref{}, &consign.Error{Op: "show", Err: consign.ErrNotFound}
	}
	return ref, nil
}

func (c *Console) intent(ctx context.Context, v *visit) (reply, error) {
	ref, err := refOf(v)
	if err != nil {
		return reply{}, err
	}
	r, err := c.showIntent(ctx, v, ref, nil)
	if what := v.r.URL.Query().Get("done"); err == nil && happened(&r.data.(*intentData).Entry, v.who.Name, what) {
		r.notice = done(what)
	}
	return r, err
}

// happened reports whether what an address says was done to an intent is to be seen
// there: anybody can make an address, and the person who opens it would believe it.
func happened(e *operator.Entry, who, what string) bool {
	switch what {
	case "resolve", "accept":
		return e.Current != nil && e.Current.By == who
	case "prove":
		return e.Current != nil && e.Current.By == who && e.Current.Source == "proof"
	case "redeliver", "reissue":
		return slices.ContainsFunc(e.Chain, func(l operator.Link) bool {
			return l.Ref == e.Ref && l.How == strings.Replace(what, "deliver", "delivery", 1)
		})
	case "cancel":
		return e.Code == consign.CodeCancelledByOperator
	}
	return false
}

// done is what became of the action that led here. Only these texts can be asked for.
func done(what string) *notice {
	text := map[string]string{
		"resolve": "Your finding is recorded.", "accept": "The evidence is recorded as the finding.", "prove": "The proof holds and is recorded as the finding.",
		"redeliver": "It is sent again under the same delivery key; this is the new intent.",
		"reissue":   "It is sent again under a fresh delivery key; this is the new intent.",
		"cancel":    "It is stopped. See below what it is now.", "pause": "It is paused. Running programs heed it within two seconds.",
		"resume": "It is resumed.", "confirm": "The approval is confirmed. One run may use it.", "dismiss": "The approval is dismissed.",
	}[what]
	if text == "" {
		return nil
	}
	return &notice{Kind: "done", Text: text}
}

func (c *Console) showIntent(ctx context.Context, v *visit, ref consign.Ref, content *operator.Content) (reply, error) {
	e, err := c.operator.Show(ctx, ref)
	if err != nil {
		return reply{}, err
	}
	audit, err := c.operator.Audit(ctx, operator.AuditFilter{Ref: ref, Limit: 20})
	if err != nil {
		return reply{}, err
	}
	hasContent := e.Content != nil
	e.Content = nil // shown to whom it may be, once that is audited
	return reply{page: "intent", title: "Intent " + ref.String(), data: &intentData{
		Entry: e, Timeline: timeline(&e, audit), Actions: c.actions(v, &e), Content: content, HasMore: hasContent, Audit: audit,
	}}, nil
}

// timeline is everything that is known to have happened, the newest first.
func timeline(e *operator.Entry, audit []operator.Audited) (out []event) {
	add := func(ev event) {
		if !ev.At.IsZero() {
			ev.order = len(out)
			out = append(out, ev)
		}
	}
	add(event{At: e.CreatedAt, What: standing{"+", "calm", "created, committed with its transaction"}})
	logged := map[time.Time]bool{}
	for _, l := range e.Evidence {
		other := l.Ref
		if other == e.Ref {
			other = consign.Ref{}
		}
		attempt := "claim " + thousands(int(l.Generation)) + ", attempt " + thousands(l.Number)
		if !l.StartedAt.IsZero() && l.Outcome != "crashed" {
			add(event{At: l.StartedAt, What: standing{"▸", "calm", "started"}, More: attempt, Ref: other})
			logged[l.StartedAt] = other.IsZero()
		}
		more := attempt
		if l.Proof != "" {
			more += ", signed by the receiver"
		}
		if l.HTTPStatus != 0 {
			more += ", HTTP " + thousands(l.HTTPStatus)
		}
		if l.Code != "" {
			more += ", " + string(l.Code)
		}
		add(event{At: l.At, What: outcomeText(l), More: more, Error: l.Error, Proof: l.Proof, Ref: other, Late: l.Late})
	}
	if !logged[e.StartedAt] {
		add(event{At: e.StartedAt, What: standing{"▸", "calm", "started"}, More: "claim " + thousands(int(e.Generation)) + by(e.Program)})
	}
	if e.Known == operator.KnownDelivered || isEnd(e.Status) && len(e.Evidence) == 0 { // nothing else tells of its end
		add(event{At: e.UpdatedAt, What: standingOf(e.Summary), More: "the last change of its state"})
	}
	for _, r := range e.Resolutions {
		add(event{At: r.At, What: standing{"✎", "note", foundText(r.Outcome)}, More: "finding from " + r.Source, Error: r.Evidence, By: r.By})
	}
	for _, a := range audit {
		if a.Action != "resolve" {
			add(event{At: a.At, What: standing{"✎", "note", a.Action}, More: a.Why, By: a.By})
		}
	}
	add(event{At: e.ErasedAt, What: standing{"⌫", "calm", "erased: what it said is gone"}})
	slices.SortStableFunc(out, func(a, b event) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.order, a.order)) })
	return out
}

func by(program string) string {
	if program == "" {
		return ""
	}
	return " by program " + program
}

// who is the person, with the reason of the form.
func (v *visit) by() operator.By {
	return operator.By{Who: v.who.Name, Why: v.r.PostFormValue("why")}
}

func isInvalid(err error) bool { return errors.Is(err, consign.ErrInvalid) }

// told turns what an action refused into the page of the intent as it is now, with
// what was said; another error stays one.
func (c *Console) told(ctx context.Context, v *visit, ref consign.Ref, err error) (reply, error) {
	n, status := refusal(err)
	if n == nil {
		return reply{}, err
	}
	r, showErr := c.showIntent(ctx, v, ref, nil)
	if showErr != nil {
		return reply{}, err
	}
	if e := &r.data.(*intentData).Entry; errors.Is(err, operator.ErrChanged) && e.Current != nil && e.Current.By == v.who.Name {
		n.Text = "It has a finding of yours already: " + said(err) + ". Nothing more was written." // sent twice, or from another window
	}
	r.notice, r.status = n, status
	form := v.r.PostForm
	r.data.(*intentData).Typed = typed{form.Get("outcome"), form.Get("evidence"), form.Get("proof"), form.Get("why")}
	return r, nil
}

// refusal is what to tell about an action that was not carried out; nil: the error is
// another.
func refusal(err error) (*notice, int) {
	switch {
	case errors.Is(err, operator.ErrChanged):
		return &notice{Kind: "refused", Text: "Somebody else was first: " + said(err) + ". Nothing was written. This is how it stands now; decide again."}, http.StatusConflict
	case errors.Is(err, operator.ErrRefused):
		return &notice{Kind: "refused", Text: "Not possible: " + said(err) + ". Nothing was written."}, http.StatusConflict
	case isInvalid(err):
		return &notice{Kind: "refused", Text: "Something is missing or too long: " + said(err) + ". Nothing was written."}, http.StatusUnprocessableEntity
	case errors.Is(err, consign.ErrUnconfirmed):
		return &notice{Kind: "refused", Text: "The database did not confirm. Whether it was done is not known: see below before you repeat it."}, http.StatusServiceUnavailable
	}
	return nil, 0
}
