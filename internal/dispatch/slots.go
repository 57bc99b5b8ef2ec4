package dispatch

import (
	"context"
	"slices"
	"sync"
)

// slots are the deliveries that may be in hand at once. What waits between two
// attempts holds none, but is counted, so that it cannot grow without bound; when
// its pause is over it goes before anything new, because its lease is running.
type slots struct {
	mu      sync.Mutex
	free    int
	parked  int
	limit   int             // of parked; at the limit nothing new is claimed
	waiting []chan struct{} // closed as a slot is handed over, first come first served
	freed   chan struct{}   // a hint for whoever reserves
}

func newSlots(n int) *slots {
	return &slots{free: n, limit: 16 * n, freed: make(chan struct{}, 1)}
}

// reserve takes as many slots as are free, one at least and most at most; 0 when
// ctx has ended. What turns out not to be needed is released.
func (s *slots) reserve(ctx context.Context, most int) int {
	for ctx.Err() == nil {
		s.mu.Lock()
		n := min(s.free, s.limit-s.parked, most)
		if n > 0 {
			s.free -= n
			s.mu.Unlock()
			return n
		}
		s.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-s.freed:
		}
	}
	return 0
}

// release gives n slots back.
func (s *slots) release(n int) {
	s.mu.Lock()
	for ; n > 0 && len(s.waiting) > 0; n-- {
		close(s.waiting[0])
		s.waiting = slices.Delete(s.waiting, 0, 1)
	}
	s.free += n
	s.mu.Unlock()
	s.hint()
}

// park gives a slot back for the time of a pause.
func (s *slots) park() {
	s.mu.Lock()
	s.parked++
	s.mu.Unlock()
	s.release(1)
}

// unpark ends a pause with a slot in hand, as soon as there is one; false, and
// without one, when ctx ends first.
func (s *slots) unpark(ctx context.Context) bool {
	defer s.hint()
	s.mu.Lock()
	s.parked--
	if ctx.Err() != nil {
		s.mu.Unlock()
		return false
	}
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		return true
	}
	mine := make(chan struct{})
	s.waiting = append(s.waiting, mine)
	s.mu.Unlock()
	select {
	case <-mine:
		return true
	case <-ctx.Done():
	}
	s.mu.Lock()
	i := slices.Index(s.waiting, mine)
	if i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
	s.mu.Unlock()
	if i < 0 {
		s.release(1) // it was handed over at the last moment
	}
	return false
}

// taken returns how many slots of n are in use.
func (s *slots) taken(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return n - s.free
}

func (s *slots) hint() {
	select {
	case s.freed <- struct{}{}:
	default:
	}
}
