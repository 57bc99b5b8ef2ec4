package dispatch

import (
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Observation is something that the engine did. It holds ids, codes, durations
// and counts, never content.
type Observation struct {
	Event    string // "claim", "start", "settle", "fence", "sweep", "listen", "error"
	Profile  lifecycle.Profile
	Kind     string // the kind or channel; empty where several are meant
	Ref      driver.ID
	Status   lifecycle.Status
	Code     lifecycle.Code
	Outcome  lifecycle.EventKind // of a settle
	Attempt  int
	Count    int           // rows of a claim or a sweep
	Duration time.Duration // of the claim, the wait for the start, the effect
	Write    time.Duration // of a start and of a settle after its effect: until it was durable
	Err      error         // of an error, and why hints are no longer heard; of the database, never of user code
}

// observes reports whether anybody wants to know. Whoever reads the clock only to
// tell asks first.
func (e *Engine) observes() bool { return e.Observe != nil }

func (e *Engine) observe(o Observation) {
	if e.Observe != nil {
		e.Observe(o)
	}
}
