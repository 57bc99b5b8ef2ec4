package consign

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/consign-go/consign/internal/dispatch"
	"github.com/consign-go/consign/internal/driver"
)

// Store is an open database: what postgres.New, postgres.NewSQL and sqlite.New
// return. TX is the transaction type of the callers: pgx.Tx or *sql.Tx. The
// interface is sealed: only this module's stores implement it.
type Store[TX any] interface {
	Driver(driver.Key) driver.Bound[TX]
}

// Options are the optional parts of an [Outbox]. The zero value works.
type Options struct {
	// Handlers are the kinds of work that this program delivers, each made by
	// [Work.Handler]. Work of other kinds can be enqueued all the same; what no
	// program serves is stopped for review after HandlerGrace. Default: none.
	Handlers []Handler

	// Channels are the contracts of the channels that this program knows.
	// Messages for other channels are accepted under the default limits; what
	// their contract says is copied by the first program that knows the channel.
	// Default: none.
	Channels []Channel

	// Authority is required by Handlers, Run, Join and Receipt. Default: none; New
	// then refuses handlers with AUTHORITY_MISSING, and the other three refuse.
	// Nothing stands in for it.
	Authority Authority

	// Program is the name under which this program is shown to people, at most
	// 128 bytes of UTF-8 without control characters. Default: the executable's.
	Program string

	// Workers is how many deliveries are in hand at once, 1 to 100,000.
	// Default: 64.
	Workers int

	// AutoDispatch wakes Serve, in this program and on PostgreSQL in all others,
	// right after each commit that Consign makes (EnqueueNow, Run), in the
	// background; after your own commits there is [Outbox.Wake]. It shortens the
	// wait and replaces no scan: a program may end between the commit and the
	// wake-up. Default: off.
	AutoDispatch bool

	// Grace is how long running effects may go on when Serve stops, at most 1 h;
	// writing down what is known takes up to 11 s after it. Give a supervisor that
	// kills at a deadline a longer one. Default: 20 s.
	Grace time.Duration

	// HandlerGrace is how long a due intent that no live program serves waits for
	// one before it is stopped for review, at most 30 days. Default: 15 min.
	HandlerGrace time.Duration

	// Trace returns the trace context (a W3C traceparent, at most 256 bytes of
	// printable ASCII) that is kept with what is enqueued under ctx and is shown to
	// its delivery in [Attempt].Trace; anything longer or other is left out, and an
	// empty one is none. It must be quick. Default: none is kept.
	Trace func(ctx context.Context) string

	// Logger is told what the engine does: ids, codes and durations, never content.
	// What a person must look at is a warning. Default: none.
	Logger *slog.Logger

	// Observe is called for what the engine does, from many goroutines at once; it
	// must not block. Default: none.
	Observe func(Observation)
}

// Outbox commits intents to one database and delivers them. It is safe for
// concurrent use, holds no connection while idle, and runs nothing by itself:
// delivery happens inside Serve, Drain and Visit.
type Outbox[TX any] struct {
	store     Store[TX]
	bound     driver.Bound[TX]
	channels  map[string]Channel
	authority Authority
	engine    *dispatch.Engine
	trace     func(ctx context.Context) string
	auto      bool
	fits      atomic.Bool // the schema was seen to fit this program
}

// New checks all contracts and reports every fault in one error. It does no IO:
// whether the schema fits is found out by the first call that uses it.
func New[TX any](store Store[TX], o *Options) (*Outbox[TX], error) {
	if o == nil {
		o = &Options{}
	}
	var fs faults
	if any(store) == nil {
		fs.add("store", "is nil")
		return nil, fs.err("new")
	}
	channels := make(map[string]Channel, len(o.Channels))
	for i, c := range o.Channels {
		field := "channels[" + strconv.Itoa(i) + "]"
		c = c.filled()
		c.check(&fs, field)
		if _, twice := channels[c.Name]; twice {
			fs.add(field+".name", "is declared twice")
		}
		channels[c.Name] = c
	}
	o.checkHandlers(&fs)
	if o.unauthorised() {
		fs.add("authority", "is missing, and handlers need one; nothing stands in for it")
	}
	fs.name("program", o.Program, 0, 128)
	if o.Workers < 0 || o.Workers > 100_000 {
		fs.add("workers", strconv.Itoa(o.Workers)+", limit 1 to 100000")
	}
	if o.Grace < 0 || o.Grace > time.Hour {
		fs.add("grace", o.Grace.String()+", limit 0s to 1h0m0s")
	}
	if o.HandlerGrace < 0 || o.HandlerGrace > 30*24*time.Hour {
		fs.add("handler_grace", o.HandlerGrace.String()+", limit 0s to 720h0m0s")
	}
	if len(fs) > 0 {
		err := &Error{Op: "new", Faults: fs, Err: ErrInvalid}
		if o.unauthorised() {
			err.Code = CodeAuthorityMissing
		}
		return nil, err
	}
	out := &Outbox[TX]{
		store: store, bound: store.Driver(driver.Key{}), channels: channels, authority: o.Authority, auto: o.AutoDispatch,
		trace: o.Trace,
	}
	out.engine = out.newEngine(o)
	return out, nil
}

// Store returns the store that the outbox was made with.
func (o *Outbox[TX]) Store() Store[TX] { return o.store }

// Now reads the database's clock, which alone decides due times, leases and
// deadlines.
func (o *Outbox[TX]) Now(ctx context.Context) (time.Time, error) {
	now, err := o.bound.Now(ctx)
	return now, failure("now", err)
}

// traced returns the trace context to keep with what is enqueued under ctx.
func (o *Outbox[TX]) traced(ctx context.Context) string {
	if o.trace == nil {
		return ""
	}
	s := o.trace(ctx)
	var fs faults
	if fs.text("trace", s, 0, 256); len(fs) > 0 {
		return ""
	}
	return s
}

// unauthorised reports whether there are handlers, and no authority to ask.
func (o *Options) unauthorised() bool { return len(o.Handlers) > 0 && o.Authority == nil }

// ready finds out once whether the schema fits, through the transaction at hand:
// a program with a single connection has no other.
func (o *Outbox[TX]) ready(ctx context.Context, tx driver.Tx) error {
	if o.fits.Load() {
		return nil
	}
	s, err := tx.Schema(ctx)
	if err != nil {
		return err
	}
	switch {
	case s.Version < driver.SchemaVersion:
		return wrapped{ErrSchema, fmt.Sprintf("the database schema is version %d, this program needs %d: run migrate.Up",
			s.Version, driver.SchemaVersion)}
	case s.Oldest > driver.SchemaVersion:
		return wrapped{ErrSchema, fmt.Sprintf("the database schema is version %d and works with programs from version %d on, "+
			"this one knows %d: update the program", s.Version, s.Oldest, driver.SchemaVersion)}
	}
	o.fits.Store(true)
	return nil
}

// checkSchema is ready for calls that have no transaction at hand.
func (o *Outbox[TX]) checkSchema(ctx context.Context) error {
	if o.fits.Load() {
		return nil
	}
	_, tx, err := o.bound.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	return o.ready(ctx, tx)
}
