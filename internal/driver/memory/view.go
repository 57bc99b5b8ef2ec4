package memory

import (
	"context"

	"github.com/consign-go/consign/internal/driver"
)

// View runs fn in a read-only transaction.
func (s *Store) View(ctx context.Context, fn func(tx *Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	tx := &Tx{store: s, readOnly: true, rows: newWritten()}
	defer tx.Rollback()
	return fn(tx)
}

// ViewIn runs fn inside tx, with writes failing until fn returns.
func (s *Store) ViewIn(ctx context.Context, tx *Tx, fn func(tx *Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	set := func(readOnly bool) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		was := tx.readOnly
		tx.readOnly = readOnly
		return was
	}
	ended := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return tx.done
	}
	if ended() {
		return driver.ErrClosed
	}
	was := set(true)
	defer set(was)
	if err := fn(tx); err != nil || !ended() {
		return err
	}
	return driver.ErrClosed // fn has ended it
}
