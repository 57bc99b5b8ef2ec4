package dispatch

import (
	"bytes"
	"cmp"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// rewind is how long claims go on behind the last one before they begin at the
// front again. Behind the last one they need not step over what is in hand and
// over dead index entries; at the front they find what was committed late or
// given back.
const rewind = 250 * time.Millisecond

// fewLooks is how many deliveries in hand claims may step over in each rewind while
// there is a backlog: with more in hand they begin at the front more rarely. What
// others hold they step over as well, and all who have a part in the backlog look.
const fewLooks = 500

// A look that takes long has stepped over much that it may not have: messages whose
// gate is closed, what somebody else holds. Such looks may take a twentieth of the
// time at most. Between them claims go on behind what the last one has seen, where
// everything new is found at once.
const (
	sparing     = 20                     // times as long as a look took nothing begins at the front
	longestRest = 15 * time.Second       // but no longer than this
	perRow      = 250 * time.Microsecond // of a look for each delivery that it brought, which is no step over anything
	late        = 200 * time.Millisecond // in which what is due now is committed, mostly; the rest is found from the front
)

// fewHeld is how many deliveries in hand a claim may step over each time. Where the
// last look has come to the end of what is due, the next one begins at the front and
// sees all there is. Behind the last one it would not see what was committed late,
// and another would have to follow it. To step over these costs a third of that.
const fewHeld = 100

// route is where intents of one contract are claimed.
type route struct {
	name   string
	served *Served
	after  driver.Position // behind the last one that was claimed
}

// routeKey is what a route's name says, to find it without putting the name
// together.
type routeKey struct {
	profile     lifecycle.Profile
	kind        string
	fingerprint [8]byte // of work
}

func keyOf(p lifecycle.Profile, kind string, fingerprint *[32]byte) routeKey {
	k := routeKey{profile: p, kind: kind}
	if p == lifecycle.Work {
		k.fingerprint = [8]byte(fingerprint[:])
	}
	return k
}

// routes are all routes that are claimed here. Its user holds the engine's mu.
type routes struct {
	known map[routeKey]*route
	list  []*route
	front time.Time // when the claims last began at the front
	rest  time.Time // they do not begin there before, because that takes long
	ended bool      // the last look has come to the end of what is due

	paused map[kindKey]bool // what nobody claims until it is resumed
}

// add makes s the one that delivers what was created under a fingerprint, its own
// or that of a version from which it upgrades.
func (rs *routes) add(s *Served, fingerprint [32]byte) {
	r := &route{name: driver.MessageRoute(s.Kind), served: s}
	if s.Profile == lifecycle.Work {
		r.name = driver.WorkRoute(s.Kind, fingerprint)
	}
	rs.known[keyOf(s.Profile, s.Kind, &fingerprint)] = r
	rs.list = append(rs.list, r)
}

// of returns the route of an intent, nil if nothing here delivers it.
func (rs *routes) of(i *driver.Intent) *route {
	return rs.known[keyOf(i.Profile, i.Kind, &i.Fingerprint)]
}

// rests reports whether claims do not begin at the front just now.
func (rs *routes) rests() bool { return time.Now().Before(rs.rest) }

// begin reports whether it is time for a claim from the front; so many deliveries are
// in hand.
func (rs *routes) begin(held int) (front bool) {
	after := rewind
	if !rs.ended {
		after = rewind * time.Duration(max(held, fewLooks)) / fewLooks
	} else if held <= fewHeld {
		after = 0
	}
	if rs.rests() || time.Since(rs.front) <= after {
		return false
	}
	rs.front = time.Now()
	return true
}

// open goes through the routes that are not paused. It begins anywhere, so that none
// starves the others in whatever rhythm different looks follow one another, and where
// a program makes one only.
func (rs *routes) open() iter.Seq[*route] {
	return func(yield func(*route) bool) {
		first := rand.IntN(max(len(rs.list), 1))
		for i := range rs.list {
			r := rs.list[(first+i)%len(rs.list)]
			if !rs.isPaused(r.served.Profile, r.served.Kind) && !yield(r) {
				return
			}
		}
	}
}

// limit asks for n from the front of r.
func (r *route) limit(n int) driver.RouteLimit {
	return driver.RouteLimit{Route: r.name, Limit: n, Contract: r.served.Contract}
}

// limits asks each open route for n. behind: some go on behind the last claim.
func (rs *routes) limits(n int, front bool) (limits []driver.RouteLimit, behind bool) {
	limits = make([]driver.RouteLimit, 0, len(rs.list))
	for r := range rs.open() {
		limit := r.limit(n)
		if !front {
			limit.After = r.after
			behind = behind || r.after != driver.Position{}
		}
		limits = append(limits, limit)
	}
	return limits, behind
}

// fronts asks each open route for n from its front.
func (rs *routes) fronts(n int) []driver.RouteLimit {
	limits, _ := rs.limits(n, true)
	return limits
}

// passed is fronts for as far as claims have come, while there is a backlog. What lies
// behind that, they have not come to either, and a look for suspects would go over all
// of it for what is rarely there.
func (rs *routes) passed(n int) []driver.RouteLimit {
	if rs.ended {
		return rs.fronts(n)
	}
	limits := make([]driver.RouteLimit, 0, len(rs.list))
	for r := range rs.open() {
		limit := r.limit(n)
		limit.Until = r.after.DueAt
		limits = append(limits, limit)
	}
	return limits
}

// look is what a claim has shown about the due index.
type look struct {
	behind bool          // it went on behind an earlier one
	full   bool          // it came back full, so it did not come to the end
	took   time.Duration // beside what it brought
	upTo   time.Time     // it has seen everything that was due before; zero: not known
}

// slow reports whether to look like this again and again would take too much.
func (l *look) slow() bool { return sparing*l.took > rewind }

// learn sets where the next claims begin: behind what was claimed. Where a look was
// quick and found nothing there, or came from the front, they begin at the front.
func (rs *routes) learn(l *look, tasks []*Task) {
	rs.ended = !l.full
	if l.slow() && !(l.behind && l.full) { // what a full one has stepped over lies behind already
		rs.rest = time.Now().Add(min(sparing*l.took, longestRest))
	}
	rests := rs.rests()
	for _, r := range rs.list {
		switch {
		case !rests && (!l.behind || len(tasks) == 0):
			r.after = driver.Position{}
		case rests && !rs.isPaused(r.served.Profile, r.served.Kind):
			if !l.behind && !l.upTo.IsZero() { // whatever was seen before: the database's clock may have gone back
				r.after = driver.Position{}
			}
			r.pass(driver.Position{DueAt: l.upTo})
		}
	}
	if !l.behind && l.full { // there may be more right behind it
		for _, t := range tasks {
			if r := rs.of(&t.Intent); r != nil {
				r.after = driver.Position{}
			}
		}
	}
	for _, t := range tasks {
		if r := rs.of(&t.Intent); r != nil {
			r.pass(driver.Position{DueAt: t.dueAt, Ref: t.Intent.Ref})
		}
	}
}

// pass moves the claims of r behind a place that was looked at.
func (r *route) pass(at driver.Position) {
	if cmp.Or(at.DueAt.Compare(r.after.DueAt), bytes.Compare(at.Ref[:], r.after.Ref[:])) > 0 {
		r.after = at
	}
}

// upgrader returns what delivers this older version of a kind, nil if nothing
// here does.
func (e *Engine) upgrader(kind, version string) *Served {
	for _, s := range e.Served {
		if s.Profile == lifecycle.Work && s.Kind == kind && slices.Contains(s.Upgrades, version) {
			return s
		}
	}
	return nil
}

// adopt claims from now on what was created under an older contract, if an
// upgrade leads from there; true: it was not claimed before.
func (e *Engine) adopt(p lifecycle.Profile, kind, version string, fingerprint [32]byte) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p != lifecycle.Work || e.routes.known[keyOf(p, kind, &fingerprint)] != nil {
		return false
	}
	s := e.upgrader(kind, version)
	if s != nil {
		e.routes.add(s, fingerprint)
	}
	return s != nil
}
