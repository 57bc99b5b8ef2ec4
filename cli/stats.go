package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/operator"
)

// statsJSON is how much there is of everything.
type statsJSON struct {
	At           moment      `json:"at"`
	Counts       []countJSON `json:"counts"`
	OldestDue    moment      `json:"oldest_due"` // of what is due; null: nothing is
	Review       int         `json:"review"`
	OldestReview moment      `json:"oldest_review"`
	UnknownRate  float64     `json:"unknown_rate"` // of what has ended and is stored
}

// countJSON is a number of intents; capped, there are more.
type countJSON struct {
	Profile string `json:"profile"`
	Kind    string `json:"kind"`
	Status  string `json:"status"`
	N       int    `json:"n"`
	Capped  bool   `json:"capped"`
}

func (t *Tree) stats() *cobra.Command {
	most := 0
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Count intents by kind and status",
		Long: `Count intents by kind and status, up to --most of each group, and tell the oldest due one, the
oldest that waits for a person, and the share of what has ended with an unknown outcome.`,
		Example: `  consign stats --json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := t.desk(cmd)
			if err != nil {
				return err
			}
			progress(cmd.Context(), "counting")
			c, err := o.Count(cmd.Context(), most)
			if err != nil {
				return err
			}
			v := statsJSON{At: moment{c.At}, Counts: []countJSON{}, OldestDue: moment{OldestDue(&c)}, Review: c.Review, OldestReview: moment{c.OldestReview}}
			for _, n := range c.Counts {
				v.Counts = append(v.Counts, countJSON{string(n.Profile), n.Kind, string(n.Status), n.N, n.Capped})
			}
			if v.UnknownRate, err = unknown(cmd.Context(), o, &c); err != nil {
				return err
			}
			return t.print(cmd, v, v.text())
		},
	}
	cmd.Flags().IntVar(&most, "most", 10_000, "how `many` of a group are counted, up to 1000000")
	return cmd
}

// OldestDue is the time since when the oldest due intent has been due; zero: nothing
// is due yet.
func OldestDue(c *operator.Counts) (oldest time.Time) {
	for _, d := range c.Due {
		if d.Oldest.Before(c.At) && (oldest.IsZero() || d.Oldest.Before(oldest)) {
			oldest = d.Oldest
		}
	}
	return oldest
}

// unknown is the share of unknown outcomes among what has ended: of the newest ones
// where there are many.
func unknown(ctx context.Context, o *operator.Operator, c *operator.Counts) (float64, error) {
	ends, uncertain := 0.0, 0.0
	for _, status := range []consign.Status{
		consign.StatusDelivered, consign.StatusSucceeded, consign.StatusCancelled, consign.StatusFailed, consign.StatusReconciliationRequired,
	} {
		n := 0
		for _, count := range c.Counts {
			if count.Status == status {
				n += count.N
			}
		}
		ends += float64(n)
		if n == 0 || status != consign.StatusFailed && status != consign.StatusReconciliationRequired {
			continue // what ended otherwise is known
		}
		page, err := o.List(ctx, operator.Filter{Status: []consign.Status{status}, Limit: mostPage})
		if err != nil {
			return 0, err
		}
		those := 0
		for i := range page.Entries {
			if page.Entries[i].Uncertain {
				those++
			}
		}
		if len(page.Entries) > 0 {
			uncertain += float64(n) * float64(those) / float64(len(page.Entries))
		}
	}
	if ends == 0 {
		return 0, nil
	}
	return uncertain / ends, nil
}

func (v *statsJSON) text() string {
	var b strings.Builder
	for _, c := range v.Counts {
		more := ""
		if c.Capped {
			more = "+"
		}
		fmt.Fprintf(&b, "%-8s  %-24s  %-24s  %d%s\n", c.Profile, c.Kind, c.Status, c.N, more)
	}
	fmt.Fprintf(&b, "oldest due     %s\nin review      %d\noldest review  %s\nunknown        %.1f %%", v.OldestDue, v.Review, v.OldestReview, 100*v.UnknownRate)
	return b.String()
}
