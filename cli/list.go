package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/operator"
)

// summaryJSON is what lists print of an intent.
type summaryJSON struct {
	Ref        string `json:"ref"`
	Profile    string `json:"profile"`
	Kind       string `json:"kind"`
	Status     string `json:"status"`
	Code       string `json:"code"`
	Known      string `json:"known"` // "open", "delivered", "not delivered" or "unknown"
	Uncertain  bool   `json:"uncertain"`
	Generation int64  `json:"generation"`
	Attempts   int    `json:"attempts"`
	CreatedAt  moment `json:"created_at"`
	DueAt      moment `json:"due_at"`
	FinishedAt moment `json:"finished_at"`
	ReviewAt   moment `json:"review_at"`
}

func summary(s *operator.Summary) summaryJSON {
	v := summaryJSON{
		Ref: s.Ref.String(), Profile: string(s.Profile), Kind: s.Kind, Status: string(s.Status), Code: string(s.Code),
		Known: string(s.Known), Uncertain: s.Uncertain, Generation: s.Generation, Attempts: s.Attempts,
		CreatedAt: moment{s.CreatedAt}, DueAt: moment{s.DueAt}, ReviewAt: moment{s.ReviewAt},
	}
	if ended(s.Status) {
		v.FinishedAt = moment{s.UpdatedAt}
	}
	return v
}

// ended reports whether a status is an end.
func ended(s consign.Status) bool {
	switch s {
	case consign.StatusPending, consign.StatusLeased, consign.StatusDelivering:
		return false
	}
	return true
}

func (v *summaryJSON) text() string {
	return columns(v.Ref, v.Kind, v.Status, orDash(v.Code), v.CreatedAt.String(), v.Known)
}

// nextJSON is the last line of a list that goes on.
type nextJSON struct {
	Next string `json:"next"`
}

func (t *Tree) list() *cobra.Command {
	var f operator.Filter
	var statuses []string
	var profile, code string
	limit, review := 100, false
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List intents, or what waits for a person",
		Long: `List intents, a line each: ref, kind, status, code, when it was created, and what is known of
its effect: open, delivered, not delivered, or unknown. With --review it lists what waits for
a person, the longest waiting first, each with what to do.

Where there is more a last line has the cursor for --after. Nothing found is exit code 4.`,
		Example: `  consign list --status failed --kind crm --limit 20`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usage("--limit is less than 1")
			}
			o, err := t.desk(cmd)
			if err != nil {
				return err
			}
			progress(cmd.Context(), "listing")
			if review {
				return t.review(cmd, o, limit, f.After)
			}
			for _, s := range statuses {
				f.Status = append(f.Status, consign.Status(s))
			}
			f.Profile, f.Code = consign.Profile(profile), consign.Code(code)
			return t.pages(cmd, o, f, limit)
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&statuses, "status", nil, "only this `status`; may be given more than once")
	fl.StringVar(&f.Kind, "kind", "", "only this channel, or kind of work")
	fl.StringVar(&profile, "profile", "", "only message, or only work")
	fl.StringVar(&code, "code", "", "only this code")
	fl.StringVar(&f.Subject, "session", "", "only what belongs to this session or person")
	fl.BoolVar(&review, "review", false, "what waits for a person")
	fl.IntVar(&limit, "limit", 100, "how `many` at most")
	fl.StringVar(&f.After, "after", "", "`cursor` that the page before ended with")
	suggest(cmd, "status", "pending", "leased", "delivering", "delivered", "succeeded", "failed", "cancelled", "reconciliation_required")
	suggest(cmd, "profile", "message", "work")
	return cmd
}

// suggest has shells complete a flag with one of these.
func suggest(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag
	}
}

// errNothing: a list is empty.
var errNothing = &Error{Code: ExitNothing, Err: errors.New("list: nothing matched"), Next: "Leave a filter out, or look into another database."}

// mostPage is the longest page that an operator makes.
const mostPage = 1000

// pages prints pages until there are as many as are wanted: a page may be short.
func (t *Tree) pages(cmd *cobra.Command, o *operator.Operator, f operator.Filter, limit int) error {
	for left := limit; ; {
		f.Limit = min(left, mostPage)
		page, err := o.List(cmd.Context(), f)
		if err != nil {
			return err
		}
		for i := range page.Entries {
			v := summary(&page.Entries[i])
			if err := t.print(cmd, v, v.text()); err != nil {
				return err
			}
		}
		left -= len(page.Entries)
		f.After = page.Next
		if left <= 0 || page.Next == "" {
			return t.next(cmd, page.Next, left == limit)
		}
	}
}

// next ends a list.
func (t *Tree) next(cmd *cobra.Command, cursor string, empty bool) error {
	switch {
	case cursor != "":
		return t.print(cmd, nextJSON{cursor}, "more: --after "+cursor)
	case empty:
		return errNothing
	}
	return nil
}

// reviewJSON is what waits for a person.
type reviewJSON struct {
	summaryJSON
	DeliveryKey string `json:"delivery_key"`
	Means       string `json:"means"`
	Do          string `json:"do"`
}

// mostReview is the longest page of a review.
const mostReview = 200

func (t *Tree) review(cmd *cobra.Command, o *operator.Operator, limit int, after string) error {
	for left := limit; ; {
		page, err := o.Review(cmd.Context(), operator.ReviewFilter{Limit: min(left, mostReview), After: after})
		if err != nil {
			return err
		}
		for i := range page.Entries {
			e := &page.Entries[i]
			v := reviewJSON{summary(&e.Summary), e.DeliveryKey.String(), e.Means, e.Do}
			if err := t.print(cmd, v, v.text()+"\n  "+e.Means+" "+e.Do); err != nil {
				return err
			}
		}
		left -= len(page.Entries)
		after = page.Next
		if left <= 0 || page.Next == "" {
			return t.next(cmd, page.Next, left == limit)
		}
	}
}
