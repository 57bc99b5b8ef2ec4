package postgres

import (
	"slices"
	"testing"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Starts of more owners than one statement can list are all written, each under its
// own; and what its bits have no room for is written by the other statement.
func TestPlainStatementHasNoLimitForItsCallers(t *testing.T) {
	d := open(t)
	rows := messages(mostListed + 10)
	d.insert(t, rows...)
	claimed, err := d.Claim(t.Context(), request(rows[0].Route(), len(rows)))
	if err != nil || len(claimed) != len(rows) {
		t.Fatal(len(claimed), err)
	}
	if _, err := d.pool.Exec(t.Context(), d.expand(`UPDATE {s}delivery SET owner = gen_random_uuid()`)); err != nil {
		t.Fatal(err)
	}
	refs := make([]driver.ID, len(claimed))
	for i := range claimed {
		refs[i] = claimed[i].Intent.Ref
	}
	records, err := d.Load(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		claimed[i] = driver.Claimed{Intent: records[i].Intent, State: records[i].State}
	}
	ts := starts(claimed)
	held, err := d.Apply(t.Context(), ts)
	if err != nil || slices.Contains(held, false) {
		t.Errorf("not all held: %v", err)
	}
	other := ts[0]
	other.Set.Attempts = mostAttempts
	if !plain(&other) {
		t.Error("the most attempts are too many")
	}
	if other.Set.Attempts++; plain(&other) {
		t.Error("bits that do not fit")
	}
	c := plainColumns([]lifecycle.Transition{{Set: lifecycle.Columns{Attempts: mostAttempts}}}, []int{0})
	if got := c.bits[0] >> bitAttempts; got != mostAttempts {
		t.Errorf("%d attempts are sent as %d", mostAttempts, got)
	}
}
