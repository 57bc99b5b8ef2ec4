package dispatch

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// bell is an alarm that keeps when it rang.
type bell struct {
	alarm
	began time.Time
	mu    sync.Mutex
	rang  []time.Duration
}

func newBell() *bell {
	b := &bell{began: time.Now()}
	b.start(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.rang = append(b.rang, time.Since(b.began))
	})
	return b
}

func (b *bell) after(ds ...time.Duration) {
	for _, d := range ds {
		b.at(b.began.Add(d))
	}
}

func TestAlarmRingsAtEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBell()
		b.after(5*time.Second, 3*time.Second, 9*time.Second, 3*time.Second, 4*time.Second)
		time.Sleep(3500 * time.Millisecond)
		b.after(3600*time.Millisecond, time.Second) // the last is past
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []time.Duration{3000, 3500, 3600, 4000, 5000, 9000}
		for i := range want {
			want[i] *= time.Millisecond
		}
		if !slices.Equal(b.rang, want) {
			t.Errorf("rang at %v, want %v", b.rang, want)
		}
	})
}

// Times that lie close together are one, and not one of them is early.
func TestAlarmRingsOnceForTimesCloseTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBell()
		for i := range 1000 {
			b.after(time.Second - time.Duration(i)*time.Microsecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(b.rang) != 1 || b.rang[0] != time.Second {
			t.Errorf("rang at %v", b.rang)
		}
	})
}

func TestAlarmKeepsTheEarliestOfTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBell()
		for i := range 2 * alarms {
			b.after(time.Duration(2*alarms-i) * time.Second)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(b.rang) != alarms || b.rang[0] != time.Second {
			t.Errorf("rang %d times, first at %v", len(b.rang), b.rang[0])
		}
	})
}

func TestAlarmStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBell()
		b.after(time.Second)
		b.stop()
		b.after(time.Second)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(b.rang) != 0 {
			t.Errorf("rang at %v after it was stopped", b.rang)
		}
	})
}
