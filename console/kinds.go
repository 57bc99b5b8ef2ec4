package console

import (
	"context"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/operator"
)

// kindsData is what the page of kinds and channels shows.
type kindsData struct {
	Kinds []kindRow
	Typed typed
}

func (c *Console) kinds(ctx context.Context, v *visit) (reply, error) {
	s, err := c.snapshot(ctx)
	if err != nil {
		return reply{}, err
	}
	return reply{
		page: "kinds", title: "Kinds and channels", data: &kindsData{Kinds: s.kinds()}, notice: done(v.r.URL.Query().Get("done")),
	}, nil
}

func (c *Console) pause(ctx context.Context, v *visit) (reply, error) {
	return c.setPause(ctx, v, "pause", c.operator.Pause)
}

func (c *Console) resume(ctx context.Context, v *visit) (reply, error) {
	return c.setPause(ctx, v, "resume", c.operator.Resume)
}

func (c *Console) setPause(ctx context.Context, v *visit, what string,
	set func(context.Context, operator.By, consign.Profile, string) error) (reply, error) {
	err := set(ctx, v.by(), consign.Profile(v.r.PostFormValue("profile")), v.r.PostFormValue("kind"))
	if err == nil {
		return reply{to: "/kinds?done=" + what}, nil
	}
	n, status := refusal(err)
	if n == nil {
		return reply{}, err
	}
	c.shared.forget()
	r, showErr := c.kinds(ctx, v)
	if showErr != nil {
		return reply{}, err
	}
	r.notice, r.status = n, status
	return r, nil
}
