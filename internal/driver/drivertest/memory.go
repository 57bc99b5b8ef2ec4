package drivertest

import (
	"context"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/driver/memory"
)

// Memory returns a harness on a fresh memory store: the oracle for [Histories],
// and an example of a harness.
func Memory() Harness[*memory.Tx] { return OnMemory(memory.New()) }

// OnMemory returns a harness on s.
func OnMemory(s *memory.Store) Harness[*memory.Tx] {
	return Harness[*memory.Tx]{
		Bound: s,
		Reset: func(context.Context) error { s.Reset(); return nil },
		Shift: s.Elapse,
		Rows:  func(_ context.Context, table string) ([]map[string]any, error) { return s.Rows(table) },
		Put:   func(_ context.Context, table string, row map[string]any) error { return s.Put(table, row) },
		Set: func(_ context.Context, table string, ref driver.ID, columns map[string]any) error {
			return s.Set(table, ref, columns)
		},
		Write: func(_ context.Context, tx *memory.Tx, key string) error { return tx.Put(key, "written") },
		Read: func(_ context.Context, tx *memory.Tx, key string) (bool, error) {
			_, ok, err := tx.Get(key)
			return ok, err
		},
		Capabilities: Capabilities{ConcurrentWriters: true, ConcurrentReads: true},
	}
}
