package memory

import (
	"context"
	"time"

	"github.com/consign-go/consign/internal/driver"
)

// Recent counts what was created lately and has ended.
func (s *Store) Recent(ctx context.Context, r driver.RecentRequest) ([]driver.RecentEnd, error) {
	r.Part = r.Part.Truncate(time.Microsecond)
	var out []driver.RecentEnd
	err := s.write(ctx, func(time.Time) error {
		counts := map[driver.RecentEnd]int{}
		for _, d := range s.rows.deliveries {
			since := d.createdAt.Sub(r.From)
			if !d.state.Status.Terminal() || since < 0 || since >= r.Part*time.Duration(r.Parts) {
				continue
			}
			counts[driver.RecentEnd{Profile: d.state.Profile, Status: d.state.Status, Place: int(since / r.Part)}]++
		}
		for e, n := range counts {
			e.N = min(n, r.Limit+1)
			out = append(out, e)
		}
		return nil
	})
	return out, err
}
