//go:build !race

package lifecycle_test

import (
	"strings"
	"testing"

	"github.com/consign-go/consign/internal/lifecycle"
)

// TestSeededMistakesAreFoundByTheSearch proves that the judge and the search can
// see: each mistake must be told, and told for what it is. The walks take minutes
// under the race detector and start no goroutine that it could watch, so test.sh
// runs this package without it as well.
func TestSeededMistakesAreFoundByTheSearch(t *testing.T) {
	for i, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			var told []string
			for _, c := range searches {
				w := c.first()
				w.store.bent = i + 1
				s := search{actions: c.actions(), upTo: 2000}
				if err := s.walk(w); err != nil {
					if strings.Contains(err.Error(), m.told) {
						return
					}
					told = append(told, c.name+": "+err.Error())
				}
			}
			t.Errorf("nobody said %q. What was said:\n%s", m.told, strings.Join(told, "\n"))
		})
	}
}

// TestSeededMistakesAreFoundByRandomHistories proves the same of the random
// histories, and that what they tell of a mistake is short.
func TestSeededMistakesAreFoundByRandomHistories(t *testing.T) {
	const enough = 100_000
	for i, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			h := newHistory()
			others := map[string]int{}
			for n := range uint64(enough) {
				broken := h.invent(1, n, i+1)
				if broken == nil {
					continue
				}
				if !strings.Contains(broken.Error(), m.told) {
					others[complaint(broken)]++
					continue
				}
				short, told := h.shrink(broken)
				t.Logf("history %d, %d moves, then %d: %v\n%s", n, len(h.moves), len(short), told, h.story(short))
				if !strings.Contains(told.Error(), m.told) || len(short) > 8 {
					t.Errorf("%v became %v with %d moves", broken, told, len(short))
				}
				return
			}
			t.Errorf("nobody said %q in %d histories. What was said: %v", m.told, enough, others)
		})
	}
}

// TestSeededMistakesOfTheGateAreFoundByTheSearch proves that the walk of a task's
// intents can see: each wrong gate must break the order.
func TestSeededMistakesOfTheGateAreFoundByTheSearch(t *testing.T) {
	for name, stands := range map[string]func(s *store) bool{
		"there is none":                func(*store) bool { return false },
		"the pending alone go first":   func(s *store) bool { return s.row.status == lifecycle.Pending },
		"what is claimed is forgotten": func(s *store) bool { return s.row.status != lifecycle.Leased && standsBefore(s) },
		"it opens with the lease": func(s *store) bool {
			return s.row.status != lifecycle.Delivering && standsBefore(s) || s.row.lease != none && s.row.lease > s.now
		},
		"a late refusal is forgotten": func(s *store) bool {
			r := &s.row
			return standsBefore(s) && (r.status != lifecycle.Delivering || r.contract.Idempotent || r.lease > s.now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := larger(3)[4]
			p, err := c.place(stands)
			if err != nil {
				t.Fatal(err)
			}
			_, err = walkTask(p, p)
			if err == nil || !strings.Contains(err.Error(), "was taken after index") || p.staysAside() == nil {
				t.Errorf("%s: %v, and alone %v", c.name, err, p.staysAside())
			}
			t.Log(err)
		})
	}
}
