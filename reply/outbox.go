package reply

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
)

// Options are the optional parts of an [Outbox]. The zero value works.
type Options struct {
	// Channels are the contracts of channels, for what differs from the defaults of
	// [consign.Channel]: PayloadLimit and MaxAge hold for what is created here; Lease
	// is how long a claim by hand holds, and so the gate of its task; Idempotent says
	// that what may have arrived already may be claimed and sent again. Deliver and
	// what concerns retries are not used: whoever claims by hand owns those. They are
	// checked as consign.New checks them, so a lease shorter than the default loop's
	// 46 s needs a Timeout and MaxAttempts that fit into it.
	// Default: none, so leases of 60 s and payloads of 16 KiB.
	Channels []consign.Channel

	// Program is the name under which this program is shown to people, at most
	// 128 bytes of UTF-8 without control characters. Default: the executable's.
	Program string
}

// defaultLease is how long a claim holds on a channel that was not declared.
const defaultLease = 60 * time.Second

// Outbox creates replies in one database and hands them out to be sent. It is safe
// for concurrent use, holds no connection while idle, and runs nothing by itself.
type Outbox[TX any] struct {
	messages *consign.Outbox[TX]
	bound    driver.Bound[TX]
	channels map[string]consign.Channel
	present  presence
	fits     atomic.Bool // the schema was seen to fit this program
}

// New checks the options and reports every fault in one error. It does no IO.
func New[TX any](store consign.Store[TX], o *Options) (*Outbox[TX], error) {
	if o == nil {
		o = &Options{}
	}
	messages, err := consign.New(store, &consign.Options{Channels: o.Channels, Program: o.Program})
	if err != nil {
		return nil, err
	}
	out := &Outbox[TX]{messages: messages, bound: store.Driver(driver.Key{}), channels: map[string]consign.Channel{}}
	for _, c := range o.Channels {
		out.channels[c.Name] = c
	}
	name := o.Program
	if name == "" {
		name = filepath.Base(os.Args[0])
	}
	registry, _ := out.bound.(driver.Registry)
	out.present.open(registry, name)
	return out, nil
}

// ready finds out once whether the schema fits: creating nothing asks for it.
func (o *Outbox[TX]) ready(ctx context.Context, op string) error {
	if o.fits.Load() {
		return nil
	}
	if _, err := o.messages.EnqueueAllNow(ctx, nil); err != nil {
		return renamed(op, err)
	}
	o.fits.Store(true)
	return nil
}

// load returns the stored message, nil where there is none. An erased one is
// returned without content.
func (o *Outbox[TX]) load(ctx context.Context, id consign.Ref) (*driver.Record, error) {
	return load(ctx, o.bound, driver.ID(id.ID))
}

func load(ctx context.Context, store driver.Driver, ref driver.ID) (*driver.Record, error) {
	found, err := store.Load(ctx, []driver.ID{ref})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// failure turns an error of the store into an error of op.
func failure(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrClosed):
		err = consign.ErrClosed
	case errors.Is(err, driver.ErrNoSchema):
		err = consign.ErrSchema
	}
	return &consign.Error{Op: op, Err: err}
}

// renamed is an error of package consign under the operation's name here.
func renamed(op string, err error) error {
	var e *consign.Error
	if !errors.As(err, &e) {
		return err
	}
	return &consign.Error{Op: op, Faults: slices.Clone(e.Faults), Err: e.Err}
}
