package drivertest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/consign-go/consign/internal/lifecycle"
)

// coverage counts what histories did.
type coverage map[string]int

// enough is how many steps a set of histories needs before it may be asked to
// have done everything.
const enough = 4000

// expected lists what must have happened at least once.
func expected() []string {
	all := []string{
		"claim pending", "claim leased", "claim delivering", "insert", "repeat", "insert: conflict of row ", "insert: taken",
		"roll back", "erase pending", "erase leased", "erase delivering", "prune", "late evidence",
		"arrived late and held", "arrived late and was fenced", "run",
		"propose", "decide: ok", "decide: refused", "consume: ok", "consume: refused",
	}
	for _, k := range lifecycle.EventKinds() {
		if k != lifecycle.EvClaim {
			all = append(all, k.String())
		}
	}
	return all
}

// missing returns what did not happen.
func (c coverage) missing() []string {
	return slices.DeleteFunc(expected(), func(what string) bool { return c[what] > 0 })
}

// String lists the counts.
func (c coverage) String() string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, c[what]))
	}
	return strings.Join(parts, ", ")
}
