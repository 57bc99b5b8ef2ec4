package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/consign-go/consign/cli"
	"github.com/consign-go/consign/cmd/consign/internal/config"
	"github.com/consign-go/consign/webhook"
)

// probeTimeout is how long doctor tries to reach one receiver.
const probeTimeout = 5 * time.Second

// checks are what doctor looks at beside the database. No finding shows a URL: it may
// hold a token.
func checks(c *config.Config) []cli.Check {
	return []cli.Check{
		{Name: "channels", Look: func(context.Context) ([]cli.Finding, error) { return declared(c), nil }},
		{Name: "receivers", Look: func(ctx context.Context) ([]cli.Finding, error) { return reached(ctx, c), nil }},
	}
}

// declared looks at what the channels say of themselves.
func declared(c *config.Config) (found []cli.Finding) {
	if len(c.Channels) == 0 {
		found = append(found, cli.Finding{Warning: true,
			What: "no channel is declared: serve would deliver nothing",
			Fix:  "Declare one in the configuration or by --webhook, unless other programs deliver."})
	}
	for i := range c.Channels {
		if ch := &c.Channels[i]; !ch.Signed {
			found = append(found, cli.Finding{Warning: true,
				What: fmt.Sprintf("channel %s sends unsigned: its receiver cannot tell who sends", ch.Name),
				Fix:  "Give it a secret by secret_env or secret_file, unless the receiver knows you in another way."})
		}
	}
	return found
}

// reached connects to each receiver and sends nothing.
func reached(ctx context.Context, c *config.Config) (found []cli.Finding) {
	for i := range c.Channels {
		ch := &c.Channels[i]
		if ch.Endpoint == nil || !ch.HasURL {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		err := ch.Endpoint.Probe(ctx)
		cancel()
		var e *webhook.Error
		if errors.As(err, &e) {
			found = append(found, cli.Finding{What: fmt.Sprintf("the receiver of channel %s cannot be reached: %s", ch.Name, e), Fix: fix(e.Stage)})
		}
	}
	return found
}

// fix is what to do about a stage.
func fix(stage string) string {
	switch stage {
	case "policy":
		return "The name leads to an address that is not public. Name its network by allow if that is meant."
	case "resolve":
		return "Check the host in the URL, and this machine's resolver."
	case "proxy":
		return "Check the proxy, and whether it lets this receiver through."
	case "tls":
		return "Check the receiver's certificate; ca_file names authorities of your own."
	}
	return "Check the URL's host and port, firewalls, and whether the receiver is up. Deliveries are tried again until then."
}
