// Package repotest holds the rules of this repository as tests: how large
// files and functions may grow, what must be documented, which package may
// import which, what text must not appear, and that every promise in
// docs/guarantees.md names tests that exist.
//
// Each rule is a function from what it looks at to a list of faults. It is run
// on the checkout and, in the same file, on small made-up input that breaks
// it, because a rule that finds nothing proves nothing.
package repotest
