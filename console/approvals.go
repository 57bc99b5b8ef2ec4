package console

import (
	"context"
	"errors"
	"net/http"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/approval"
)

// approvalsData is a page of the open approvals.
type approvalsData struct {
	Open []approval.Approval
	Next string
}

func (c *Console) openApprovals(ctx context.Context, v *visit) (reply, error) {
	list, next, err := c.approvals.Open(ctx, approval.Query{Limit: pageSize, After: approval.Cursor(v.r.URL.Query().Get("after"))})
	if err != nil {
		return reply{}, err
	}
	return reply{page: "approvals", title: "Approvals", data: &approvalsData{list, string(next)}, notice: done(v.r.URL.Query().Get("done"))}, nil
}

// approvalData is one approval.
type approvalData struct {
	approval.Approval
	Input  string // empty: not shown
	Hidden bool   // there is an input, and it is not shown
	Own    bool   // proposed by whoever looks
	Why    string
}

func (c *Console) approval(ctx context.Context, v *visit) (reply, error) {
	id, err := consign.ParseID(v.r.PathValue("id"))
	if err != nil {
		return reply{}, &consign.Error{Op: "show", Err: consign.ErrNotFound}
	}
	a, err := c.approvals.Find(ctx, id)
	if err != nil {
		return reply{}, err
	}
	d := &approvalData{Approval: a, Hidden: len(a.Input) > 0, Own: a.Proposer == v.who.entity()}
	d.Approval.Input = nil
	return reply{page: "approval", title: "Approval " + id.String(), data: d}, nil
}

// approvalInput shows what an approval asks for, once it is in the audit that it was
// shown.
func (c *Console) approvalInput(ctx context.Context, v *visit) (reply, error) {
	r, err := c.approval(ctx, v)
	if err != nil {
		return reply{}, err
	}
	d := r.data.(*approvalData)
	by := v.by()
	if by.Why == "" {
		by.Why = "to decide about the approval"
	}
	if err := c.operator.NoteApprovalRead(ctx, by, d.ID); err != nil {
		return reply{}, err
	}
	a, err := c.approvals.Find(ctx, d.ID)
	if err != nil {
		return reply{}, err
	}
	d.Approval, d.Input, d.Hidden = a, string(a.Input), false
	return r, nil
}

func (c *Console) confirmApproval(ctx context.Context, v *visit) (reply, error) {
	return c.decide(ctx, v, "confirm", c.approvals.Confirm)
}

func (c *Console) dismissApproval(ctx context.Context, v *visit) (reply, error) {
	return c.decide(ctx, v, "dismiss", c.approvals.Dismiss)
}

// decided says what became of an approval that cannot be decided any more.
var decided = map[consign.Code]string{
	consign.CodeApprovalConfirmed: "it was confirmed already", consign.CodeApprovalDismissed: "it was dismissed already",
	consign.CodeApprovalConsumed: "a run has used it already", consign.CodeApprovalExpired: "its time is over",
	consign.CodeApprovalSelfConfirmed: "whoever proposed it may not confirm it",
}

func (c *Console) decide(ctx context.Context, v *visit, what string,
	set func(context.Context, approval.Decision) (approval.Approval, error)) (reply, error) {
	r, err := c.approval(ctx, v) // read for its tenant
	if err != nil {
		return reply{}, err
	}
	d := r.data.(*approvalData)
	d.Why = v.r.PostFormValue("why")
	_, err = set(ctx, approval.Decision{Approval: d.ID, Tenant: d.Tenant, By: v.who.entity(), Reason: lines(d.Why)})
	if err == nil {
		return reply{to: "/approvals?done=" + what}, nil
	}
	var own *consign.Error
	n, status := refusal(err)
	if errors.As(err, &own) && decided[own.Code] != "" {
		n, status = &notice{Kind: "refused", Text: "Not possible: " + decided[own.Code] + ". Nothing was written."}, http.StatusConflict
	}
	if n == nil {
		return reply{}, err
	}
	if r, err = c.approval(ctx, v); err != nil { // as it is now
		return reply{}, err
	}
	r.data.(*approvalData).Why = d.Why
	r.notice, r.status = n, status
	return r, nil
}
