package consigntest

import (
	"context"
	"testing"

	"github.com/consign-go/consign"
)

// Case is the circumstances of one delivery. The zero value works.
type Case struct {
	// Admission is what the work was left by. Parts left out are operation "test",
	// actor:1 in tenant:1, on target:1.
	Admission consign.Admission

	// Authority is asked. Default: [NewAuthority].
	Authority consign.Authority

	// Visits is how often the work is visited, each time as soon as it is due.
	// Default: until it has ended, at most 100 times.
	Visits int
}

// filled returns the case with its defaults; nil is the zero Case.
func (c *Case) filled() Case {
	var out Case
	if c != nil {
		out = *c
	}
	a := &out.Admission
	if a.Operation.Name == "" {
		a.Operation.Name = "test"
	}
	for e, typ := range map[*consign.Entity]string{&a.Actor: "actor", &a.Tenant: "tenant", &a.Target: "target"} {
		if *e == (consign.Entity{}) {
			*e = consign.Entity{Type: typ, ID: "1"}
		}
	}
	if out.Authority == nil {
		out.Authority = NewAuthority()
	}
	return out
}

// Deliver enqueues one piece of work with this input, drives it through fn on a
// store in memory, and returns what is stored of it afterwards: status, code,
// attempts, whether its outcome is uncertain. The test fails at once where the
// contract, the input or the case is not valid.
func Deliver[T any](
	t testing.TB, w consign.Work[T], fn func(ctx context.Context, d *consign.Delivery, in T) error, in T, c *Case,
) consign.Intent {
	t.Helper()
	return DeliverOn(t, NewStore(), w, fn, in, c)
}

// DeliverOn is [Deliver] on the store that it is given: where the handler or the
// authority reads the program's own tables, one [On] a real database.
func DeliverOn[T any, TX comparable](
	t testing.TB, s *Store[TX], w consign.Work[T], fn func(ctx context.Context, d *consign.Delivery, in T) error, in T, c *Case,
) consign.Intent {
	t.Helper()
	at := c.filled()
	outbox, err := consign.New(s, &consign.Options{Handlers: []consign.Handler{w.Handler(fn)}, Authority: at.Authority})
	if err != nil {
		t.Fatal(err)
	}
	var ref consign.Ref
	_, err = outbox.Run(t.Context(), at.Admission, func(_ context.Context, _ TX, run *consign.Run) (err error) {
		ref, err = w.Enqueue(run, "test", in)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return Drive(t, s, outbox, ref, at.Visits)
}
