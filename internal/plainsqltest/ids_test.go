package plainsqltest

import (
	"context"
	"time"

	"github.com/consign-go/consign"
)

func newID() string { return consign.NewRef().String() }

// ref is an id as the tables hold it.
func (b *base) ref(id string) any {
	ref, err := consign.ParseRef(id)
	if err != nil {
		panic(err)
	}
	if b.answers {
		return id
	}
	return ref.ID[:]
}

// deliverer is a program that knows the channel.
func deliverer(sent *int) *consign.Options {
	return &consign.Options{Channels: []consign.Channel{{
		Name: "crm", Retry: consign.OnSchedule, Idempotent: true, MaxAttempts: 5, MaxAge: time.Hour,
		Deliver: func(context.Context, consign.Message, consign.Attempt) error { *sent++; return nil },
	}}}
}
