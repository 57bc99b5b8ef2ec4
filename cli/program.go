package cli

import (
	"context"
	"sync"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/operator"
)

// Program is the program that the commands are about.
type Program struct {
	outbox outbox
	store  migrate.Store // nil: a store without migrations
	desk   func() (*operator.Operator, error)

	// another makes an outbox with options of its own on the same store.
	another func(o *consign.Options) (outbox, error)

	// Checks are what doctor looks at beside the database. Default: none.
	Checks []Check

	// Close is called when the command is over. Default: nothing is.
	Close func() error
}

// outbox is what the commands need of an outbox, whatever its transactions are.
type outbox interface {
	EnqueueNow(ctx context.Context, m consign.Message) (consign.Ref, error)
	EnqueueAllNow(ctx context.Context, ms []consign.Message) ([]consign.Ref, error)
	Serve(ctx context.Context) error
	Visit(ctx context.Context, ref consign.Ref) (consign.Result, error)
	Drain(ctx context.Context, limit int) ([]consign.Result, error)
	Scan(ctx context.Context, q consign.Queue, limit int) (int, error)
	Wake(ctx context.Context) error
	Now(ctx context.Context) (time.Time, error)
	operator.Checker
}

// Of returns the program around an outbox.
func Of[TX any](o *consign.Outbox[TX]) *Program {
	p := &Program{outbox: o, desk: sync.OnceValues(func() (*operator.Operator, error) { return operator.New(o.Store()) })}
	p.another = func(opt *consign.Options) (outbox, error) { return consign.New(o.Store(), opt) }
	p.store, _ = any(o.Store()).(migrate.Store)
	return p
}

// Operator returns the operator of the program's database.
func (p *Program) Operator() (*operator.Operator, error) { return p.desk() }

// Serve delivers until ctx ends.
func (p *Program) Serve(ctx context.Context) error { return p.outbox.Serve(ctx) }

// CheckProof checks what a receiver has signed, with the channels of the program.
func (p *Program) CheckProof(ctx context.Context, channel string, proof consign.Proof) (string, error) {
	return p.outbox.CheckProof(ctx, channel, proof)
}

// Now reads the database's clock.
func (p *Program) Now(ctx context.Context) (time.Time, error) { return p.outbox.Now(ctx) }

func (p *Program) close() error {
	if p.Close == nil {
		return nil
	}
	return p.Close()
}
