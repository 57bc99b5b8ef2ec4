package consign

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"

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
	// Channels are the contracts of the channels that this program knows.
	// Messages for other channels are accepted under the default limits; what
	// their contract says is copied by the first program that knows the channel.
	// Default: none.
	Channels []Channel

	// Authority is required by Run and Join. Default: none, and both refuse.
	Authority Authority
}

// Outbox commits intents to one database. It is safe for concurrent use, holds
// no connection and runs nothing by itself.
type Outbox[TX any] struct {
	bound     driver.Bound[TX]
	channels  map[string]Channel
	authority Authority
	fits      atomic.Bool // the schema was seen to fit this program
}

// New checks all contracts and reports every fault in one error. It does no IO:
// whether the schema fits is found out by the first call that writes.
func New[TX any](store Store[TX], o *Options) (*Outbox[TX], error) {
	if o == nil {
		o = &Options{}
	}
	var fs faults
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
	if err := fs.err("new"); err != nil {
		return nil, err
	}
	return &Outbox[TX]{bound: store.Driver(driver.Key{}), channels: channels, authority: o.Authority}, nil
}

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
