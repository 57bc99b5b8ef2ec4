package memory

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/consign-go/consign/internal/driver"
)

var _ driver.Registry = (*Store)(nil)

// program is a row of the program table, with those of what it serves.
type program struct {
	driver.Program
	startedAt   time.Time
	heartbeatAt time.Time
}

// forgotten is how long a program without a heartbeat stays on record.
const forgotten = 24 * time.Hour

// Register writes or renews the entry of p.
func (s *Store) Register(ctx context.Context, p driver.Program) error {
	return s.write(ctx, func(now time.Time) error {
		started := now
		if old, there := s.rows.programs[p.ID]; there {
			started = old.startedAt
		}
		p.Serves = slices.Clone(p.Serves)
		s.rows.programs[p.ID] = program{Program: p, startedAt: started, heartbeatAt: now}
		maps.DeleteFunc(s.rows.programs, func(_ driver.ID, o program) bool { return now.Sub(o.heartbeatAt) > forgotten })
		return nil
	})
}

// Unregister removes the entry of id.
func (s *Store) Unregister(ctx context.Context, id driver.ID) error {
	return s.write(ctx, func(time.Time) error {
		delete(s.rows.programs, id)
		return nil
	})
}

// Serving returns what live programs serve.
func (s *Store) Serving(ctx context.Context, within time.Duration) ([]driver.Serves, error) {
	var serves []driver.Serves
	err := s.write(ctx, func(now time.Time) error {
		for _, p := range s.rows.programs {
			if now.Sub(p.heartbeatAt) < within {
				serves = append(serves, p.Serves...)
			}
		}
		return nil
	})
	return serves, err
}
