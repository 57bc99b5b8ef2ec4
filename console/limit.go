package console

import (
	"sync"
	"time"
)

// limiter counts failures by key within a window of time. Its memory is bounded:
// beyond so many keys the oldest windows make room.
type limiter struct {
	most   int
	window time.Duration
	now    func() time.Time

	mu     sync.Mutex
	counts map[string]*failures
}

type failures struct {
	n     int
	since time.Time
}

const mostKeys = 10_000

// take counts one try of key and reports whether it is allowed; if not, how long
// to wait. A try that turns out well is given back.
func (l *limiter) take(key string) (bool, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	f := l.counts[key]
	if f == nil || now.Sub(f.since) >= l.window {
		if f == nil && len(l.counts) >= mostKeys {
			l.makeRoom(now)
		}
		f = &failures{since: now}
		l.counts[key] = f
	}
	if f.n >= l.most {
		return false, l.window - now.Sub(f.since)
	}
	f.n++
	return true, 0
}

func (l *limiter) giveBack(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.counts[key]; f != nil && f.n > 0 {
		f.n--
	}
}

// makeRoom removes what is over, or else the oldest.
func (l *limiter) makeRoom(now time.Time) {
	oldest := ""
	for key, f := range l.counts {
		if now.Sub(f.since) >= l.window {
			delete(l.counts, key)
		} else if oldest == "" || f.since.Before(l.counts[oldest].since) {
			oldest = key
		}
	}
	if len(l.counts) >= mostKeys {
		delete(l.counts, oldest)
	}
}
