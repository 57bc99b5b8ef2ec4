package console

import (
	"context"
	"errors"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/operator"
)

// reviewData is one intent of the queue, with its evidence.
type reviewData struct {
	Entry   *operator.Entry // nil: the queue is at its end
	Actions []action
	After   string // cursor of this place
	Next    string // cursor of the next; empty: there is none
	Waiting string // how many wait, as last counted
	Resolve bool   // it can be resolved, by this person
	Why     string // why it cannot
}

func (c *Console) review(ctx context.Context, v *visit) (reply, error) {
	q := v.r.URL.Query()
	d := reviewData{After: q.Get("after")}
	page, err := c.operator.Review(ctx, operator.ReviewFilter{Limit: 1, After: d.After})
	if err != nil {
		return reply{}, err
	}
	s, err := c.snapshot(ctx)
	if err != nil {
		return reply{}, err
	}
	d.Waiting, d.Next = counted(s.Review, s.ReviewCapped), page.Next
	if len(page.Entries) > 0 {
		d.Entry = &page.Entries[0]
		d.Actions = c.actions(v, d.Entry)
		for _, a := range d.Actions {
			if a.Name == operator.ActResolve {
				d.Resolve, d.Why = a.Refused == "", a.Refused
			}
		}
	} else if page.Next != "" { // it was decided while the list was read
		return reply{to: "/review?after=" + query(page.Next)}, nil
	}
	n, err := c.doneTo(ctx, v, q.Get("was"), q.Get("done"))
	if err != nil {
		return reply{}, err
	}
	return reply{page: "review", title: "Review", data: &d, notice: n}, nil
}

// doneTo is what became of the intent that was here before; nil: nothing.
func (c *Console) doneTo(ctx context.Context, v *visit, was, what string) (*notice, error) {
	ref, err := consign.ParseRef(was)
	if err != nil {
		return nil, nil
	}
	e, err := c.operator.Show(ctx, ref)
	switch {
	case errors.Is(err, consign.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case !happened(&e, v.who.Name, what):
		return nil, nil
	}
	n := done(what)
	n.Link, n.Name = "/intents/"+ref.String(), "Open it, to send it again or to correct this"
	return n, nil
}

// queueData is the whole queue as a list.
type queueData struct {
	Entries []operator.Entry
	Next    string
	First   bool
}

func (c *Console) reviewAll(ctx context.Context, v *visit) (reply, error) {
	after := v.r.URL.Query().Get("after")
	page, err := c.operator.Review(ctx, operator.ReviewFilter{Limit: pageSize, After: after})
	if err != nil {
		return reply{}, err
	}
	return reply{page: "queue", title: "Review, as a list", data: &queueData{page.Entries, page.Next, after == ""}}, nil
}
