//go:build race

package lifecycle_test

// underRace tells the search to walk a part only: the package starts nothing that
// could race, and the detector makes the whole walk take minutes.
const underRace = true
