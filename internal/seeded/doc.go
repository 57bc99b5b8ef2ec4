// Package seeded makes mistakes on purpose: in the engine, in the stores and around
// the effect. Each must be reported by a suite that is named with it, or that suite
// shows less than it says. The mistakes of the decision core are seeded in
// internal/lifecycle itself.
package seeded
