package lifecycle_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/consign-go/consign/internal/lifecycle"
)

// longest is how many moves a history has at most.
const longest = 60

// move is what happens next in a history. It has everything in it, so that a
// history can be told again without some of its moves.
type move struct {
	number int // from 1
	late   int // the write that this move decided arrives only now; 0: action happens
	action action
}

// history is one intent and what happens to it. It is used again and again, for
// what is allocated for each would take longer than the history itself.
type history struct {
	dice
	tally
	first world
	world world
	moves []move
	made  [longest + 1]decided // by the move of that number
	wrote []int                // the moves that decided to write
	ended int                  // histories that came to an end before faults stopped
}

func newHistory() *history { return &history{tally: tally{codes: map[lifecycle.Code]int{}}} }

// invent makes the history of that number and holds it to the invariants. bent is
// the seeded mistake that it is told with; 0: none.
func (h *history) invent(seed, number uint64, bent int) (broken error) {
	defer panicked(&broken)
	h.Seed(seed, number)
	h.first = h.dice.world()
	h.first.store.bent = bent
	h.world, h.moves, h.wrote = h.first, h.moves[:0], h.wrote[:0]
	for n := 1 + h.n(longest); len(h.moves) < n; {
		if h.world.store.over() && h.in(10) {
			break
		}
		h.moves = append(h.moves, move{number: len(h.moves) + 1})
		m := &h.moves[len(h.moves)-1]
		if len(h.wrote) > 0 && h.in(10) {
			m.late = one(&h.dice, h.wrote)
		} else {
			m.action = h.dice.action(&h.world)
		}
		if err := h.step(m); err != nil {
			return err
		}
	}
	if h.world.store.over() {
		h.ended++
	}
	return h.calm()
}

// step lets one move happen.
func (h *history) step(m *move) error {
	w := &h.world
	if m.late > 0 {
		d := h.made[m.late]
		fresh := d.t.Fence.Revision == w.store.row.revision
		held, broken := w.land(&d, true)
		if broken == nil && held && !fresh {
			return wrong("12.8: a write that was overtaken held")
		}
		if !held {
			h.overtaken++
		}
		return broken
	}
	d, held, broken := w.do(m.action)
	h.count(w, &d, held)
	h.made[m.number] = d
	if d.t.Answer == lifecycle.Apply {
		h.wrote = append(h.wrote, m.number)
	}
	return broken
}

// calm stops all faults: whichever way it goes on, there must be an end.
func (h *history) calm() error {
	h.world.store.row.gateOpen = true
	for way := range ways {
		if broken := h.world.calmDown(way, calmContract); broken != nil {
			return broken
		}
	}
	return nil
}

var calmContract = lifecycle.Contract{
	Retry: lifecycle.Process, MaxAttempts: 2, Lease: time.Minute, Timeout: 30 * time.Second,
}

// tell lets moves happen to the same intent.
func (h *history) tell(moves []move) (broken error) {
	defer panicked(&broken)
	h.world, h.wrote = h.first, h.wrote[:0]
	clear(h.made[:])
	for i := range moves {
		if err := h.step(&moves[i]); err != nil {
			return err
		}
	}
	return h.calm()
}

// panicked makes an error of a panic: the core's own ones say what would break.
func panicked(broken *error) {
	if p := recover(); p != nil {
		*broken = wrong("panic: %v", p)
	}
}

// shrink leaves out whatever is not needed for the same complaint, greedily: from
// the end, until nothing more can go.
func (h *history) shrink(broken error) (short []move, told error) {
	short, told = slices.Clone(h.moves), broken
	same := func(moves []move) bool {
		err := h.tell(moves)
		if err == nil || complaint(err) != complaint(broken) {
			return false
		}
		short, told = slices.Clone(moves), err
		return true
	}
	for before := -1; before != len(short); {
		before = len(short)
		for i := len(short) - 1; i >= 0; i-- {
			same(slices.Delete(slices.Clone(short), i, i+1))
		}
	}
	for i := range short {
		for _, simpler := range []func(m *move){
			func(m *move) { m.action.after = 0 },
			func(m *move) { m.action.delay = 0 },
			func(m *move) { m.action.unheard = false },
			func(m *move) { m.action.attempt = 0 },
			func(m *move) { m.action.wait = 0 },
			func(m *move) { m.action.who = 0 },
		} {
			tried := slices.Clone(short)
			if simpler(&tried[i]); tried[i] != short[i] {
				same(tried)
			}
		}
	}
	return short, told
}

// complaint is what is wrong, without what it is wrong by.
func complaint(err error) string {
	if inner := errors.Unwrap(err); inner != nil {
		err = inner // found only when faults had stopped
	}
	text, _, _ := strings.Cut(err.Error(), ":")
	return text
}

// story tells moves in words.
func (h *history) story(moves []move) string {
	r := &h.first.store.row
	lines := []string{fmt.Sprintf("a %v, gate open %v, uncertain %v, crash budget %d, contract %+v",
		r.profile, r.gateOpen, r.uncertain, h.first.store.policy.CrashBudget, r.contract)}
	for _, m := range moves {
		text := fmt.Sprintf("%d. %v", m.number, m.action)
		if m.late > 0 {
			text = fmt.Sprintf("%d. the write of %d arrives", m.number, m.late)
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}
