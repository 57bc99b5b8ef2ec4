// Package daemon is "consign serve": it keeps an outbox delivering under a
// configuration that can be reloaded, tells a supervisor how it is, and stops
// gracefully.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/cli"
	"github.com/consign-go/consign/cmd/consign/internal/config"
	"github.com/consign-go/consign/cmd/consign/internal/database"
	"github.com/consign-go/consign/cmd/consign/internal/metrics"
	"github.com/consign-go/consign/cmd/consign/internal/tracing"
	"github.com/consign-go/consign/console"
	"github.com/consign-go/consign/migrate"
)

// Daemon serves one database.
type Daemon struct {
	// Load reads the configuration, at the start and for each reload.
	Load func() (*config.Config, error)

	// Reload tells when to do that.
	Reload <-chan struct{}

	Log     *slog.Logger
	Version string

	// Person is where somebody reads along, and gets a link to the console; nil:
	// nobody does.
	Person io.Writer

	config  *config.Config
	db      *database.Database
	metrics *metrics.Metrics
	tracing *tracing.Tracing
	health  health
	console *console.Console // nil: there is none
	proxied bool             // a proxy says who is there

	retention atomic.Int64 // of the configuration in use
}

// flush is how long traces have at the end.
const flush = 3 * time.Second

// Run serves until ctx ends. Then nothing new is claimed, running effects may end
// within the grace period, and what is known is written down.
func (d *Daemon) Run(ctx context.Context) (err error) {
	if d.config, err = d.Load(); err != nil {
		return err
	}
	c := d.config
	d.metrics = metrics.New(d.Version)
	d.db, err = database.Open(ctx, c.DB, database.Options{Schema: c.Schema, Prefix: c.Prefix, Create: c.Migrate})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.db.Close()) }()
	if err := d.prepare(ctx); err != nil {
		return err
	}
	if d.tracing, err = tracing.Start(ctx, c.Trace.Endpoint, "consign", d.Version, c.Trace.Sample); err != nil {
		return err
	}
	defer d.stopTracing(ctx)
	// A first outbox, before anything is opened: what it is made of may be faulty.
	program, err := d.program(c)
	if err != nil {
		return err
	}
	d.use(c)
	d.health.program.Store(program)
	listener, err := listen(c.Listen)
	if err != nil {
		return err
	}
	if err := d.mount(c, listener); err != nil {
		return err
	}
	defer d.open(ctx, listener)()
	attending, stop := context.WithCancel(ctx)
	var aside sync.WaitGroup
	defer aside.Wait()
	defer stop()
	aside.Go(func() { d.attend(attending) })
	return d.serve(ctx, program)
}

// prepare brings the tables up, where that is allowed, and says what a setting
// endangers.
func (d *Daemon) prepare(ctx context.Context) error {
	if d.config.Migrate {
		steps, err := migrate.Up(ctx, d.db.Store)
		if err != nil {
			return err
		}
		for _, s := range steps {
			d.Log.Info("migrated", "step", fmt.Sprintf("%04d_%s", s.Version, s.Name))
		}
	}
	advice, err := d.db.Advise(ctx)
	if err != nil {
		return err
	}
	for _, a := range advice {
		d.Log.Warn("setting", "advice", a)
	}
	return nil
}

// program makes an outbox under a configuration.
func (d *Daemon) program(c *config.Config) (*cli.Program, error) {
	o := c.Options()
	for i := range o.Channels {
		o.Channels[i] = d.tracing.Channel(o.Channels[i])
	}
	o.Trace = tracing.Capture
	o.Observe, o.Logger = d.observe, d.Log
	return d.db.Program(o)
}

func (d *Daemon) observe(o consign.Observation) {
	d.health.observe(o)
	d.metrics.Observe(o)
}

// use puts a configuration into use of which a program was made.
func (d *Daemon) use(c *config.Config) {
	kinds := make([]string, len(c.Channels))
	for i := range c.Channels {
		kinds[i] = c.Channels[i].Name
	}
	d.metrics.Declare(kinds)
	d.retention.Store(int64(c.Retention))
	d.config = c
}

// serving is one outbox at work.
type serving struct {
	stop  context.CancelFunc
	ended chan error
}

func start(ctx context.Context, p *cli.Program) *serving {
	ctx, stop := context.WithCancel(ctx)
	s := &serving{stop: stop, ended: make(chan error, 1)}
	go func() { s.ended <- p.Serve(ctx) }()
	return s
}

// serve runs the outbox, and another in its place after each reload. The old one
// drains while the new one is at work already, as two programs on one database do.
func (d *Daemon) serve(ctx context.Context, p *cli.Program) error {
	var old sync.WaitGroup
	defer old.Wait()
	now := start(ctx, p)
	d.health.serving.Store(true)
	d.Log.Info("serving", "database", d.db.Kind, "channels", len(d.config.Channels), "version", d.Version)
	for {
		select {
		case err := <-now.ended:
			d.health.serving.Store(false)
			now.stop()
			return err
		case <-ctx.Done():
			d.health.serving.Store(false)
			d.Log.Info("stopping: what runs may end, and what is known is written down; a second signal stops at once")
			err := <-now.ended
			now.stop()
			if err == nil {
				d.Log.Info("stopped")
			}
			return err
		case <-d.Reload:
			next, err := d.reload()
			d.metrics.Reloaded(err == nil)
			if err != nil {
				d.Log.Error("the configuration was not reloaded; the old one stays", "faults", err.Error())
				continue
			}
			before := now
			now = start(ctx, next)
			d.health.program.Store(next)
			before.stop()
			old.Go(func() {
				if err := <-before.ended; err != nil {
					d.Log.Warn("what the old configuration had in hand did not end", "error", err)
				}
			})
			d.Log.Info("reloaded", "channels", len(d.config.Channels))
		}
	}
}

// reload reads the configuration anew. What is opened stays as it is.
func (d *Daemon) reload() (*cli.Program, error) {
	c, err := d.Load()
	if err != nil {
		return nil, err
	}
	if c.DB != d.config.DB || c.Schema != d.config.Schema || c.Prefix != d.config.Prefix || c.Listen != d.config.Listen || c.Trace != d.config.Trace {
		d.Log.Warn("database, address and traces are not reloaded: restart for those")
	}
	if !c.Console.Alike(&d.config.Console) {
		d.Log.Warn("of the console only the users are reloaded: restart for the rest")
	}
	p, err := d.program(c)
	if err != nil {
		return nil, err
	}
	if err := d.reloadUsers(c); err != nil {
		return nil, err
	}
	d.use(c)
	return p, nil
}

func (d *Daemon) stopTracing(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flush)
	defer cancel()
	if err := d.tracing.Stop(ctx); err != nil {
		d.Log.Warn("the last traces were not exported", "error", err)
	}
}

// listen opens the address; nil: none is wanted.
func listen(address string) (net.Listener, error) {
	if address == "off" {
		return nil, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, &cli.Error{Code: cli.ExitFailed, Err: fmt.Errorf("serve: %w", err), Next: "Choose another address by --listen, or none by --listen off."}
	}
	return l, nil
}
