package operator

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
)

// Recent is how what was created lately has ended, for one profile and status.
type Recent struct {
	Profile consign.Profile
	Status  consign.Status // an end
	From    time.Time      // where the first part begins, by the database's clock
	Part    time.Duration  // how long each is
	N       []int          // of each part, the oldest first
	Capped  []bool         // there are more in that part than were counted
}

// recentTo is how far the intents of one part are counted.
const recentTo = 500

// Recent counts the intents that were created within span and have ended, by the part
// of that time in which they were created: up to 500 of each profile, status and part.
// What has none is left out. span is 1 s to 30 days; parts 1 to 100. Erased intents
// count.
//
// Errors: consign.ErrInvalid, consign.ErrSchema, or the database's own.
func (o *Operator) Recent(ctx context.Context, span time.Duration, parts int) ([]Recent, error) {
	const op = "recent"
	var fs faults
	if span < time.Second || span > 30*24*time.Hour {
		fs.add("span", span.String()+", limit 1s to 720h")
	}
	if parts < 1 || parts > 100 {
		fs.add("parts", strconv.Itoa(parts)+", limit 1 to 100")
	}
	if err := fs.err(op); err != nil {
		return nil, err
	}
	if err := o.ready(ctx, op); err != nil {
		return nil, err
	}
	now, err := o.desk.Now(ctx)
	if err != nil {
		return nil, failure(op, err)
	}
	r := driver.RecentRequest{Part: span / time.Duration(parts), Parts: parts, Limit: recentTo}
	r.From = now.Add(-r.Part * time.Duration(parts))
	found, err := o.desk.Recent(ctx, r)
	if err != nil {
		return nil, failure(op, err)
	}
	return recent(r, found), nil
}

// recent puts the parts of each profile and status side by side.
func recent(r driver.RecentRequest, found []driver.RecentEnd) (out []Recent) {
	for _, e := range found {
		p, s := profileOf(e.Profile), consign.Status(e.Status.Public(e.Profile))
		i := slices.IndexFunc(out, func(o Recent) bool { return o.Profile == p && o.Status == s })
		if i < 0 {
			i = len(out)
			out = append(out, Recent{p, s, r.From, r.Part, make([]int, r.Parts), make([]bool, r.Parts)})
		}
		out[i].N[e.Place], out[i].Capped[e.Place] = min(e.N, r.Limit), e.N > r.Limit
	}
	slices.SortFunc(out, func(a, b Recent) int {
		return cmp.Or(cmp.Compare(b.Profile, a.Profile), cmp.Compare(a.Status, b.Status))
	})
	return out
}
