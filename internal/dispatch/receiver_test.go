package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// arrival is a request as the far side saw it.
type arrival struct {
	key        driver.ID
	digest     lifecycle.Digest
	number     int
	generation int64
	owner      lifecycle.Token
	at         time.Time
	done       bool // the far side has acted on it
	known      bool // the sender was told for certain what became of it
	told       lifecycle.EventKind
}

// reply is how the far side answers.
type reply uint8

const (
	accept    reply = iota // acts and says so
	refuse                 // acts not, and may be asked again
	reject                 // acts not, and never will
	unsent                 // is not reached
	swallow                // acts, and the answer is lost
	drop                   // acts not, and the connection breaks
	hang                   // acts, and does not answer before the sender gives up
	panicked_              // acts, and the sender's code panics
)

// receiver is the far side with its own log.
type receiver struct {
	answer func(a arrival, n int) reply // n: how often this key has come, from 1; it must not wait
	takes  time.Duration                // until a request arrives

	mu      sync.Mutex
	log     []arrival
	running int
	most    int // at once
}

func newReceiver() *receiver {
	return &receiver{answer: func(arrival, int) reply { return accept }}
}

// script answers the n-th coming of each key with the n-th reply; the last repeats.
func (f *receiver) script(replies ...reply) {
	f.answer = func(_ arrival, n int) reply { return replies[min(n, len(replies))-1] }
}

var errBroken = errors.New("connection reset")

func (f *receiver) receive(ctx context.Context, t *Task, a Attempt) error {
	in := arrival{
		key: a.Key, digest: t.state.Digest, number: a.Number, generation: a.Generation, owner: t.owner, at: time.Now(), known: true,
	}
	defer f.enter()()
	f.mu.Lock()
	n := 1
	for _, earlier := range f.log {
		if earlier.key == a.Key {
			n++
		}
	}
	r := f.answer(in, n)
	var err error
	switch r {
	case accept:
		in.done, in.told = true, lifecycle.EvSucceeded
	case refuse:
		in.told, err = lifecycle.EvRefused, &Definite{Event: lifecycle.EvRefused, Err: errBroken, HTTP: 429}
	case reject:
		in.told, err = lifecycle.EvRejected, &Definite{Event: lifecycle.EvRejected, Err: errBroken, HTTP: 400}
	case unsent:
		in.told, err = lifecycle.EvNotSent, &Definite{Event: lifecycle.EvNotSent, Err: errBroken}
	default:
		in.done, in.known, err = r != drop, false, errBroken
	}
	f.log = append(f.log, in)
	f.mu.Unlock()
	switch r {
	case hang:
		<-ctx.Done()
		return ctx.Err()
	case panicked_:
		panic("boom")
	}
	return err
}

// enter counts a request in, and out again, and lets it take its time.
func (f *receiver) enter() (leave func()) {
	count := func(n int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.running += n
		f.most = max(f.most, f.running)
	}
	count(1)
	time.Sleep(f.takes)
	return func() { count(-1) }
}

// all is what came so far.
func (f *receiver) all() []arrival {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

// arrivals is what came under a key.
func (f *receiver) arrivals(key driver.ID) (out []arrival) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.log {
		if a.key == key {
			out = append(out, a)
		}
	}
	return out
}
