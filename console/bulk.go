package console

import (
	"context"
	"strconv"
	"strings"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/operator"
)

// bulkAccept is accepting late evidence, for many.
const bulkAccept operator.Action = "accept"

// maxBulk is how many intents are acted on at once.
const maxBulk = 200

// bulkData is a preview, or what became of it.
type bulkData struct {
	Act      operator.Action
	Title    string
	Says     string
	Possible []bulkRow
	Refused  []bulkRow
	Why      string
	Done     bool
}

// bulkRow is one intent of many.
type bulkRow struct {
	operator.Previewed
	Sent consign.Ref // the new intent; zero: none
	Text string      // what became of it
	OK   bool
}

var bulkTexts = map[operator.Action][2]string{
	operator.ActRedeliver: {"Redeliver", actionTexts[operator.ActRedeliver][1]},
	operator.ActReissue:   {"Reissue", actionTexts[operator.ActReissue][1]},
	bulkAccept:            {"Accept late evidence", "Records for each that it was delivered: a success was observed late, or its receiver signed that it executed it. Its status stays as it is."},
}

// may reports whether somebody may do act to many at once.
func mayBulk(v *visit, act operator.Action) error {
	if bulkTexts[act][0] == "" {
		return &consign.Error{Op: "bulk", Faults: []consign.Fault{{Field: "action", Rule: "choose one"}}, Err: consign.ErrInvalid}
	}
	needs := Resend
	if act == bulkAccept {
		needs = Resolve
	}
	if !v.may(needs) {
		return &consign.Error{Op: "bulk", Err: operatorRefused("your role does not allow it")}
	}
	return nil
}

type refusedText string

func operatorRefused(s string) error { return refusedText(s) }
func (s refusedText) Error() string  { return string(s) }
func (s refusedText) Unwrap() error  { return operator.ErrRefused }

// preview shows what would happen to each of those that were chosen, and does
// nothing.
func (c *Console) preview(ctx context.Context, v *visit) (reply, error) {
	act := operator.Action(v.r.PostFormValue("act"))
	if err := mayBulk(v, act); err != nil {
		return reply{}, err
	}
	var refs []consign.Ref
	for _, s := range v.r.PostForm["ref"] {
		ref, err := consign.ParseRef(s)
		if err != nil {
			return reply{}, err
		}
		refs = append(refs, ref)
	}
	if err := countOf(len(refs)); err != nil {
		return reply{}, err
	}
	rows, err := c.previewed(ctx, act, refs)
	if err != nil {
		return reply{}, err
	}
	d := &bulkData{Act: act, Title: bulkTexts[act][0], Says: bulkTexts[act][1]}
	for _, p := range rows {
		if p.Refused == "" {
			d.Possible = append(d.Possible, bulkRow{Previewed: p})
		} else {
			d.Refused = append(d.Refused, bulkRow{Previewed: p})
		}
	}
	return reply{page: "bulk", title: d.Title + ": preview", data: d}, nil
}

func countOf(n int) error {
	if n < 1 || n > maxBulk {
		return &consign.Error{Op: "bulk", Faults: []consign.Fault{{Field: "chosen", Rule: strconv.Itoa(n) + ", limit 1 to " + strconv.Itoa(maxBulk)}}, Err: consign.ErrInvalid}
	}
	return nil
}

func (c *Console) previewed(ctx context.Context, act operator.Action, refs []consign.Ref) ([]operator.Previewed, error) {
	if act != bulkAccept {
		return c.operator.Preview(ctx, act, refs)
	}
	var out []operator.Previewed
	for _, ref := range refs {
		e, err := c.operator.Show(ctx, ref)
		if err != nil {
			return nil, err
		}
		p := operator.Previewed{Ref: ref, Revision: e.Revision}
		switch {
		case e.Answer == "":
			p.Refused = "nothing in the log answers the question"
		case e.Current != nil:
			p.Refused = "there is a finding already"
		}
		out = append(out, p)
	}
	return out, nil
}

// confirm does what was previewed, to those that have not changed since.
func (c *Console) confirm(ctx context.Context, v *visit) (reply, error) {
	act := operator.Action(v.r.PostFormValue("act"))
	if err := mayBulk(v, act); err != nil {
		return reply{}, err
	}
	var seen []operator.Previewed
	for _, s := range v.r.PostForm["seen"] {
		text, revision, _ := strings.Cut(s, "@")
		ref, err := consign.ParseRef(text)
		if err != nil {
			return reply{}, err
		}
		n, err := strconv.ParseInt(revision, 10, 64)
		if err != nil {
			return reply{}, &consign.Error{Op: "bulk", Faults: []consign.Fault{{Field: "seen", Rule: "is not what the preview made"}}, Err: consign.ErrInvalid}
		}
		seen = append(seen, operator.Previewed{Ref: ref, Revision: n})
	}
	if err := countOf(len(seen)); err != nil {
		return reply{}, err
	}
	results, err := c.confirmed(ctx, v.by(), act, seen)
	if err != nil && len(results) == 0 {
		return reply{}, err
	}
	d := &bulkData{Act: act, Title: bulkTexts[act][0], Done: true}
	for i, r := range results {
		row := bulkRow{Previewed: r.Previewed, Sent: r.Sent.Ref, OK: r.Err == nil, Text: "done"}
		if r.Err != nil {
			row.Text = said(r.Err)
			if n, _ := refusal(r.Err); n == nil {
				c.o.Logger.Error("console: one of many failed", "action", act, "ref", r.Ref, "err", r.Err)
				row.Text = "it did not work, and whether it was done is not known: look before you repeat it"
			}
		} else if r.Sent.Warning != "" {
			row.Text = "done; " + r.Sent.Warning
		}
		d.Possible = append(d.Possible, row)
		seen[i].Refused = "reached"
	}
	for _, p := range seen {
		if p.Refused == "" {
			d.Refused = append(d.Refused, bulkRow{Previewed: p, Text: "not reached, nothing was done"})
		}
	}
	return reply{page: "bulk", title: d.Title + ": done", data: d}, nil
}

func (c *Console) confirmed(ctx context.Context, by operator.By, act operator.Action, seen []operator.Previewed) ([]operator.Confirmed, error) {
	if act != bulkAccept {
		return c.operator.Confirm(ctx, by, act, seen)
	}
	var out []operator.Confirmed
	for _, p := range seen {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		e, err := c.operator.Show(ctx, p.Ref)
		if err == nil && e.Revision != p.Revision {
			err = operator.ErrChanged
		}
		if err == nil {
			_, err = c.operator.AcceptEvidence(ctx, by, p.Ref, consign.ID{})
		}
		out = append(out, operator.Confirmed{Previewed: p, Err: err})
	}
	return out, nil
}
