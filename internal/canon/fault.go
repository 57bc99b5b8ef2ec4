package canon

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxFaults is how many faults one Error lists; the walk ends with the last of them.
const MaxFaults = 16

// maxPath bounds Fault.Path in bytes; a longer path keeps its outer part, which is the one a person recognises.
const maxPath = 256

// Fault is one thing that keeps a value from having a canonical form. It is safe to log: it holds no part of the value.
type Fault struct {
	// Path leads from the root to the fault, such as lines[2].price; empty at the root. It is made of the names of Go
	// struct fields as their tags spell them, which come from code. Names that come from data are content, so a map
	// entry is {n}, counted from 0 in canonical order, and a member of raw JSON is {n}, counted from 0 as written. In the
	// faults of a type, which has no entries yet, [] and {} stand for any.
	Path string

	// Rule says what was broken and, where there is one, what to do instead.
	Rule string
}

// String returns "path: rule", or the rule alone at the root.
func (f Fault) String() string {
	if f.Path == "" {
		return f.Rule
	}
	return f.Path + ": " + f.Rule
}

// Error is every error of this package. Faults has between 1 and MaxFaults entries.
type Error struct{ Faults []Fault }

// Error lists the faults, separated by semicolons.
func (e *Error) Error() string {
	parts := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		parts[i] = f.String()
	}
	return strings.Join(parts, "; ")
}

// newError copies the faults, which may belong to a pooled encoder or a cached plan, and turns the inner form of their
// paths, in which every field name follows a dot, into the outer one.
func newError(faults []Fault) *Error {
	faults = slices.Clone(faults)
	for i := range faults {
		faults[i].Path = strings.TrimPrefix(faults[i].Path, ".")
	}
	return &Error{Faults: faults}
}

// join puts a path segment before a path. Only its first maxPath bytes survive, and then it ends with an ellipsis.
func join(segment, path string) string {
	path = segment + path
	if len(path) <= maxPath {
		return path
	}
	cut := maxPath - len("…")
	for !utf8.RuneStart(path[cut]) {
		cut--
	}
	return path[:cut] + "…"
}
