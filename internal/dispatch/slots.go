package dispatch

import (
	"context"
	"slices"
	"sync"
	"time"
)

// slots are the deliveries that may be in hand at once. What waits between two
// attempts holds none, but is counted, so that it cannot grow without bound; when
// its pause is over it goes before anything new, because its lease is running.
type slots struct {
	mu       sync.Mutex
	free     int
	reserved int // for a claim that is under way
	parked   int
	limit    int             // of parked; at the limit nothing new is claimed
	waiting  []chan struct{} // closed as a slot is handed over, first come first served
	freed    chan struct{}   // a hint for whoever reserves
}

func newSlots(n int) *slots {
	return &slots{free: n, limit: 16 * n, freed: make(chan struct{}, 1)}
}

// gather waits until enough slots are free, or until a moment. It is for whoever
// reserves, before that.
func (s *slots) gather(ctx context.Context, enough int, until time.Time) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for {
		s.mu.Lock()
		n := min(s.free, s.limit-s.parked)
		s.mu.Unlock()
		if n >= enough {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-s.freed:
		}
	}
}

// reserve sets as many slots as are free aside for a claim, one at least and most
// at most; 0 when ctx has ended. One claim at a time does so, and ends with spend.
func (s *slots) reserve(ctx context.Context, most int) int {
	for ctx.Err() == nil {
		s.mu.Lock()
		n := min(s.free, s.limit-s.parked, most)
		if n > 0 {
			s.free -= n
			s.reserved = n
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

// spend takes up to n of the reserved slots into use, gives back the others, and
// returns how many it took: what came back from its pause while the claim hung may
// have taken some, since its lease does not wait.
func (s *slots) spend(n int) int {
	s.mu.Lock()
	n = min(n, s.reserved)
	unused := s.reserved - n
	s.reserved = 0
	s.mu.Unlock()
	s.release(unused)
	return n
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

// hurry is how long what comes back from its pause waits for a claim that has set
// slots aside, before it takes one of them.
const hurry = time.Second

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
	ticker := time.NewTicker(hurry)
	defer ticker.Stop()
	for {
		select {
		case <-mine:
			return true
		case <-ticker.C:
			if s.leave(mine, true) {
				return true
			}
		case <-ctx.Done():
			if s.leave(mine, false) {
				s.release(1)
			}
			return false
		}
	}
}

// leave ends the wait of mine, true where that is with a slot: it was handed one at
// the last moment, or has taken one of the reserved. Who wants to take one waits on
// where there is none.
func (s *slots) leave(mine chan struct{}, takes bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting, mine)
	if i < 0 {
		return true
	}
	if takes && s.reserved == 0 {
		return false
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	if takes {
		s.reserved--
	}
	return takes
}

// taken returns how many slots of n are in use.
func (s *slots) taken(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return n - s.free - s.reserved
}

func (s *slots) hint() {
	select {
	case s.freed <- struct{}{}:
	default:
	}
}
