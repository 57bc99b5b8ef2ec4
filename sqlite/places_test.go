package sqlite_test

import (
	"crypto/rand"
	"path/filepath"
	"testing"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/sqlite/internal/suite"
)

// TestRowsThatMove: a store remembers where in the table what it has claimed is. A
// VACUUM may put each row elsewhere, also where another one of the same claim was,
// and what happens next must still happen to the right ones.
func TestRowsThatMove(t *testing.T) {
	const n = 7
	for _, c := range []struct {
		name  string
		moves []string
	}{
		{"not at all", nil},
		{"to each other's places", []string{
			"UPDATE consign_delivery SET rowid = -(1 + rowid % 7)", "UPDATE consign_delivery SET rowid = -rowid", "VACUUM",
		}},
		{"to new places, unnoticed", []string{"UPDATE consign_delivery SET rowid = rowid + 100"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := modernc.Open(t, filepath.Join(t.TempDir(), "rows.db"), 1)
			bound := suite.Migrated(t, db, "").Driver(driver.Key{})
			_, tx, err := bound.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var rows []driver.New
			for i := range n {
				rows = append(rows, benchRow(i))
			}
			if err := tx.Insert(t.Context(), rows); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			r := driver.ClaimRequest{Policy: lifecycle.DefaultPolicy, Routes: []driver.RouteLimit{{Route: route(), Limit: n}}}
			rand.Read(r.Owner[:])
			claimed, err := bound.Claim(t.Context(), r)
			if err != nil || len(claimed) != n {
				t.Fatalf("claimed %d: %v", len(claimed), err)
			}
			for _, move := range c.moves {
				if _, err := db.Exec(move); err != nil {
					t.Fatalf("%s: %v", move, err)
				}
			}

			ts := make([]lifecycle.Transition, n)
			for i := range claimed {
				ts[i] = lifecycle.DefaultPolicy.Apply(claimed[i].State, lifecycle.Event{
					Kind: lifecycle.EvStart, Owner: r.Owner, Generation: 1, Digest: claimed[i].Intent.Digest,
				})
				ts[i].Ref = claimed[i].Intent.Ref
			}
			held, err := bound.Apply(t.Context(), ts)
			if err != nil {
				t.Fatal(err)
			}
			for i, c := range claimed {
				records, err := bound.Load(t.Context(), []driver.ID{c.Intent.Ref})
				if err != nil || len(records) != 1 || !held[i] {
					t.Fatalf("held %v, loaded %d: %v", held[i], len(records), err)
				}
				if s := records[0].State; s.Status != lifecycle.Delivering || s.Digest != c.Intent.Digest {
					t.Errorf("number %d is %s and has bound %x, want %x", i, s.Status, s.Digest, c.Intent.Digest)
				}
			}
		})
	}
}
