package dispatch

import (
	"math"
	"testing"
	"time"
)

// The waits of a channel on schedule, as the public API hands them over.
var onSchedule = Schedule{
	Waits: []time.Duration{
		5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour,
	},
	Jitter: 0.2,
}

func TestReadyMadeScheduleIsEightAttemptsInAbout28Hours(t *testing.T) {
	var total time.Duration
	for n := 1; n < 8; n++ {
		total += onSchedule.wait(n, 0, 0)
	}
	if total < 27*time.Hour || total > 29*time.Hour {
		t.Errorf("8 attempts take %s", total)
	}
}

func TestScheduleOfWaits(t *testing.T) {
	for n, want := range map[int]time.Duration{0: 5 * time.Second, 1: 5 * time.Second, 2: 5 * time.Minute, 6: 10 * time.Hour, 7: 10 * time.Hour, 999: 10 * time.Hour} {
		if got := onSchedule.wait(n, 0, 0); got != want {
			t.Errorf("after attempt %d: %s, want %s", n, got, want)
		}
	}
}

func TestExponentialScheduleIsCapped(t *testing.T) {
	s := Schedule{First: 10 * time.Second, Factor: 2, Max: time.Hour}
	for n, want := range map[int]time.Duration{1: 10 * time.Second, 2: 20 * time.Second, 5: 160 * time.Second, 10: time.Hour, 1000000: time.Hour} {
		if got := s.wait(n, 0, 0); got != want {
			t.Errorf("after attempt %d: %s, want %s", n, got, want)
		}
	}
}

// What failed together comes back apart, and nobody comes back early.
func TestJitterOnlyAdds(t *testing.T) {
	for _, s := range []Schedule{onSchedule, DefaultSchedule} {
		for n := 1; n < 12; n++ {
			least := s.wait(n, 0, 0)
			most := least + least/5
			if got := s.wait(n, 0, math.Nextafter(1, 0)); got > most {
				t.Errorf("after attempt %d: up to %s", n, got)
			}
			apart := false
			for range 100 {
				got := s.next(n, 0)
				apart = apart || got != s.next(n, 0)
				if got < least || got > most {
					t.Errorf("after attempt %d: %s, not in [%s, %s]", n, got, least, most)
				}
			}
			if !apart {
				t.Error("all waits are the same")
			}
		}
	}
}

func TestReceiversWishIsHonouredAndCapped(t *testing.T) {
	for wish, want := range map[time.Duration]time.Duration{
		0: 5 * time.Second, time.Second: 5 * time.Second, time.Minute: time.Minute, 24 * time.Hour: 24 * time.Hour,
		1000 * time.Hour: 24 * time.Hour, -time.Hour: 5 * time.Second,
	} {
		if got := onSchedule.wait(1, wish, 0); got != want {
			t.Errorf("a wish of %s: %s, want %s", wish, got, want)
		}
		if got := onSchedule.next(1, wish); got < want {
			t.Errorf("a wish of %s: %s is early", wish, got)
		}
	}
}
