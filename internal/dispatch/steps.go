package dispatch

import (
	"slices"
	"sync"

	"github.com/consign-go/consign/internal/driver"
)

// steps are gated messages that have ended here, in the order of their end. What
// stands next in a task is claimed directly: a claim that looks for whatever is due
// steps over all messages whose gate is closed, and the longer the tasks are the more
// there are.
type steps struct {
	mu   sync.Mutex
	list []driver.Step
	most int           // of them; the next ones of what is left out are found as anything else is
	some chan struct{} // a hint
}

// add keeps a step; dropped: there are too many, and the oldest was left out.
func (s *steps) add(step driver.Step) (dropped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if dropped = len(s.list) == s.most; dropped {
		s.drop(1)
	}
	s.list = append(s.list, step)
	select {
	case s.some <- struct{}{}:
	default:
	}
	return dropped
}

// take removes the first n at most.
func (s *steps) take(n int) []driver.Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, len(s.list))
	out := slices.Clone(s.list[:n])
	s.drop(n)
	return out
}

// drop removes the first n and keeps their memory. The caller holds mu.
func (s *steps) drop(n int) {
	rest := copy(s.list, s.list[n:])
	clear(s.list[rest:])
	s.list = s.list[:rest]
}

// any reports whether there are some.
func (s *steps) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.list) > 0
}

// opened notes that the message of t has ended, so that the gate of the next one may
// be open.
func (t *Task) opened() {
	i := &t.Intent
	if i.Task == "" || i.Link != driver.First || !t.state.Status.Terminal() {
		return
	}
	if t.engine.steps.add(driver.Step{Task: i.Task, Index: i.Index}) {
		t.engine.Wake()
	}
}

// follow claims what stands next behind messages that have ended, up to n
// deliveries. Where that is not one for each of them it has the engine look: the task
// may be over, but the next message may also wait for another one, for its time, for
// somebody who just has its row, or it may not be the only one with its index.
func (e *Engine) follow(ended []driver.Step, n int, life lives) []*Task {
	routes, err := e.fronts(life.stop, n)
	var tasks []*Task
	if err == nil {
		tasks, err = e.take(&driver.ClaimRequest{Routes: routes, Limit: n, Next: ended}, life, e.longestLease())
	}
	if err != nil {
		e.fromFront()
		return nil
	}
	next := make(map[string]int, len(tasks))
	for _, t := range tasks {
		next[t.Intent.Task]++
	}
	for _, step := range ended {
		if next[step.Task] != 1 {
			e.Wake()
			break
		}
	}
	return tasks
}
