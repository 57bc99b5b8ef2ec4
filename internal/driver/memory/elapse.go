package memory

import (
	"context"
	"time"

	"github.com/consign-go/consign/internal/driver"
)

var _ driver.Elapser = (*Store)(nil)

// Elapse moves the clock forward by d.
func (s *Store) Elapse(_ context.Context, d time.Duration) error {
	s.Advance(d)
	return nil
}
