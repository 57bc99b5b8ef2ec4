package console

import (
	"context"
	"strings"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/operator"
)

// lines makes the line ends of a form those of everything else (RFC 7578 leaves them
// to browsers, which send carriage returns).
func lines(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

// supersedes is the finding that the form corrects; the zero ID: none.
func supersedes(v *visit) (consign.ID, error) {
	s := v.r.PostFormValue("supersedes")
	if s == "" {
		return consign.ID{}, nil
	}
	return consign.ParseID(s)
}

func (c *Console) resolve(ctx context.Context, v *visit) (reply, error) {
	ref, err := refOf(v)
	if err != nil {
		return reply{}, err
	}
	form := v.r.PostForm
	f := operator.Finding{Outcome: operator.Outcome(form.Get("outcome")), Evidence: lines(form.Get("evidence"))}
	if f.Supersedes, err = supersedes(v); err != nil {
		return reply{}, err
	}
	if _, err := c.operator.Resolve(ctx, v.by(), ref, f); err != nil {
		return c.told(ctx, v, ref, err)
	}
	return after(v, ref, "resolve"), nil
}

func (c *Console) accept(ctx context.Context, v *visit) (reply, error) {
	ref, err := refOf(v)
	if err != nil {
		return reply{}, err
	}
	wrong, err := supersedes(v)
	if err != nil {
		return reply{}, err
	}
	if _, err := c.operator.AcceptEvidence(ctx, v.by(), ref, wrong); err != nil {
		return c.told(ctx, v, ref, err)
	}
	return after(v, ref, "accept"), nil
}

// prove takes a proof that somebody got from the receiver.
func (c *Console) prove(ctx context.Context, v *visit) (reply, error) {
	ref, err := refOf(v)
	if err != nil {
		return reply{}, err
	}
	s := operator.Signed{Proof: v.r.PostFormValue("proof")}
	if s.Supersedes, err = supersedes(v); err != nil {
		return reply{}, err
	}
	if _, err := c.operator.AcceptProof(ctx, v.by(), ref, s, c.o.Proofs); err != nil {
		return c.told(ctx, v, ref, err)
	}
	return after(v, ref, "prove"), nil
}

// after is where to go on after a finding: back into the queue where one came from
// there, unless the intent itself is asked for.
func after(v *visit, ref consign.Ref, what string) reply {
	if v.r.PostForm.Get("from") == "review" && v.r.PostForm.Get("then") != "open" {
		return reply{to: "/review?done=" + what + "&was=" + ref.String() + "&after=" + query(v.r.PostForm.Get("after"))}
	}
	return reply{to: "/intents/" + ref.String() + "?done=" + what}
}

func (c *Console) redeliver(ctx context.Context, v *visit) (reply, error) {
	return c.send(ctx, v, operator.ActRedeliver, c.operator.Redeliver)
}

func (c *Console) reissue(ctx context.Context, v *visit) (reply, error) {
	return c.send(ctx, v, operator.ActReissue, c.operator.Reissue)
}

func (c *Console) send(ctx context.Context, v *visit, act operator.Action,
	again func(context.Context, operator.By, consign.Ref) (operator.Sent, error)) (reply, error) {
	ref, err := refOf(v)
	if err != nil {
		return reply{}, err
	}
	sent, err := again(ctx, v.by(), ref)
	if err != nil {
		return c.told(ctx, v, ref, err)
	}
	return reply{to: "/intents/" + sent.Ref.String() + "?done=" + string(act)}, nil
}

func (c *Console) cancel(ctx context.Context, v *visit) (reply, error) {
	ref, err := refOf(v)
	if err != nil {
		return reply{}, err
	}
	if _, err := c.operator.Cancel(ctx, v.by(), ref); err != nil {
		return c.told(ctx, v, ref, err)
	}
	return reply{to: "/intents/" + ref.String() + "?done=cancel"}, nil
}

// content shows what an intent says, once it is in the audit that it was shown.
func (c *Console) content(ctx context.Context, v *visit) (reply, error) {
	ref, err := refOf(v)
	if err != nil {
		return reply{}, err
	}
	content, err := c.operator.ReadContent(ctx, v.by(), ref)
	if err != nil {
		return c.told(ctx, v, ref, err)
	}
	return c.showIntent(ctx, v, ref, &content)
}
