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

// Count is a number of intents that have profile, kind and status in common.
type Count struct {
	Profile consign.Profile
	Kind    string
	Status  consign.Status
	N       int
	Capped  bool // there are more: only so many of its group were looked at
}

// Due is the oldest due time of a kind or channel. Where it lies far in the past,
// nobody keeps up with it, or nobody serves it.
type Due struct {
	Profile consign.Profile
	Kind    string
	Oldest  time.Time
}

// Counts is how much there is of everything.
type Counts struct {
	At           time.Time // by the database's clock
	Counts       []Count   // by profile, kind and status
	Due          []Due     // by profile and kind
	Review       int       // intents that wait for a person
	ReviewCapped bool
	OldestReview time.Time // since when the oldest waits; zero: nothing does
	Pauses       []Pause
}

// Count counts intents, up to most of each group: of each kind that is open, of each
// profile and status that is ended (there the newest), of what is in process, and of
// review. most is 1 to 1,000,000; 0 means 10,000. Erased intents do not count, nor do
// stranded messages that have a finding.
//
// Errors: consign.ErrInvalid, consign.ErrSchema, or the database's own.
func (o *Operator) Count(ctx context.Context, most int) (Counts, error) {
	const op = "count"
	var fs faults
	if most < 0 || most > 1_000_000 {
		fs.add("most", strconv.Itoa(most)+", limit 1 to 1000000")
	}
	if err := fs.err(op); err != nil {
		return Counts{}, err
	}
	if most == 0 {
		most = 10_000
	}
	if err := o.ready(ctx, op); err != nil {
		return Counts{}, err
	}
	var out Counts
	var err error
	if out.At, err = o.desk.Now(ctx); err != nil {
		return Counts{}, failure(op, err)
	}
	tallies, err := o.desk.Tallies(ctx, most)
	if err != nil {
		return Counts{}, failure(op, err)
	}
	out.Counts = counted(tallies)
	routes, err := o.desk.Routes(ctx)
	if err != nil {
		return Counts{}, failure(op, err)
	}
	out.Due = oldest(routes)
	w, err := o.desk.InReview(ctx, most)
	if err != nil {
		return Counts{}, failure(op, err)
	}
	out.Review, out.ReviewCapped, out.OldestReview = w.N, w.Capped, w.Oldest
	out.Pauses, err = o.Pauses(ctx)
	return out, err
}

// counted puts together what the public sees as one: the parts, and the versions of a
// kind.
func counted(tallies []driver.Tally) []Count {
	sums := map[Count]int{}
	capped := map[Count]bool{}
	for _, t := range tallies {
		key := Count{Profile: profileOf(t.Profile), Kind: t.Kind, Status: consign.Status(t.Status.Public(t.Profile))}
		sums[key] += t.N
		capped[key] = capped[key] || t.Capped
	}
	out := make([]Count, 0, len(sums))
	for c, n := range sums {
		out = append(out, Count{c.Profile, c.Kind, c.Status, n, capped[c]})
	}
	slices.SortFunc(out, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Profile, a.Profile), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Status, b.Status))
	})
	return out
}

// oldest is the oldest due time of each kind, over all its versions.
func oldest(routes []driver.Route) []Due {
	var out []Due
	for _, r := range routes {
		p, kind := driver.KindOf(r.Route)
		i := slices.IndexFunc(out, func(d Due) bool { return d.Profile == profileOf(p) && d.Kind == kind })
		switch {
		case i < 0:
			out = append(out, Due{profileOf(p), kind, r.OldestDue})
		case r.OldestDue.Before(out[i].Oldest):
			out[i].Oldest = r.OldestDue
		}
	}
	return out
}

// Served is what a live program delivers.
type Served struct {
	Profile    consign.Profile
	Kind       string
	Version    string // of work
	Idempotent bool
	Retry      string // "process", "schedule", or "unclaimed" where it is driven by hand
	Upgrade    bool   // this older version, besides its own
	Contract   Contract
}

// Serving lists what live programs deliver: those with a sign of life within a minute.
func (o *Operator) Serving(ctx context.Context) ([]Served, error) {
	const op = "serving"
	if err := o.ready(ctx, op); err != nil {
		return nil, err
	}
	list, err := o.desk.Serving(ctx, live)
	out := make([]Served, 0, len(list))
	for _, s := range list {
		out = append(out, Served{
			Profile: profileOf(s.Profile), Kind: s.Kind, Version: s.Version, Idempotent: s.Contract.Idempotent,
			Retry: s.Contract.Retry.String(), Upgrade: s.Upgrade, Contract: contractOf(s.Version, s.Fingerprint, &s.Contract),
		})
	}
	slices.SortFunc(out, func(a, b Served) int {
		return cmp.Or(cmp.Compare(b.Profile, a.Profile), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Version, b.Version))
	})
	return slices.Compact(out), failure(op, err)
}
