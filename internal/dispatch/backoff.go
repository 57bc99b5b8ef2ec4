package dispatch

import (
	"math/rand/v2"
	"time"
)

// Schedule says how long to wait before each further attempt.
type Schedule struct {
	// Waits are the times after the first, second, … attempt; the last repeats.
	Waits []time.Duration

	// First, Factor and Max make an exponential schedule where Waits is empty.
	First  time.Duration
	Factor float64
	Max    time.Duration

	// Jitter is the largest part of a wait that is added to it at random, so that
	// what failed together does not come back together. It only ever adds: a
	// receiver that asked for a time is never hit earlier.
	Jitter float64
}

// DefaultSchedule waits 10 s, then twice as long each time, up to an hour.
var DefaultSchedule = Schedule{First: 10 * time.Second, Factor: 2, Max: time.Hour, Jitter: 0.2}

// maxWish is the longest wait that a receiver can ask for.
const maxWish = 24 * time.Hour

// wait returns the time after attempt n (from 1), at least what the receiver
// wished for, jitter added. random is in [0, 1).
func (s *Schedule) wait(n int, wish time.Duration, random float64) time.Duration {
	var d time.Duration
	if len(s.Waits) > 0 {
		d = s.Waits[min(max(n, 1), len(s.Waits))-1]
	} else {
		f := float64(s.First)
		for i := 1; i < n && f < float64(s.Max); i++ {
			f *= s.Factor
		}
		d = min(time.Duration(f), s.Max)
	}
	d = max(d, min(wish, maxWish))
	return d + time.Duration(float64(d)*s.Jitter*random)
}

func (s *Schedule) next(n int, wish time.Duration) time.Duration {
	return s.wait(n, wish, rand.Float64())
}
