//go:build !race

package lifecycle_test

import (
	"strings"
	"testing"
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
