package reply_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/driver/memory"
	"github.com/consign-go/consign/reply"
)

// What a mark told is not forgotten where it could not be written down and the sender
// goes on with another one.
func TestUnconfirmedMarkIsMadeUpForByTheNext(t *testing.T) {
	timeout := errors.New("timed out") // it may have arrived
	type mark = func(ctx context.Context, c *reply.Claim) (reply.Record, error)
	attempt := func(err error) mark {
		return func(ctx context.Context, c *reply.Claim) (reply.Record, error) { return c.RecordAttempt(ctx, err) }
	}
	failed := func(err error) mark {
		return func(ctx context.Context, c *reply.Claim) (reply.Record, error) { return c.MarkFailed(ctx, err) }
	}
	delivered := func(ctx context.Context, c *reply.Claim) (reply.Record, error) { return c.MarkDelivered(ctx) }
	type end struct {
		status    consign.Status
		attempts  int
		uncertain bool
		last      string
		fenced    bool
	}
	for name, c := range map[string]struct {
		first, second mark
		lost, written end // where the first was cut off, and where only its answer was
	}{
		"unknown, refused":   {attempt(timeout), attempt(busy), end{"delivering", 2, true, "refused: status 503", false}, end{"delivering", 2, true, "refused: status 503", false}},
		"refused, unknown":   {attempt(busy), attempt(timeout), end{"delivering", 2, true, "timed out", false}, end{"delivering", 2, true, "timed out", false}},
		"unknown, failed":    {attempt(timeout), failed(nil), end{"failed", 1, true, "timed out", false}, end{"failed", 1, true, "timed out", false}},
		"unknown, delivered": {attempt(timeout), delivered, end{"delivered", 2, false, "", false}, end{"delivered", 2, false, "", false}},
		"delivered, failed":  {delivered, failed(timeout), end{"delivered", 1, false, "", true}, end{"delivered", 1, false, "", true}},
		"delivered, refused": {delivered, attempt(busy), end{"delivered", 1, false, "", true}, end{"delivered", 1, false, "", true}},
		"failed, delivered":  {failed(timeout), delivered, end{"delivered", 1, false, "", false}, end{"failed", 0, true, "timed out", true}},
		"failed, refused":    {failed(timeout), attempt(busy), end{"failed", 0, true, "timed out", true}, end{"failed", 0, true, "timed out", true}},
	} {
		for _, carriedOut := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, carried out %t", name, carriedOut), func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *memoryStore, out *reply.Outbox[*memory.Tx], id consign.Ref) {
					claim, won, err := out.Claim(t.Context(), id)
					if err != nil || !won {
						t.Fatal(won, err)
					}
					s.fail(1000, carriedOut)
					s.load = func(context.Context, []driver.ID) ([]driver.Record, error) { return nil, errDown }
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					if _, err := c.first(ctx, claim); !errors.Is(err, consign.ErrUnconfirmed) {
						t.Fatalf("during the outage: %v", err)
					}
					s.apply, s.load = nil, nil
					want := c.lost
					if carriedOut {
						want = c.written
					}
					_, err = c.second(t.Context(), claim)
					r, _, _ := out.Find(t.Context(), id)
					got := end{r.Status, r.Attempts, r.Uncertain, r.LastError, errors.Is(err, consign.ErrFenced)}
					if got != want || err != nil && !got.fenced {
						t.Errorf("%+v, %v, want %+v", got, err, want)
					}
				})
			})
		}
	}
}
