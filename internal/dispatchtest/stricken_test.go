//go:build unix

package dispatchtest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// The durable steps of a delivery.
const (
	theClaim  = "claim"
	theStart  = "start"
	theSettle = "settle"
)

var durableSteps = []string{theClaim, theStart, theSettle}

// errGone is what a caller is told whose call got no answer.
var errGone = errors.New("the connection is gone")

// stricken is a store that something befalls in one call: the first that is a
// certain step.
type stricken struct {
	driver.Driver
	step   string
	befall func(call func() error) error // makes the call, or not, and says what its caller is told

	once sync.Once
}

func (s *stricken) strike(step string, call func() error) error {
	now := false
	if step == s.step {
		s.once.Do(func() { now = true })
	}
	if !now {
		return call()
	}
	return s.befall(call)
}

func (s *stricken) Claim(ctx context.Context, r driver.ClaimRequest) (out []driver.Claimed, err error) {
	err = s.strike(theClaim, func() (err error) {
		out, err = s.Driver.Claim(ctx, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *stricken) Apply(ctx context.Context, ts []lifecycle.Transition) (held []bool, err error) {
	step := ""
	switch {
	case starting(&ts[0]):
		step = theStart
	case ending(&ts[0]):
		step = theSettle
	}
	err = s.strike(step, func() (err error) {
		held, err = s.Driver.Apply(ctx, ts)
		return err
	})
	if err != nil {
		return nil, err
	}
	return held, nil
}

// smooth is a delivery that went as if nothing had befallen it.
type smooth struct {
	kind
	what    string
	refused int // requests, before one was accepted
}

func smoothly(k kind, what string) smooth { return smooth{kind: k, what: what} }

// check: one claim, one start and one outcome for each request, each written once.
func (s smooth) check(t *testing.T, f *finding) {
	t.Helper()
	claims, steps, refusals := 1+s.refused, 3+3*s.refused, 0
	if s.process() { // the loop goes on under its claim
		claims, steps = 1, 3+2*s.refused
	}
	doubted := false
	for _, step := range f.steps {
		doubted = doubted || step.is.uncertain || step.is.crashes > 0
	}
	for _, l := range f.log {
		if l.outcome == outcomeRefused && !l.late {
			refusals++
		}
	}
	if f.now.status != isSucceeded || int(f.now.generation) != claims || len(f.steps) != steps || f.now.attempts != claims && !s.process() ||
		len(f.came) != 1+s.refused || refusals != s.refused || len(f.log) > 1+s.refused || doubted {
		t.Errorf("%s of %s: want %d claims, %d changes, %d requests and no doubt\n%s", s.what, s.Name, claims, steps, 1+s.refused, f.story())
	}
}
