package dispatch

import (
	"bytes"
	"cmp"
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
	turn  int
	front time.Time // when the claims last began at the front

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

// limits names the routes that are not paused, each with the whole limit, beginning
// with another one each time so that none starves the others. behind: some go on
// behind the last claim.
func (rs *routes) limits(n int, fromFront bool) (limits []driver.RouteLimit, behind bool) {
	if !fromFront && time.Since(rs.front) > rewind {
		rs.front = time.Now()
		rs.rewind()
	}
	rs.turn++
	limits = make([]driver.RouteLimit, 0, len(rs.list))
	for i := range rs.list {
		r := rs.list[(i+rs.turn)%len(rs.list)]
		if rs.isPaused(r.served.Profile, r.served.Kind) {
			continue
		}
		limit := driver.RouteLimit{Route: r.name, Limit: n, Contract: r.served.Contract}
		if !fromFront {
			limit.After = r.after
			behind = behind || r.after != driver.Position{}
		}
		limits = append(limits, limit)
	}
	return limits, behind
}

// rewind lets the next claim begin at the front.
func (rs *routes) rewind() {
	for _, r := range rs.list {
		r.after = driver.Position{}
	}
}

// pass moves the claims of r behind a delivery that was claimed.
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
