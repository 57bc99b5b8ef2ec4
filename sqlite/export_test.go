package sqlite

import "time"

// SetBudget changes how long calls of s wait for their turn.
func SetBudget(s *Store, d time.Duration) { s.engine.budget = d }

// BusyBudget is how long calls wait for their turn unless SetBudget changes it.
const BusyBudget = busyBudget
