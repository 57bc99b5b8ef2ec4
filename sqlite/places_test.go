package sqlite_test

import (
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"fmt"
	mrand "math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/sqlite/internal/suite"
)

// TestRowsThatMove: a store remembers where in the table what it has claimed is. A
// VACUUM, or a program that writes rows anew, may put each row elsewhere, also where
// another one of the same claim was, and what happens next must still happen to the
// right ones.
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
		{"to each other's places, unnoticed", []string{
			"UPDATE consign_delivery SET rowid = -(1 + rowid % 7)", "UPDATE consign_delivery SET rowid = -rowid",
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
			apply := func(some []driver.Claimed, event lifecycle.Event) {
				t.Helper()
				for _, move := range c.moves {
					if _, err := db.Exec(move); err != nil {
						t.Fatalf("%s: %v", move, err)
					}
				}
				ts := make([]lifecycle.Transition, len(some))
				for i := range some {
					event.Owner, event.Generation, event.Digest = r.Owner, 1, some[i].Intent.Digest
					ts[i] = lifecycle.DefaultPolicy.Apply(some[i].State, event)
					ts[i].Ref = some[i].Intent.Ref
				}
				held, err := bound.Apply(t.Context(), ts)
				if err != nil || slices.Contains(held, false) {
					t.Fatalf("%s: held %v: %v", event.Kind, held, err)
				}
			}
			is := func(some []driver.Claimed, want lifecycle.Status) {
				t.Helper()
				for i, c := range some {
					records, err := bound.Load(t.Context(), []driver.ID{c.Intent.Ref})
					if err != nil || len(records) != 1 {
						t.Fatalf("loaded %d: %v", len(records), err)
					}
					if s := records[0].State; s.Status != want || s.Digest != c.Intent.Digest {
						t.Errorf("number %d is %s and has bound %x, want %s and %x", i, s.Status, s.Digest, want, c.Intent.Digest)
					}
					some[i].State = records[0].State
				}
			}
			apply(claimed, lifecycle.Event{Kind: lifecycle.EvStart})
			is(claimed, lifecycle.Delivering)
			apply(claimed[:n-2], lifecycle.Event{Kind: lifecycle.EvSucceeded, Attempt: 1})
			is(claimed[:n-2], lifecycle.Succeeded)
			is(claimed[n-2:], lifecycle.Delivering)
		})
	}
}

// useScattered changes rows of one claim that stand far from each other.
func useScattered(t testing.TB, b driver.Bound[*sql.Tx]) {
	t.Helper()
	var far []driver.ID
	for i, ref := range store(t, b, messages(300)...) {
		if i%50 == 0 {
			far = append(far, ref)
		}
	}
	claim(t, b, asking(300))
	apply(t, b, lifecycle.EvStart, far...)
	apply(t, b, lifecycle.EvSucceeded, far...)
}

// TestOnlyWhatIsMeant: of the rows of one claim, close together or far apart, some go
// on. Each of them has its own digest then, and none of the others has moved.
func TestOnlyWhatIsMeant(t *testing.T) {
	for _, apart := range []int{1, 2, 3, 5, 70} {
		t.Run(fmt.Sprint(apart), func(t *testing.T) {
			db := modernc.Open(t, filepath.Join(t.TempDir(), "rows.db"), 1)
			b := suite.Migrated(t, db, "").Driver(driver.Key{})
			store(t, b, messages(200)...)
			if _, err := db.Exec("UPDATE consign_delivery SET rowid = -rowid * ?", apart); err != nil {
				t.Fatal(err)
			}
			claimed := claim(t, b, asking(200))
			if len(claimed) != 200 {
				t.Fatalf("claimed %d", len(claimed))
			}
			started := map[driver.ID]lifecycle.Digest{}
			var ts []lifecycle.Transition
			for i, c := range claimed {
				if i%2 == 0 && i%7 != 0 {
					started[c.Intent.Ref] = sha256.Sum256(c.Intent.Ref[:])
					tr := lifecycle.DefaultPolicy.Apply(c.State, lifecycle.Event{
						Kind: lifecycle.EvStart, Owner: c.State.Owner, Generation: c.State.Generation, Digest: started[c.Intent.Ref],
					})
					tr.Ref = c.Intent.Ref
					ts = append(ts, tr)
				}
			}
			mrand.Shuffle(len(ts), func(i, j int) { ts[i], ts[j] = ts[j], ts[i] })
			held, err := b.Apply(t.Context(), ts)
			if err != nil || slices.Contains(held, false) {
				t.Fatalf("held %v: %v", held, err)
			}
			for _, c := range claimed {
				records, err := b.Load(t.Context(), []driver.ID{c.Intent.Ref})
				if err != nil || len(records) != 1 {
					t.Fatalf("loaded %d: %v", len(records), err)
				}
				want := c.State
				if d, ok := started[c.Intent.Ref]; ok {
					want.Status, want.Digest = lifecycle.Delivering, d
					want.Revision++
				}
				if s := records[0].State; s.Status != want.Status || s.Digest != want.Digest || s.Revision != want.Revision {
					t.Errorf("%s is %s at revision %d and has bound %x", c.Intent.Ref, s.Status, s.Revision, s.Digest)
				}
			}
		})
	}
}
