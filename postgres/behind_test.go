package postgres

import (
	"bytes"
	"cmp"
	"slices"
	"testing"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// A claim that goes on behind the last one passes over what somebody has locked, and
// leaves what stays marked as locked afterwards to the next one from the front. What
// was given back it finds in both ways.
func TestClaimBehindPassesOverWhatIsLocked(t *testing.T) {
	d := open(t)
	rows := messages(6)
	d.insert(t, rows...)
	refs := make([]driver.ID, len(rows))
	for i := range rows {
		refs[i] = rows[i].Ref
	}
	records, err := d.Load(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(records, func(a, b driver.Record) int {
		return cmp.Or(a.DueAt.Compare(b.DueAt), bytes.Compare(a.Intent.Ref[:], b.Intent.Ref[:]))
	})
	for i := range records {
		refs[i] = records[i].Intent.Ref
	}
	front := request(rows[0].Route(), 2)
	behind := request(rows[0].Route(), 2)
	behind.Routes[0].After = driver.Position{DueAt: records[0].DueAt, Ref: refs[0]}
	takes := func(what string, r driver.ClaimRequest, want ...driver.ID) {
		t.Helper()
		r.Owner = token()
		claimed, err := d.Claim(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]driver.ID, len(claimed))
		for i := range claimed {
			got[i] = claimed[i].Intent.Ref
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: claimed %v, want %v", what, got, want)
		}
		ts := transitionsOf(claimed, func(c *driver.Claimed) lifecycle.Event {
			return lifecycle.Event{Kind: lifecycle.EvReleased, Owner: c.State.Owner, Generation: c.State.Generation}
		})
		if held, err := d.Apply(t.Context(), ts); err != nil || slices.Contains(held, false) {
			t.Fatal("not given back", err)
		}
	}
	takes("at first", behind, refs[1], refs[2])
	takes("after it was given back", behind, refs[1], refs[2])

	other, err := d.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(t.Context(), d.expand(`SELECT FROM {s}delivery WHERE ref = $1 FOR UPDATE`), refs[1].String()); err != nil {
		t.Fatal(err)
	}
	takes("beside a lock", behind, refs[2], refs[3])
	takes("beside a lock, from the front", front, refs[0], refs[2])
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	takes("after the lock", behind, refs[2], refs[3])
	takes("after the lock, from the front", front, refs[0], refs[1])
	takes("after the row was written again", behind, refs[1], refs[2])
}
