package sqlite

import (
	"context"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// recentSQL counts a bounded stretch of the index of ended deliveries.
const recentSQL = `SELECT count(*) FROM (
    SELECT d.created_at FROM {s}delivery d INDEXED BY {i}delivery_terminal
    WHERE d.profile = ? AND d.terminal = ? AND d.created_at >= ? AND d.created_at < ?
    LIMIT ? + 1
) t`

// Recent counts what was created lately and has ended.
func (e *engine) Recent(ctx context.Context, r driver.RecentRequest) ([]driver.RecentEnd, error) {
	r.Part = r.Part.Truncate(time.Microsecond)
	var out []driver.RecentEnd
	err := e.read(ctx, "recent", func(ctx context.Context, s *session) error {
		out = nil
		for _, p := range []lifecycle.Profile{lifecycle.Work, lifecycle.Message} {
			for _, status := range lifecycle.Statuses {
				if !status.Terminal() {
					continue
				}
				if err := s.recent(ctx, &out, &r, p, status); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return out, err
}

func (s *session) recent(ctx context.Context, out *[]driver.RecentEnd, r *driver.RecentRequest, p lifecycle.Profile, status lifecycle.Status) error {
	for place := range r.Parts {
		from := r.From.Add(time.Duration(place) * r.Part)
		args := []any{int64(p), int64(status), from.UnixMicro(), from.Add(r.Part).UnixMicro(), int64(r.Limit)}
		err := s.query(ctx, recentSQL, args, 1, func(v []any) (bool, error) {
			if n := int(whole(v[0])); n > 0 {
				*out = append(*out, driver.RecentEnd{Profile: p, Status: status, Place: place, N: n})
			}
			return false, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
