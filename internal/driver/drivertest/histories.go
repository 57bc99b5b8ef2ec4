package drivertest

import (
	"context"
	"flag"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/effort"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Histories runs random histories of steps operations each on a and on b and
// fails where an answer or a row differs. How many is set by -rapid.checks; the
// default of 100 histories of 40 steps is meant for every change. It also fails
// where all histories together did too little: each kind of transition must have
// happened at least once.
//
// Steps may be at most 250: each takes a second of database time, and all of them
// together must stay well under a unit.
func Histories[A, B any](t *testing.T, a Harness[A], b Harness[B], steps int) {
	seen := coverage{}
	for range 3 { // what is rare may be missing once
		rapid.Check(t, func(t *rapid.T) { compare(t, a, b, steps, seen) })
		if t.Failed() {
			return
		}
		if len(seen.missing()) == 0 || checks()*steps < enough {
			break
		}
	}
	effort.Note(t, "histories did: %s", seen)
	if checks()*steps < enough {
		t.Logf("%d histories of %d steps are too few to ask for every kind of transition", checks(), steps)
		return
	}
	for _, what := range seen.missing() {
		t.Errorf("no history did %s", what)
	}
}

// checks is how many histories rapid was told to run.
func checks() int {
	n, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String())
	if err != nil {
		return 0
	}
	return n
}

// Compare runs one random history on a and on b.
func Compare[A, B any](t *rapid.T, a Harness[A], b Harness[B], steps int) {
	compare(t, a, b, steps, coverage{})
}

func compare[A, B any](t *rapid.T, a Harness[A], b Harness[B], steps int, seen coverage) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	w := &world{t: t, ctx: ctx, seen: seen, sides: [2]side{sideOf(&a), sideOf(&b)}}
	w.both("reset", func(s *side) string { return fault(s.reset(ctx)) })
	for range steps {
		if !w.step() {
			continue // nothing was written
		}
		w.both("tick", func(s *side) string { return fault(s.shift(ctx, time.Second)) })
		w.both("rows", func(s *side) string {
			text, err := s.dump(ctx)
			return text + "\n" + fault(err)
		})
	}
}

// unit is the grid of every duration in a history. Durations are whole units, and
// what has to lie off the grid lies off by the slack of 300 s, so that the seconds
// that a history takes decide nothing.
const unit = 1000 * time.Second

var historyPolicy = lifecycle.Policy{SettleMargin: 300 * time.Second, CrashBudget: 3}

// side is one of the two stores without its transaction type.
type side struct {
	driver.Driver
	driver.Approvals
	driver.Runs
	reset  func(ctx context.Context) error
	shift  func(ctx context.Context, d time.Duration) error
	dump   func(ctx context.Context) (string, error)
	within func(ctx context.Context, commit bool, fn func(tx driver.Tx) error) error
}

func sideOf[TX any](h *Harness[TX]) side {
	return side{
		Driver: h.Bound, Approvals: h.Bound, Runs: h.Bound, reset: h.Reset, shift: h.Shift,
		dump: func(ctx context.Context) (string, error) { return h.Dump(ctx, unit) },
		within: func(ctx context.Context, commit bool, fn func(tx driver.Tx) error) error {
			_, tx, err := h.Bound.Begin(ctx)
			if err != nil {
				return err
			}
			if err := fn(tx); err != nil || !commit {
				tx.Rollback(ctx)
				return err
			}
			return tx.Commit(ctx)
		},
	}
}

// world is the state of one history.
type world struct {
	t     *rapid.T
	ctx   context.Context
	sides [2]side
	seen  coverage

	made   uint64 // identifiers given out
	rows   []driver.New
	owners []lifecycle.Token
	stale  [][2]lifecycle.Transition

	approvals []driver.ID
}

// both runs fn on both sides and compares what it returns.
func (w *world) both(what string, fn func(s *side) string) string {
	w.t.Helper()
	first := fn(&w.sides[0])
	second := fn(&w.sides[1])
	if first != second {
		w.t.Fatalf("%s differ:\n--- first has\n%s\n--- second has\n%s", what, without(first, second), without(second, first))
	}
	return first
}

// without returns the lines of text that other has not.
func without(text, other string) string {
	known := map[string]bool{}
	for _, line := range strings.Split(other, "\n") {
		known[line] = true
	}
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return known[line] })
	if len(lines) == 0 {
		return text // the same lines in another order, or fewer of them
	}
	return strings.Join(lines, "\n")
}

// id returns the next identifier. Identifiers rise, as those of one process do.
func (w *world) id() driver.ID {
	w.made++
	var id driver.ID
	for i := range 6 {
		id[5-i] = byte(w.made >> (8 * i))
	}
	id[6], id[8] = 0x70, 0x80
	return id
}

// upTo draws a number from 0 to n-1, each as likely: rapid itself prefers small
// numbers, and a history needs all of them. It shrinks to 0.
func (w *world) upTo(n int, what string) int {
	return rapid.Custom(func(t *rapid.T) int {
		length := bits.Len(uint(n-1)) + 3
		number := 0
		for range length {
			number <<= 1
			if rapid.Bool().Draw(t, "bit") {
				number++
			}
		}
		return number * n >> length
	}).Draw(w.t, what)
}

// one in n draws are true.
func (w *world) oneIn(n int, what string) bool { return w.upTo(n, what) == n-1 }

// units draws up to n-1 whole units.
func (w *world) units(n int, what string) time.Duration { return time.Duration(w.upTo(n, what)) * unit }

// pick draws one of list.
func pick[T any](w *world, list []T, what string) T { return list[w.upTo(len(list), what)] }

// step does one random thing and reports whether that may write. The first one of
// the list is what a failing history shrinks to.
func (w *world) step() bool {
	switch pick(w, weighted, "step") {
	case "insert":
		w.insert()
	case "claim":
		w.claim()
	case "act":
		w.act()
	case "replay":
		w.replay()
	case "sweep":
		w.sweep()
	case "erase":
		w.erase()
	case "prune":
		w.prune()
	case "pass":
		d := unit
		if w.oneIn(2, "long") {
			d += w.units(5, "units")
		}
		w.both("pass", func(s *side) string { return fault(s.shift(w.ctx, d)) })
	case "run":
		w.run()
	case "sign":
		w.sign()
	case "look":
		w.look()
		return false
	case "rest":
		return false
	}
	return true
}

// weighted lists each operation as often as its share.
var weighted = func() (list []string) {
	for _, o := range []struct {
		name  string
		share int
	}{{"rest", 1}, {"act", 14}, {"insert", 5}, {"claim", 9}, {"pass", 5}, {"sweep", 2}, {"replay", 2}, {"look", 1}, {"prune", 1}, {"erase", 1}, {"run", 1}, {"sign", 2}} {
		for range o.share {
			list = append(list, o.name)
		}
	}
	return list
}()

// rounded is s with its durations on the grid, and without what no decision looks
// at in its status.
func rounded(s lifecycle.State) string {
	s.DueIn, s.LeaseLeft = s.DueIn.Round(unit), s.LeaseLeft.Round(unit)
	if s.DeadlineLeft != lifecycle.Never {
		s.DeadlineLeft = s.DeadlineLeft.Round(unit)
	}
	if s.Erased || s.Status > lifecycle.Leased {
		s.GateOpen = false
	}
	return fmt.Sprintf("%+v", s)
}
