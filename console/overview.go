package console

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/operator"
)

// lateAfter is from when on a due intent is called late: a few scans and wake-ups.
const lateAfter = 2 * time.Minute

// problem is something that is wrong now, with what to do.
type problem struct {
	What string
	Do   string
	Link string
	Name string
}

// kindRow is what there is of one kind or channel.
type kindRow struct {
	Profile consign.Profile
	Kind    string
	Counts  []operator.Count
	Oldest  time.Time // due time; zero: nothing is open
	Late    bool
	Pause   *operator.Pause
	Served  []operator.Served
}

// overviewData is what the overview shows.
type overviewData struct {
	At       time.Time
	Review   string
	Oldest   time.Time
	Problems []problem
	Kinds    []kindRow
	Ends     []sparkline
	Refresh  int // seconds
}

func (c *Console) overview(ctx context.Context, v *visit) (reply, error) {
	s, err := c.snapshot(ctx)
	if err != nil {
		return reply{}, err
	}
	kinds := s.kinds()
	return reply{page: "overview", title: "Overview", data: overviewData{
		At: s.At, Review: counted(s.Review, s.ReviewCapped), Oldest: s.OldestReview, Problems: s.problems(kinds), Kinds: kinds,
		Ends: s.sparklines(), Refresh: max(1, int(c.o.Refresh.Seconds())),
	}}, nil
}

// kinds puts together what is known of each kind and channel.
func (s *snapshot) kinds() (rows []kindRow) {
	row := func(p consign.Profile, kind string) *kindRow {
		i := slices.IndexFunc(rows, func(r kindRow) bool { return r.Profile == p && r.Kind == kind })
		if i < 0 {
			i = len(rows)
			rows = append(rows, kindRow{Profile: p, Kind: kind})
		}
		return &rows[i]
	}
	for _, n := range s.Counts.Counts {
		r := row(n.Profile, n.Kind)
		r.Counts = append(r.Counts, n)
	}
	for _, d := range s.Due {
		r := row(d.Profile, d.Kind)
		r.Oldest, r.Late = d.Oldest, s.At.Sub(d.Oldest) > lateAfter
	}
	for _, one := range s.Serving {
		r := row(one.Profile, one.Kind)
		r.Served = append(r.Served, one)
	}
	for i := range s.Pauses {
		p := &s.Pauses[i]
		row(p.Profile, p.Kind).Pause = p
	}
	slices.SortFunc(rows, func(a, b kindRow) int {
		return cmp.Or(cmp.Compare(b.Profile, a.Profile), cmp.Compare(a.Kind, b.Kind))
	})
	return rows
}

// problems is what is wrong now, the most urgent first.
func (s *snapshot) problems(kinds []kindRow) (out []problem) {
	if s.Review > 0 {
		out = append(out, problem{
			"Waiting for a person: " + counted(s.Review, s.ReviewCapped) + ", the oldest for " + span(s.At.Sub(s.OldestReview)) + ".",
			"Look at the evidence, ask the far side, record what you find.", "/review", "Review",
		})
	}
	for _, k := range kinds {
		name := string(k.Profile) + " “" + k.Kind + "”"
		list := "/intents?status=pending&profile=" + string(k.Profile) + "&kind=" + query(k.Kind)
		switch {
		case k.Pause != nil:
			out = append(out, problem{
				"Paused: " + name + ", by " + k.Pause.By + ", for " + span(s.At.Sub(k.Pause.At)) + ": " + k.Pause.Why,
				"Resume it when the reason is gone. Deadlines go on meanwhile.", "/kinds", "Kinds and channels",
			})
		case !k.Oldest.IsZero() && len(k.Served) == 0:
			out = append(out, problem{
				"Open, and no live program serves it: " + name + ".",
				"Start one that does. After a while what is due is stopped for review.", list, "Show them",
			})
		case k.Late:
			out = append(out, problem{
				"Late: " + name + ", the oldest has been due for " + span(s.At.Sub(k.Oldest)) + ".",
				"See whether its programs run and whether the far side answers; more workers may be needed.", list, "Show them",
			})
		}
		if versions := current(k.Served); len(versions) > 1 {
			out = append(out, problem{
				"Served under more than one contract: " + name + ".",
				"Let the deploy finish. Until then nothing of it can be sent again.", "/kinds", "Kinds and channels",
			})
		}
	}
	if s.Approvals > 0 {
		out = append(out, problem{
			"Approvals to decide: " + counted(s.Approvals, s.MoreToSign) + ".",
			"Confirm or dismiss each before it expires.", "/approvals", "Approvals",
		})
	}
	return out
}

// current are the contracts under which a kind is served now, besides older ones that
// are upgraded.
func current(served []operator.Served) (out []operator.Served) {
	for _, s := range served {
		if !s.Upgrade {
			out = append(out, s)
		}
	}
	return out
}
