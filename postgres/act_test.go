package postgres

import (
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// An erasure that waits for somebody who is sending an intent again erases the copy
// too, which its own statement cannot have seen.
func TestErasureTakesWhatIsBeingSentAgain(t *testing.T) {
	d := open(t)
	n := message("mail", webhook, 200)
	n.Subject = "customer:1"
	d.insert(t, n)
	c := d.take(t, n.Ref)
	start := decide(t, c, lifecycle.Event{Kind: lifecycle.EvStart})
	apply(t, d, []lifecycle.Transition{start})
	tx, err := d.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rejected := decide(t, after(c, &start), lifecycle.Event{Kind: lifecycle.EvRejected})
	again := n
	again.Ref, again.Predecessor, again.Link, again.Given = driver.NewID(), n.Ref, driver.Redelivery, false
	possible, err := d.engine.act(t.Context(), tx, &driver.Action{
		Change: &rejected, Successor: &again, Audit: driver.Audited{By: "ann", Action: "redeliver", Ref: n.Ref},
	})
	if err != nil || !possible {
		t.Fatal(possible, err)
	}
	type answer struct {
		erased int
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		erased, err := d.EraseFor(t.Context(), []string{"customer:1"}, driver.Audited{By: "ann", Action: "erase"})
		done <- answer{erased, err}
	}()
	for {
		waiting, err := d.suite().Blocked(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if waiting == 1 {
			break
		}
		time.Sleep(time.Millisecond) // asked again, not hoped for
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.err != nil || got.erased != 2 {
		t.Fatalf("erased %d, %v; want the intent and what was sent again", got.erased, got.err)
	}
	left := one[string](t, d, "SELECT COALESCE(string_agg(i::text, ' '), '') FROM {s}intent i")
	if left != "" {
		t.Errorf("left: %s", left)
	}
	if got := one[int](t, d, "SELECT count(*) FROM {s}delivery WHERE erased_at IS NOT NULL AND due_at IS NULL"); got != 2 {
		t.Errorf("%d tombstones, want 2", got)
	}
}
