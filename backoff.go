package consign

import (
	"strconv"
	"time"

	"github.com/consign-go/consign/internal/dispatch"
)

// Backoff is when work is tried again after an attempt that may be: after First,
// then Factor times as long each time, up to Max. What the far side asks for is
// waited for where it is longer, up to 24 h, and a fifth of each wait is added at
// random. No attempt starts after the deadline. The zero value is the default
// schedule.
type Backoff struct {
	// First is the wait after the first attempt, at most 7 days. Default: 10 s.
	First time.Duration

	// Factor is 1 to 100. Default: 2.
	Factor float64

	// Max is at least First and at most 7 days. Default: 1 h, or First where that
	// is longer.
	Max time.Duration
}

const maxWait = 7 * 24 * time.Hour

// filled returns the schedule with its defaults.
func (b Backoff) filled() Backoff {
	if b.First == 0 {
		b.First = dispatch.DefaultSchedule.First
	}
	if b.Factor == 0 {
		b.Factor = dispatch.DefaultSchedule.Factor
	}
	if b.Max == 0 {
		b.Max = max(dispatch.DefaultSchedule.Max, b.First)
	}
	return b
}

// check reports what is wrong with a filled schedule.
func (b Backoff) check(fs *faults, field string) {
	if b.First < 0 || b.First > maxWait {
		fs.add(field+".first", b.First.String()+", limit 0s to "+maxWait.String())
	}
	if !(b.Factor >= 1 && b.Factor <= 100) {
		fs.add(field+".factor", strconv.FormatFloat(b.Factor, 'g', -1, 64)+", limit 1 to 100")
	}
	if b.Max < b.First || b.Max > maxWait {
		fs.add(field+".max", b.Max.String()+", limit "+b.First.String()+" (the first wait) to "+maxWait.String())
	}
}

func (b Backoff) schedule() dispatch.Schedule {
	return dispatch.Schedule{First: b.First, Factor: b.Factor, Max: b.Max, Jitter: dispatch.DefaultSchedule.Jitter}
}
