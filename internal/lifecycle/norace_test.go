//go:build !race

package lifecycle_test

const underRace = false
