package driver

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/consign-go/consign/internal/lifecycle"
)

// Work goes by kind and fingerprint, so that programs with different versions of
// a kind never meet on one route; a message goes by its channel.
func TestRoutes(t *testing.T) {
	work := Intent{Profile: lifecycle.Work, Kind: "tickets.triaged", Fingerprint: [32]byte{0xab, 1, 2, 3, 4, 5, 6, 7, 8}}
	if got, want := work.Route(), "w:tickets.triaged:ab01020304050607"; got != want {
		t.Errorf("route %s, want %s", got, want)
	}
	message := Intent{Profile: lifecycle.Message, Kind: "mail"}
	if got, want := message.Route(), "m:mail"; got != want {
		t.Errorf("route %s, want %s", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.StringMatching(`[!-~]{1,20}`)
		a, b := kind.Draw(t, "a"), kind.Draw(t, "b")
		one, two := [32]byte{rapid.Byte().Draw(t, "one")}, [32]byte{rapid.Byte().Draw(t, "two")}
		if (WorkRoute(a, one) == WorkRoute(b, two)) != (a == b && one == two) {
			t.Fatalf("%q and %q meet", WorkRoute(a, one), WorkRoute(b, two))
		}
		if (MessageRoute(a) == MessageRoute(b)) != (a == b) || MessageRoute(a) == WorkRoute(b, one) {
			t.Fatalf("%q meets another route", MessageRoute(a))
		}
	})
}

// Only first sendings inside a task wait for their turn.
func TestGated(t *testing.T) {
	for _, c := range []struct {
		task string
		link Link
		want bool
	}{{"", First, false}, {"a", First, true}, {"a", Redelivery, false}, {"a", Reissue, false}} {
		n := New{Intent: Intent{Task: c.task, Link: c.link}}
		if n.Gated() != c.want {
			t.Errorf("task %q, link %d: gated is %v", c.task, c.link, n.Gated())
		}
	}
}

// A conflict names the row of the call and nothing of what is stored.
func TestConflictErrorNamesTheRow(t *testing.T) {
	err := &ConflictError{Index: 3}
	if got := err.Error(); !strings.Contains(got, "3") || len(got) > 60 {
		t.Errorf("says %q", got)
	}
}
