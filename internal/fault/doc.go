// Package fault makes connections fail on purpose, so that tests can show what
// happens when bytes are late or lost, at a moment of their choosing.
package fault
