package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/operator"
)

// removedJSON is what prune and erase print.
type removedJSON struct {
	Matched int `json:"matched"`
	Removed int `json:"removed"`
}

// printRemoved prints a number of intents, what was done to them, and what was not.
func (t *Tree) printRemoved(cmd *cobra.Command, n int, did string, dry bool) error {
	if dry {
		return t.print(cmd, removedJSON{Matched: n}, fmt.Sprintf("%d would be %s", n, did))
	}
	return t.print(cmd, removedJSON{n, n}, fmt.Sprintf("%d %s", n, did))
}

// Age reads a duration with whole days: "30d", "12h".
func Age(s string) (time.Duration, error) {
	var days int
	if n, err := fmt.Sscanf(s, "%dd", &days); n == 1 && err == nil && s == fmt.Sprintf("%dd", days) {
		return time.Duration(days) * 24 * time.Hour, nil
	}
	return time.ParseDuration(s)
}

func (t *Tree) prune() *cobra.Command {
	var older, profile string
	dry := false
	cmd := &cobra.Command{
		Use:   "prune --older-than AGE",
		Short: "Remove what has ended and is old",
		Long: `Remove what has ended and was created longer ago than --older-than, with its history, and
print how many. What is open, or waits for a person, stays. --dry-run counts.`,
		Example: `  consign prune --older-than 30d --by retention`,
		Args:    cobra.NoArgs,
	}
	by := who(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		age, err := Age(older)
		if err != nil || age < 0 {
			return usage(`--older-than is missing, or no age, like "30d" or "12h"`)
		}
		o, err := t.desk(cmd)
		if err != nil {
			return err
		}
		progress(cmd.Context(), "pruning")
		now, err := t.program.Now(cmd.Context())
		if err != nil {
			return err
		}
		f := operator.Filter{Profile: consign.Profile(profile), Before: now.Add(-age), Status: []consign.Status{
			consign.StatusDelivered, consign.StatusSucceeded, consign.StatusFailed, consign.StatusCancelled, consign.StatusReconciliationRequired,
		}}
		var n int
		if dry {
			n, err = count(cmd.Context(), o, f, func(s *operator.Summary) bool { return s.ReviewAt.IsZero() })
		} else {
			n, err = o.Prune(cmd.Context(), *by, f.Profile, f.Before)
		}
		if err != nil {
			return err
		}
		return t.printRemoved(cmd, n, "removed", dry)
	}
	cmd.Flags().StringVar(&older, "older-than", "", "`age` by the time of creation, like 30d or 12h")
	cmd.Flags().StringVar(&profile, "profile", "", "only message, or only work")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "count, and remove nothing")
	return cmd
}

func (t *Tree) erase() *cobra.Command {
	var sessions []string
	dry := false
	cmd := &cobra.Command{
		Use:   "erase --session ID",
		Short: "Erase the content of all that belongs to a session or person",
		Long: `Erase the content of everything that belongs to the sessions given, whatever its status, and
print how many intents that were. Nothing of it can be started afterwards; what is in flight
cannot be recalled. --dry-run counts. Nothing found is exit code 4.`,
		Example: `  consign erase --session s-4711 --session s-4712 --by ann`,
		Args:    cobra.NoArgs,
	}
	by := who(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(sessions) == 0 {
			return usage("--session is missing")
		}
		o, err := t.desk(cmd)
		if err != nil {
			return err
		}
		progress(cmd.Context(), "erasing")
		n := 0
		if dry {
			for _, s := range sessions {
				if s == "" {
					continue // blank subjects match nothing
				}
				more, err := count(cmd.Context(), o, operator.Filter{Subject: s}, nil)
				if err != nil {
					return err
				}
				n += more
			}
		} else if n, err = o.Erase(cmd.Context(), *by, sessions); err != nil {
			return err
		}
		if n == 0 {
			return &Error{Code: ExitNothing, Err: errors.New("erase: nothing belongs to these sessions"), Next: "Check how the sessions are spelled, and which database is meant."}
		}
		return t.printRemoved(cmd, n, "erased", dry)
	}
	cmd.Flags().StringArrayVar(&sessions, "session", nil, "session or person; may be given more than once")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "count, and erase nothing")
	return cmd
}

// count walks through a list and counts what only lets pass; nil: all.
func count(ctx context.Context, o *operator.Operator, f operator.Filter, only func(s *operator.Summary) bool) (n int, _ error) {
	for f.Limit = mostPage; ; {
		page, err := o.List(ctx, f)
		if err != nil {
			return 0, err
		}
		for i := range page.Entries {
			if only == nil || only(&page.Entries[i]) {
				n++
			}
		}
		if f.After = page.Next; f.After == "" {
			return n, nil
		}
	}
}
