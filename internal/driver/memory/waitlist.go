package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

var _ driver.Waitlist = (*Store)(nil)

// Waiting returns the messages that were never started, in the order of their turns.
func (s *Store) Waiting(ctx context.Context, after driver.Turn, limit int) ([]driver.Turn, error) {
	var turns []driver.Turn
	err := s.write(ctx, func(time.Time) error {
		for ref, d := range s.rows.deliveries {
			i := s.rows.intents[ref]
			if i == nil || d.state.Profile != lifecycle.Message || d.state.Status != lifecycle.Pending || !d.startedAt.IsZero() {
				continue
			}
			if t := (driver.Turn{Task: i.Task, Index: i.Index, Ref: ref}); byTurn(t, after) > 0 {
				turns = append(turns, t)
			}
		}
		return nil
	})
	slices.SortFunc(turns, byTurn)
	return turns[:min(len(turns), max(limit, 0))], err
}

func byTurn(a, b driver.Turn) int {
	return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Index, b.Index), bytes.Compare(a.Ref[:], b.Ref[:]))
}
