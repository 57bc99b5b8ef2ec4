package daemon

import (
	"context"
	"fmt"
	"net"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/cmd/consign/internal/config"
	"github.com/consign-go/consign/console"
)

// checker checks proofs with the channels of the configuration in use.
type checker struct{ health *health }

func (c checker) CheckProof(ctx context.Context, channel string, p consign.Proof) (string, error) {
	return c.health.program.Load().CheckProof(ctx, channel, p)
}

const nobody = "nobody can sign in to the console: the configuration names no users and no proxy"

// reloadUsers puts the users of c into use.
func (d *Daemon) reloadUsers(c *config.Config) error {
	if d.console == nil {
		return nil
	}
	err := d.console.SetUsers(c.Console.Options.Users)
	if err == nil && len(c.Console.Options.Users) == 0 && !d.proxied && len(d.config.Console.Options.Users) > 0 {
		d.Log.Warn(nobody)
	}
	return err
}

// mount makes the console, where one is wanted. Where nobody is configured who may
// sign in, a person who reads along gets a link that works once; it is no line of
// the log, since whoever has it can use it.
func (d *Daemon) mount(c *config.Config, l net.Listener) (err error) {
	if l == nil || c.Console.Off {
		return nil
	}
	o := c.Console.Options
	o.Logger, o.Proofs = d.Log, checker{&d.health}
	d.proxied = o.Proxy != nil
	if d.console, err = d.db.Console(&o); err != nil {
		return fmt.Errorf("console: %w", err)
	}
	if len(o.Users) > 0 || o.Proxy != nil {
		return nil
	}
	if d.Person == nil {
		d.Log.Info(nobody)
		return nil
	}
	link, err := d.console.SignInLink("http://"+l.Addr().String()+config.ConsolePath, console.Identity{Name: "operator", Role: console.Admin})
	if err == nil {
		fmt.Fprintf(d.Person, "The console, for the next 15 minutes and once: %s\n", link)
	}
	return err
}
