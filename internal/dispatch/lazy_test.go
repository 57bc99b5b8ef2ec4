package dispatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A lazy context is one like any other, whenever it is first asked.
func TestLazyContextEndsLikeAnyOther(t *testing.T) {
	type key struct{}
	for name, c := range map[string]struct {
		before, after func(c *lazyContext, cancelParent func())
		want          error
	}{
		"at its deadline, watched":      {watch, pass(2 * time.Second), context.DeadlineExceeded},
		"at its deadline, asked after":  {nil, pass(2 * time.Second), context.DeadlineExceeded},
		"stopped, watched":              {watch, stop, context.Canceled},
		"stopped, asked after":          {nil, stop, context.Canceled},
		"with its parent, watched":      {watch, func(_ *lazyContext, end func()) { end() }, context.Canceled},
		"with its parent, asked after":  {nil, func(_ *lazyContext, end func()) { end() }, context.Canceled},
		"not yet":                       {watch, pass(time.Second / 2), nil},
		"not yet, and nobody has asked": {nil, pass(time.Second / 2), nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "value"))
				defer cancel()
				c2 := &lazyContext{parent: parent, end: time.Now().Add(time.Second)}
				defer c2.stop()
				if c.before != nil {
					c.before(c2, cancel)
				}
				c.after(c2, cancel)
				synctest.Wait()
				if got := c2.Err(); got != c.want {
					t.Errorf("ended with %v before anybody waited for it, want %v", got, c.want)
				}
				child, cancelChild := context.WithTimeout(c2, time.Hour)
				defer cancelChild()
				if c2.Err() != c.want || child.Err() != c.want || c2.Value(key{}) != "value" || child.Value(key{}) != "value" {
					t.Errorf("ended with %v, its child with %v, want %v", c2.Err(), child.Err(), c.want)
				}
				select {
				case <-c2.Done():
					if c.want == nil {
						t.Error("ended early")
					}
				default:
					if c.want != nil {
						t.Error("not ended")
					}
				}
			})
		})
	}
}

func watch(c *lazyContext, _ func()) { c.Done() }

func stop(c *lazyContext, _ func()) { c.stop() }

func pass(d time.Duration) func(*lazyContext, func()) {
	return func(*lazyContext, func()) { time.Sleep(d) }
}

// Its deadline is the earlier one of two, and what is derived from it ends with it.
func TestLazyContextPassesItsEndOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		parent, cancel := context.WithDeadline(context.Background(), now.Add(time.Minute))
		defer cancel()
		for end, want := range map[time.Duration]time.Duration{time.Second: time.Second, time.Hour: time.Minute} {
			c := &lazyContext{parent: parent, end: now.Add(end)}
			if d, ok := c.Deadline(); !ok || d.Sub(now) != want {
				t.Errorf("deadline in %s, want %s", d.Sub(now), want)
			}
			c.stop()
		}
		c := &lazyContext{parent: parent, end: now.Add(time.Second)}
		child, cancelChild := context.WithCancel(c)
		defer cancelChild()
		called := make(chan struct{})
		context.AfterFunc(child, func() { close(called) })
		<-called
		if took := time.Since(now); took != time.Second || context.Cause(child) != context.DeadlineExceeded {
			t.Errorf("ended after %s: %v", took, context.Cause(child))
		}
		c.stop()
	})
}
