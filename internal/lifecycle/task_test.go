package lifecycle_test

import (
	"time"

	"github.com/consign-go/consign/internal/lifecycle"
)

// standsBefore is section 9's gate: whether higher indexes of its task wait for an
// intent. The conformance suite holds the stores to it.
func standsBefore(s *store) bool {
	r := &s.row
	switch {
	case r.erased:
		return false
	case r.status == lifecycle.Pending, r.status == lifecycle.Leased:
		return true
	case r.status != lifecycle.Delivering:
		return false
	case r.lease != none && r.lease > s.now:
		return true
	}
	spent := r.attempts
	if r.inFlight && r.profile == lifecycle.Message {
		spent++
	}
	return r.contract.Retry == lifecycle.Schedule && spent < r.contract.MaxAttempts &&
		(r.deadline == none || r.deadline > s.now) // it may be claimed again, or its late owner gives it back
}

// staysAside: what no longer stands before others never does again, and nobody
// claims or starts it any more. What has come to its end does not stand before others.
func (p *place) staysAside() error {
	for i := range p.nodes {
		if p.nodes[i].world.store.over() && p.stands[i] {
			return wrong("section 9: it is over, and still others wait for it:\n%s", p.history(int32(i), action{}))
		}
		for _, o := range p.follows[i] {
			if !p.stands[i] && (p.stands[o.to] || o.takes) {
				return wrong("section 9: what no longer stood before others does again: %v, or is taken: %v:\n%s",
					p.stands[o.to], o.takes, p.history(int32(i), action{after: time.Duration(o.passes) * unit}))
			}
		}
	}
	return nil
}

// An intent that is over in every way is one of these, and no node.
const (
	asideUnclaimed = -1 - iota
	asideClaimed
)

const taskSize = 3

type task [taskSize]int32

// walkTask walks the intents of a task together, in the order of their indexes.
func walkTask(places ...*place) (states int, err error) {
	first := task{asideUnclaimed, asideUnclaimed, asideUnclaimed}
	for i := range places {
		first[i] = 0
	}
	settle(&first, places)
	seen, open := map[task]struct{}{first: {}}, []task{first}
	for len(open) > 0 {
		at := open[len(open)-1]
		open = open[:len(open)-1]
		for n, p := range places {
			if at[n] < 0 {
				continue
			}
			for _, o := range p.follows[at[n]] {
				if o.opens {
					continue // as it happens, and not of itself
				}
				next := at
				for m := range places {
					for range o.passes {
						if next[m] >= 0 && m != n {
							next[m] = places[m].passed[next[m]]
						}
					}
				}
				next[n] = o.to
				if o.takes {
					for m := n + 1; m < len(places); m++ {
						if at[m] == asideClaimed || at[m] >= 0 && places[m].claimed[at[m]] {
							return 0, wrong("section 9: index %d was taken after index %d:\n%s\n\n%s", n, m,
								p.history(o.to, action{}), places[m].tells(at[m]))
						}
					}
				}
				settle(&next, places)
				if _, ok := seen[next]; !ok {
					seen[next] = struct{}{}
					open = append(open, next)
				}
			}
		}
	}
	return len(seen), nil
}

func (p *place) tells(at int32) string {
	if at < 0 {
		return "it is over"
	}
	return p.history(at, action{})
}

// settle opens gates, and forgets of what is retired and stands before nobody all
// but that.
func settle(t *task, places []*place) {
	free := true
	for n, p := range places {
		if t[n] < 0 {
			continue
		}
		if free {
			t[n] = p.opened[t[n]]
		}
		free = free && !p.stands[t[n]]
		if p.stands[t[n]] || !p.retired[t[n]] {
			continue
		}
		claimed := p.claimed[t[n]]
		if t[n] = asideUnclaimed; claimed {
			t[n] = asideClaimed
		}
	}
}
