package drivertest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// fault is what two stores have to agree on about an error.
func fault(err error) string {
	var conflict *driver.ConflictError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &conflict):
		return fmt.Sprintf("conflict of row %d", conflict.Index)
	case errors.Is(err, driver.ErrTaken):
		return "taken"
	case errors.Is(err, driver.ErrClosed):
		return "closed"
	}
	return "refused"
}

// someRoutes draws what a claim asks for.
func (w *world) someRoutes() []driver.RouteLimit {
	var routes []driver.RouteLimit
	seen := map[string]bool{}
	for i := range w.rows {
		route := w.rows[i].Route()
		if seen[route] || w.oneIn(4, "leave out") {
			continue
		}
		seen[route] = true
		c := shapes[w.upTo(len(shapes), "contract")]
		routes = append(routes, driver.RouteLimit{Route: route, Limit: 1 + w.upTo(4, "limit"), Contract: c})
	}
	return routes
}

// claim claims on both sides, and looks the claim up.
func (w *world) claim() {
	r := driver.ClaimRequest{
		Owner: lifecycle.Token(w.id()), Program: "history", Routes: w.someRoutes(), Policy: historyPolicy,
		Suspects: w.oneIn(4, "suspects"),
	}
	if w.oneIn(4, "limit") {
		r.Limit = 1 + w.upTo(4, "of all")
	}
	if w.oneIn(5, "refs") {
		for range 1 + w.upTo(3, "refs") {
			if len(w.rows) > 0 {
				r.Refs = append(r.Refs, pick(w, w.rows, "ref").Ref)
			}
		}
	}
	behind := w.oneIn(6, "behind")
	var at driver.ID
	if behind && len(w.rows) > 0 {
		at = pick(w, w.rows, "position").Ref
	}
	w.owners = append(w.owners, r.Owner)
	w.both("due", func(s *side) string {
		mine := w.behind(s, r, at)
		refs, err := s.Due(w.ctx, mine)
		return fmt.Sprint(len(refs), refsByRoute(w, refs), fault(err))
	})
	before := map[driver.ID]lifecycle.Status{}
	for _, record := range w.load(&w.sides[0]) {
		before[record.Intent.Ref] = record.State.Status
	}
	var taken []driver.Claimed
	w.both("claim", func(s *side) string {
		got, err := s.Claim(w.ctx, w.behind(s, r, at))
		taken = got
		return claimedText(w, got, false) + fault(err)
	})
	for _, c := range taken {
		w.seen["claim "+before[c.Intent.Ref].String()]++
	}
	w.both("held", func(s *side) string {
		got, err := s.Held(w.ctx, r)
		return claimedText(w, got, true) + fault(err)
	})
}

// behind is r asking for what lies behind the row at, wherever that is in s.
func (w *world) behind(s *side, r driver.ClaimRequest, at driver.ID) driver.ClaimRequest {
	if at == (driver.ID{}) {
		return r
	}
	records, err := s.Load(w.ctx, []driver.ID{at})
	if err != nil || len(records) == 0 || records[0].DueAt.IsZero() {
		return r
	}
	r.Routes = slices.Clone(r.Routes)
	for i := range r.Routes {
		r.Routes[i].After = driver.Position{DueAt: records[0].DueAt, Ref: at}
	}
	return r
}

// claimedText writes claimed deliveries in the order of each route, or sorted.
func claimedText(w *world, claimed []driver.Claimed, inAnyOrder bool) string {
	lines := make([]string, len(claimed))
	for i, c := range claimed {
		c.State.GateOpen = true
		lines[i] = fmt.Sprintf("%s %s %s %s %s\n", c.Intent.Route(), c.Intent.Ref, c.Intent.Payload, c.Intent.Key, rounded(c.State))
	}
	if inAnyOrder {
		slices.Sort(lines)
	} else {
		slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(a[:strings.Index(a, " ")], b[:strings.Index(b, " ")]) })
	}
	return strings.Join(lines, "")
}

// refsByRoute orders refs by route, keeping the order within each.
func refsByRoute(w *world, refs []driver.ID) []driver.ID {
	routes := map[driver.ID]string{}
	for i := range w.rows {
		routes[w.rows[i].Ref] = w.rows[i].Route()
	}
	refs = slices.Clone(refs)
	slices.SortStableFunc(refs, func(a, b driver.ID) int { return strings.Compare(routes[a], routes[b]) })
	return refs
}

// load returns all records of s, by ref.
func (w *world) load(s *side) []driver.Record {
	refs := make([]driver.ID, len(w.rows))
	for i := range w.rows {
		refs[i] = w.rows[i].Ref
	}
	slices.SortFunc(refs, compareIDs)
	records, err := s.Load(w.ctx, slices.Compact(refs))
	if err != nil {
		w.t.Fatalf("load: %v", err)
	}
	slices.SortFunc(records, func(a, b driver.Record) int { return bytes.Compare(a.Intent.Ref[:], b.Intent.Ref[:]) })
	return records
}

// sweep walks over everything and ends what lifecycle says is over.
func (w *world) sweep() {
	limit := 1 + w.upTo(6, "page")
	kind := lifecycle.Event{Kind: lifecycle.EvSweep}
	if w.oneIn(4, "unserved") {
		kind = lifecycle.Event{Kind: lifecycle.EvUnserved, Code: lifecycle.HandlerMissing}
	}
	ended := 0
	w.both("sweep", func(s *side) string {
		ended = 0
		var text strings.Builder
		var at driver.Cursor
		for {
			found, next, err := s.Overdue(w.ctx, driver.OverdueRequest{After: at, Limit: limit})
			if err != nil {
				return fault(err)
			}
			var ts []lifecycle.Transition
			for _, o := range found {
				fmt.Fprintf(&text, "%s %s %s\n", o.Route, o.Ref, rounded(o.State))
				t := historyPolicy.Apply(o.State, kind)
				t.Ref = o.Ref
				if t.Answer == lifecycle.Apply {
					ts = append(ts, t)
				}
			}
			held, err := s.Apply(w.ctx, ts)
			for _, h := range held {
				if h {
					ended++
				}
			}
			fmt.Fprintln(&text, held, fault(err))
			if next == (driver.Cursor{}) {
				// Where the last page was full, a store may need one more to see the end.
				return strings.ReplaceAll(text.String(), "[] ok\n", "")
			}
			at = next
		}
	})
	w.seen[kind.Kind.String()] += ended
}

// erase erases some subjects.
func (w *world) erase() {
	statuses := map[string]int{}
	subjects := [][]string{{"s1"}, {"s2", ""}, {"s1", "s2", "s9"}, {}, {" "}}[w.upTo(5, "subjects")]
	for _, record := range w.load(&w.sides[0]) {
		if slices.Contains(subjects, record.Intent.Subject) && record.Intent.Subject != "" {
			statuses["erase "+record.State.Status.String()]++
		}
	}
	w.both("erase", func(s *side) string {
		n, err := s.Erase(w.ctx, subjects)
		return fmt.Sprint(n, fault(err))
	})
	for what, n := range statuses {
		w.seen[what] += n
	}
}

// prune removes what is some units old.
func (w *world) prune() {
	age := w.units(4, "age") - unit/2
	profile := lifecycle.Work + lifecycle.Profile(w.upTo(2, "profile"))
	pruned := 0
	w.both("prune", func(s *side) string {
		now, err := s.Now(w.ctx)
		if err != nil {
			return fault(err)
		}
		pruned, err = s.Prune(w.ctx, profile, now.Add(-age), 1000)
		return fmt.Sprint(pruned, fault(err))
	})
	w.seen["prune"] += pruned
}

// look compares what readers see.
func (w *world) look() {
	w.both("records", func(s *side) string {
		now, err := s.Now(w.ctx)
		if err != nil {
			return fault(err)
		}
		on := func(t time.Time) string {
			if t.IsZero() {
				return "-"
			}
			return fmt.Sprint(int(t.Sub(now).Round(unit) / unit))
		}
		var text strings.Builder
		for _, r := range w.load(s) {
			r.Intent.CreatedAt = time.Time{}
			fmt.Fprintf(&text, "%+v %s due %s lease %s deadline %s started %s updated %s review %s erased %s %q %q\n", r.Intent,
				rounded(r.State), on(r.DueAt), on(r.LeaseUntil), on(r.Deadline), on(r.StartedAt), on(r.UpdatedAt), on(r.ReviewAt),
				on(r.ErasedAt), r.Program, r.LastError)
			log, err := s.History(w.ctx, r.Intent.Ref)
			if err != nil {
				return fault(err)
			}
			for _, l := range log {
				fmt.Fprintf(&text, "    %+v started %s at %s\n", l.Attempt, on(l.StartedAt), on(l.At))
			}
		}
		return text.String()
	})
	w.both("routes", func(s *side) string {
		routes, err := s.Routes(w.ctx)
		var lines []string
		for _, r := range routes {
			r.OldestDue = time.Time{}
			lines = append(lines, fmt.Sprintf("%+v\n", r))
		}
		slices.Sort(lines)
		return strings.Join(lines, "") + fault(err)
	})
}
