package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/consign-go/consign/cli"
)

// Fault is one thing that is wrong with the configuration. It never quotes a value
// that may be a secret.
type Fault struct {
	Place string // "consign.toml:12", or the flag
	Key   string // "channels.crm.url"
	Rule  string
	line  int
}

// String returns "place: key: rule".
func (f Fault) String() string {
	var parts []string
	for _, s := range []string{f.Place, f.Key, f.Rule} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}

// Faults is everything that is wrong, in the order of the file.
type Faults []Fault

// Error lists every fault, one on a line.
func (fs Faults) Error() string {
	lines := make([]string, len(fs)+1)
	lines[0] = "the configuration has " + strconv.Itoa(len(fs)) + " faults"
	if len(fs) == 1 {
		lines[0] = "the configuration has a fault"
	}
	for i, f := range fs {
		lines[i+1] = "  " + f.String()
	}
	return strings.Join(lines, "\n")
}

// Findings are the faults for doctor.
func (fs Faults) Findings() []cli.Finding {
	out := make([]cli.Finding, len(fs))
	for i, f := range fs {
		out[i] = cli.Finding{What: f.String(), Fix: "Mend it there; docs/daemon.md lists every key."}
	}
	return out
}

// sorted puts faults in the order in which a person mends them.
func (fs Faults) sorted() Faults {
	slices.SortStableFunc(fs, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.line, b.line), strings.Compare(a.Key, b.Key), strings.Compare(a.Rule, b.Rule))
	})
	return slices.Compact(fs)
}
