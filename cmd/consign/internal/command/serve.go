package command

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/consign-go/consign/cli"
	"github.com/consign-go/consign/cmd/consign/internal/config"
	"github.com/consign-go/consign/cmd/consign/internal/daemon"
)

func (c *command) serve() *cobra.Command {
	var listen, endpoint string
	migrate := true
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon: deliver, sweep, tell how it is",
		Long: `Deliver what is committed to the database, through the channels of --config and --webhook,
until SIGTERM or SIGINT. Then nothing new is claimed, what runs may end within the grace
period, and what is known is written down; a second signal stops at once. SIGHUP reloads
the channels and the console's users.

On --listen it answers /livez, /readyz and /metrics, and shows the web console. Any number of daemons may serve one
PostgreSQL database; an SQLite file is served by programs on one machine.`,
		Example: `  consign serve --webhook crm=https://crm.example/hooks,idempotent,secret_env=CRM_SECRET`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := c.logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			reload := make(chan struct{}, 1)
			defer onHangup(reload)()
			d := &daemon.Daemon{Log: log, Version: cli.Version(), Reload: reload}
			if cli.Terminal(cmd.ErrOrStderr()) {
				d.Person = cmd.ErrOrStderr()
			}
			d.Load = func() (*config.Config, error) {
				s := c.source(true)
				s.Listen, s.Endpoint = listen, endpoint
				if cmd.Flags().Changed("migrate") {
					s.Migrate = &migrate
				}
				cfg, err := config.Load(s)
				if err != nil {
					return nil, faulty(err)
				}
				return cfg, nil
			}
			return d.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "", "`address` of health, metrics and console, or off (default "+config.DefaultListen+")")
	f.StringVar(&endpoint, "trace-endpoint", "", "`URL` that traces go to, OTLP over HTTP")
	f.BoolVar(&migrate, "migrate", true, "bring the tables up at the start")
	return cmd
}

// onHangup asks for a reload at each SIGHUP; one that is asked for already will do.
func onHangup(reload chan<- struct{}) (stop func()) {
	hangup, ended := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(hangup, syscall.SIGHUP)
	go func() {
		defer close(ended)
		for range hangup {
			select {
			case reload <- struct{}{}:
			default:
			}
		}
	}()
	return func() {
		signal.Stop(hangup)
		close(hangup)
		<-ended
	}
}
