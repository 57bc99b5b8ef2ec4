package consigntest

import (
	"bytes"
	"context"
	"sync"

	"github.com/consign-go/consign"
)

// Receiver is a far side: it records what reaches it and answers with the outcomes
// it was given, one after another. It is safe for concurrent use.
type Receiver struct {
	mu       sync.Mutex
	outcomes []error
	attempts []consign.Attempt
	messages []consign.Message
}

// NewReceiver returns a receiver that answers the first attempt with the first
// outcome, and so on; nil is a success, and so is everything after the last. Other
// outcomes are [consign.NotSent], [consign.Refused], [consign.Rejected], or any
// error for one that is unknown.
func NewReceiver(outcomes ...error) *Receiver { return &Receiver{outcomes: outcomes} }

// Channel returns a channel whose messages reach a receiver. It repeats on a
// schedule and, since a receiver can tell repeated keys, is idempotent; change what
// the test needs otherwise.
func Channel(name string, outcomes ...error) (consign.Channel, *Receiver) {
	r := NewReceiver(outcomes...)
	return consign.Channel{Name: name, Retry: consign.OnSchedule, Idempotent: true, Deliver: r.deliver}, r
}

// Send is a function for [consign.Delivery.Effect].
func (r *Receiver) Send(_ context.Context, a consign.Attempt) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.take(a)
}

func (r *Receiver) deliver(_ context.Context, m consign.Message, a consign.Attempt) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, m)
	return r.take(a)
}

func (r *Receiver) take(a consign.Attempt) error {
	a.Request = bytes.Clone(a.Request)
	r.attempts = append(r.attempts, a)
	if n := len(r.attempts); n <= len(r.outcomes) {
		return r.outcomes[n-1]
	}
	return nil
}

// Attempts returns every attempt that has reached the receiver, in order.
func (r *Receiver) Attempts() []consign.Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]consign.Attempt(nil), r.attempts...)
}

// Messages returns the message of every attempt through a channel, in order.
func (r *Receiver) Messages() []consign.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]consign.Message(nil), r.messages...)
}
