package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/consign-go/consign"
)

func (t *Tree) serve() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Scan, sweep and deliver until stopped",
		Long: `Scan, sweep and deliver until the context of the program ends, then stop gracefully:
nothing new is claimed, what runs may end, and what is known is written down.`,
		Example: `  consign serve`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := t.open(cmd, Need{Deliver: true})
			if err != nil {
				return err
			}
			return p.outbox.Serve(cmd.Context())
		},
	}
}

func (t *Tree) drain() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Deliver what is due, once, and print what became of each",
		Long: `Visit up to --limit due or expired intents and print a line for each: ref, status, code.
It installs no schedule. It ends with 0 whatever became of the deliveries, and where
nothing was due; with other codes where it could not look.`,
		Example: `  consign drain --limit 50`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usage("--limit is negative")
			}
			p, err := t.open(cmd, Need{Deliver: true})
			if err != nil {
				return err
			}
			progress(cmd.Context(), "delivering")
			rs, err := p.outbox.Drain(cmd.Context(), limit)
			slices.SortFunc(rs, func(a, b consign.Result) int { return strings.Compare(a.Ref.String(), b.Ref.String()) })
			for _, r := range rs {
				if perr := t.printResult(cmd, r); err == nil {
					err = perr
				}
			}
			return err
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 100, "how `many` at most")
	return cmd
}

func (t *Tree) scan() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "scan",
		Short: "Print the refs that are due, for workers that visit them",
		Long: `Print the refs of up to --limit due or expired intents, one per line, without taking them:
for a queue whose workers run "visit". It installs no schedule, and a ref that is never
visited is printed again by the next scan.`,
		Example: `  consign scan --limit 20 | xargs -n 1 consign visit`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usage("--limit is negative")
			}
			p, err := t.open(cmd, Need{Deliver: true})
			if err != nil {
				return err
			}
			progress(cmd.Context(), "scanning")
			_, err = p.outbox.Scan(cmd.Context(), &printer{t, cmd}, limit)
			return err
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 100, "how `many` at most")
	return cmd
}

// printer is a queue that prints what is pushed to it.
type printer struct {
	tree *Tree
	cmd  *cobra.Command
}

// Push prints refs.
func (p *printer) Push(ctx context.Context, refs []consign.Ref) error {
	for _, r := range refs {
		if err := p.tree.print(p.cmd, map[string]string{"ref": r.String()}, r.String()); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tree) visit() *cobra.Command {
	return &cobra.Command{
		Use:   "visit REF",
		Short: "Drive one intent through what it is due for",
		Long: `Drive one intent through whatever it is due for, and print ref, status and code. It ends
with 0 where the far side is known to have accepted it, with 3 where somebody else holds
it (code FENCED), with 4 where there is no such intent, and with 1 otherwise.`,
		Example: `  consign visit 0198c5f0-1f7e-7cc3-98c4-dc0c0c07398f`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := refArg(args)
			if err != nil {
				return err
			}
			p, err := t.open(cmd, Need{Deliver: true})
			if err != nil {
				return err
			}
			progress(cmd.Context(), "visiting")
			r, err := p.outbox.Visit(cmd.Context(), ref)
			if err != nil {
				return err
			}
			if err := t.printResult(cmd, r); err != nil || r.Success() {
				return err
			}
			out := &Error{Code: ExitFailed, Err: fmt.Errorf("visit: not delivered: it is %s", r.Status),
				Next: fmt.Sprintf("Run \"%s show %s\" for what is known about it.", t.opt.Name, ref)}
			if r.Code == consign.CodeFenced {
				out.Code = ExitRefused
			}
			return out
		},
	}
}
