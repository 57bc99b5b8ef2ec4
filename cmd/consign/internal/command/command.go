// Package command is the consign command: the tree of package cli on a database that
// flags and a configuration name, with the daemon and the demonstration beside it.
package command

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/consign-go/consign/cli"
	"github.com/consign-go/consign/cmd/consign/internal/config"
	"github.com/consign-go/consign/cmd/consign/internal/database"
	"github.com/consign-go/consign/cmd/consign/internal/demo"
	"github.com/consign-go/consign/cmd/consign/internal/tracing"
)

// command is what the flags of every command say.
type command struct {
	tree *cli.Tree

	db, file, logFormat, logLevel string
	webhooks                      []string
	flags                         *pflag.FlagSet
	given                         map[string]bool // on the command line, and not by the environment
}

// Run runs one command and returns its exit code.
func Run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	c := &command{}
	c.tree = cli.New(cli.Options{
		Open: c.open, Flags: c.declare, Input: in,
		Commands: []*cobra.Command{c.serve(), c.demo()},
	})
	return c.tree.Main(ctx, args, out, errOut)
}

func (c *command) declare(f *pflag.FlagSet) {
	c.flags = f
	f.StringVar(&c.db, "db", config.DefaultDB, "`URL` of the database: sqlite:PATH or postgres://HOST/DATABASE; one with a password comes from the environment")
	f.StringVar(&c.file, "config", "", "configuration `file`, TOML")
	f.StringArrayVar(&c.webhooks, "webhook", nil, "a channel, `NAME=URL[,OPTION…]`, beside those of the file")
	f.StringVar(&c.logFormat, "log-format", "text", "text or json")
	f.StringVar(&c.logLevel, "log-level", "info", "debug, info, warn or error")
}

// source is where the configuration comes from.
func (c *command) source(secrets bool) config.Source {
	s := config.Source{File: c.file, Webhooks: c.webhooks, Secrets: secrets}
	if f := c.flags.Lookup("db"); f.Changed {
		// What the environment says is set as a flag, too.
		s.DB, s.FlagDB = c.db, c.db != os.Getenv("CONSIGN_DB")
	}
	return s
}

// open opens the database for one command.
func (c *command) open(ctx context.Context, need cli.Need) (*cli.Program, error) {
	cfg, err := config.Load(c.source(need.Deliver))
	if err != nil {
		return nil, faulty(err)
	}
	db, err := database.Open(ctx, cfg.DB, database.Options{Schema: cfg.Schema, Prefix: cfg.Prefix, Create: need.Create})
	if err != nil {
		return nil, err
	}
	o := cfg.Options()
	o.Trace = tracing.Capture
	p, err := db.Program(o)
	if err != nil {
		db.Close()
		return nil, err
	}
	p.Close = db.Close
	p.Checks = checks(cfg)
	return p, nil
}

// faulty gives the faults of a configuration their exit code and keeps them
// recognisable.
func faulty(err error) error {
	return &cli.Error{Code: cli.ExitUsage, Err: err, Next: "Mend what is listed; docs/daemon.md has every key."}
}

// logger is where the daemon logs to.
func (c *command) logger(out io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.logLevel)); err != nil {
		return nil, &cli.Error{Code: cli.ExitUsage, Err: fmt.Errorf("--log-level is none of debug, info, warn and error")}
	}
	o := &slog.HandlerOptions{Level: level}
	switch c.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(out, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(out, o)), nil
	}
	return nil, &cli.Error{Code: cli.ExitUsage, Err: fmt.Errorf("--log-format is neither text nor json")}
}

func (c *command) demo() *cobra.Command {
	keep := false
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the promises on a throw-away database, and check each one",
		Long: `Commit intents with rows on a throw-away SQLite file and check every promise shown. It ends
with 0 only if all of them held. Nothing outside its temporary folder is touched.`,
		Example: `  consign demo --serve`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := demo.Run(cmd.Context(), cmd.OutOrStdout(), keep); err != nil {
				return &cli.Error{Code: cli.ExitFailed, Err: fmt.Errorf("demo: %w", err),
					Next: "A promise did not hold, or the demonstration could not run. Nothing outside its temporary folder was touched."}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&keep, "serve", false, "show the database in the web console afterwards, until interrupted")
	return cmd
}
