package lifecycle_test

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/effort"
	"github.com/consign-go/consign/internal/lifecycle"
)

// larger are the kinds that the search walks with three owners and three attempts
// or more; a message's gate opens at any moment, and stays open.
func larger(attempts int) []searched {
	list := slices.Clone(searches)
	for i := range list {
		c := &list[i]
		c.owners, c.attempts, c.gated = 3, attempts, c.profile == lifecycle.Message
		if c.contract.MaxAttempts > 0 {
			c.contract.MaxAttempts = attempts
		}
		if c.contract.MaxAge > 0 {
			c.contract.MaxAge += time.Duration(attempts-3) * 4 * unit // or the last attempts are never made
		}
	}
	return list
}

// TestEveryHistoryOfThreeOwnersAndTwoIntentsKeepsTheInvariants walks what the walk
// with two owners leaves out: a third owner, a third attempt, and intents of one
// task, where each waits until none before it can be started any more.
//
// Intents meet in nothing but that gate. Each is therefore walked alone first, with
// a gate that opens at any moment. Then the intents of a task are walked together,
// all as they were walked alone, with the gates that they really make for each
// other; of one that nobody can claim or start any more and that stands before no
// other, nothing but that is remembered.
func TestEveryHistoryOfThreeOwnersAndTwoIntentsKeepsTheInvariants(t *testing.T) {
	if underRace || testing.Short() {
		t.Log("the race detector makes this take minutes, and there is nothing to detect")
		return
	}
	var places []*place
	states, events, fenced := 0, 0, 0
	for _, c := range larger(effort.Of(3, 5)) {
		p, err := c.place(standsBefore)
		if err == nil && c.gated {
			err = p.staysAside()
		}
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		states, events, fenced = states+len(p.nodes), events+p.edges, fenced+p.fenced
		p.didEnough(t)
		if c.profile == lifecycle.Message {
			places = append(places, p)
		}
	}
	effort.Note(t, "each intent alone: %d states, %d events, %d fenced", states, events, fenced)
	if states < 100_000 {
		t.Error("the search did too little")
	}
	walkTasks(t, places, effort.Of(2, taskSize))
}

// walkTasks walks every task of so many intents, of any kinds.
func walkTasks(t *testing.T, places []*place, size int) {
	t.Helper()
	var tasks [][]*place
	for _, p := range places {
		tasks = append(tasks, []*place{p})
	}
	for range size - 1 {
		var longer [][]*place
		for _, before := range tasks {
			for _, p := range places {
				longer = append(longer, append(slices.Clone(before), p))
			}
		}
		tasks = longer
	}
	var group sync.WaitGroup
	var together atomic.Int64
	next := make(chan []*place, len(tasks))
	for _, list := range tasks {
		next <- list
	}
	close(next)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for list := range next {
				n, err := walkTask(list...)
				if err != nil {
					t.Errorf("%s first: %v", list[0].name, err)
				}
				together.Add(int64(n))
			}
		})
	}
	group.Wait()
	effort.Note(t, "%d tasks of %d intents: %d states", len(tasks), size, together.Load())
	if together.Load() < 100_000 {
		t.Error("the search did too little")
	}
}

// edge is an event that leads from one node of a search to another.
type edge struct {
	to     int32
	passes int8 // units of time
	only   bool // nothing but time passes, or the gate opens
	opens  bool // the gate
	takes  bool // it is a claim or a start
}

func (s *search) keep(from int, o edge) {
	if !s.keeps {
		return
	}
	for len(s.follows) <= from {
		s.follows = append(s.follows, nil)
	}
	if list := &s.follows[from]; !slices.Contains(*list, o) {
		*list = append(*list, o)
	}
}

// place is an intent that was walked alone, as one of its task's.
type place struct {
	search
	name    string
	stands  []bool  // by node: higher indexes wait for it
	claimed []bool  // somebody has had it
	retired []bool  // nobody can have it any more
	opened  []int32 // the node with its gate open
	passed  []int32 // the node one unit later
}

func (c *searched) place(stands func(*store) bool) (*place, error) {
	p := &place{name: c.name, search: search{actions: c.actions(), byHand: c.attempts, keeps: true}}
	if err := p.walk(c.first()); err != nil {
		return nil, err
	}
	for i := range p.nodes {
		w := &p.nodes[i].world
		p.stands = append(p.stands, stands(&w.store))
		p.claimed = append(p.claimed, w.judge.ownerGen > 0)
		p.opened, p.passed = append(p.opened, int32(i)), append(p.passed, int32(i))
		for _, o := range p.follows[i] {
			switch {
			case o.opens:
				p.opened[i] = o.to
			case o.only:
				p.passed[i] = o.to
			}
		}
	}
	p.retire()
	return p, nil
}

// retire finds what nobody can claim or start any more, whatever happens.
func (p *place) retire() {
	p.retired = make([]bool, len(p.nodes))
	for i := range p.retired {
		p.retired[i] = true
	}
	for again := true; again; {
		again = false
		for i := len(p.nodes) - 1; i >= 0; i-- {
			if p.retired[i] && slices.ContainsFunc(p.follows[i], func(o edge) bool { return o.takes || !p.retired[o.to] }) {
				p.retired[i], again = false, true
			}
		}
	}
}
