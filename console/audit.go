package console

import (
	"context"
	"strconv"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/operator"
)

// auditData is a page of the audit.
type auditData struct {
	Rows  []operator.Audited
	Ref   string
	Next  string // query of the next page; empty: this is the last
	Wrong string
}

func (c *Console) audit(ctx context.Context, v *visit) (reply, error) {
	q := v.r.URL.Query()
	d := &auditData{Ref: q.Get("ref")}
	f := operator.AuditFilter{Limit: pageSize}
	var err error
	if d.Ref != "" {
		if f.Ref, err = consign.ParseRef(d.Ref); err != nil {
			d.Wrong = "That is no ref: 36 characters, such as 0190a2b4-…."
			return reply{status: 422, page: "audit", title: "Audit", data: d}, nil
		}
	}
	if s := q.Get("before"); s != "" {
		if f.Before, err = strconv.ParseInt(s, 10, 64); err != nil {
			f.Before = 0
		}
	}
	if d.Rows, err = c.operator.Audit(ctx, f); err != nil {
		return reply{}, err
	}
	if len(d.Rows) == pageSize {
		d.Next = "?before=" + strconv.FormatInt(d.Rows[pageSize-1].ID, 10)
		if d.Ref != "" {
			d.Next += "&ref=" + query(d.Ref)
		}
	}
	return reply{page: "audit", title: "Audit", data: d}, nil
}
