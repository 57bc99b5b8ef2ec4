package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Registration is how long a program counts as live after its last heartbeat,
// and a fifth of it is the longest time between two of them.
const registration = time.Minute

// rhythm is the time between two looks at what is served: several within the grace
// period, or it would not be over when it is.
func (e *Engine) rhythm() time.Duration {
	return min(registration/5, max(e.Unserved/4, 10*time.Millisecond))
}

// attending attends again and again until ctx ends.
func (e *Engine) attending(ctx context.Context) {
	if e.Registry != nil {
		defer func() {
			bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.Patience)
			defer cancel()
			e.Registry.Unregister(bye, e.id) // the entry ends by itself where this fails
		}()
	}
	ticker := time.NewTicker(e.rhythm())
	defer ticker.Stop()
	for {
		e.attend(ctx) // what fails is observed, and tried again
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// attendAtTimes attends if that was not done lately. So programs that only drain
// or scan are seen as well.
func (e *Engine) attendAtTimes(ctx context.Context) error {
	e.mu.Lock()
	lately := !e.attended.IsZero() && time.Since(e.attended) < e.rhythm()
	e.mu.Unlock()
	if lately {
		return nil
	}
	return e.attend(ctx)
}

// attend renews this program's entry, takes up what it serves through an upgrade,
// and stops what no live program serves.
func (e *Engine) attend(ctx context.Context) error {
	upgrades := func(s *Served) bool { return len(s.Upgrades) > 0 }
	if e.Registry == nil && !slices.ContainsFunc(e.Served, upgrades) {
		return nil
	}
	if e.Registry != nil {
		_, err := within(ctx, e.store, e.Patience, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, e.Registry.Register(ctx, driver.Program{ID: e.id, Name: e.Program, Serves: e.serves()})
		})
		if err != nil {
			return err
		}
	}
	_, err := e.StopUnserved(ctx)
	return err
}

// serves is what this program delivers.
func (e *Engine) serves() []driver.Serves {
	var out []driver.Serves
	for _, s := range e.Served {
		own := driver.Serves{Profile: s.Profile, Kind: s.Kind, Version: s.Version, Fingerprint: s.Fingerprint, Contract: s.Contract}
		out = append(out, own)
		for _, old := range s.Upgrades {
			out = append(out, driver.Serves{Profile: s.Profile, Kind: s.Kind, Version: old, Upgrade: true, Contract: s.Contract})
		}
	}
	return out
}

// StopUnserved stops what has been due for longer than the grace period and no
// live program serves (T15), and returns how many. It also takes up routes that
// this program serves through an upgrade.
//
// A route counts as unserved only when this engine has seen it so for the grace
// period, again and again: after an outage of everything the first program that
// is back would otherwise stop what belongs to all others. What is paused waits for
// a person and counts as served.
func (e *Engine) StopUnserved(ctx context.Context) (int, error) {
	if err := e.heed(ctx); err != nil {
		return 0, err
	}
	routes, err := e.store.Routes(ctx)
	if err != nil {
		return 0, err
	}
	e.looked()
	for _, r := range routes {
		e.adopt(r.Profile, r.Kind, r.Version, r.Fingerprint)
	}
	if e.Registry == nil {
		return 0, nil
	}
	live, err := within(ctx, e.store, e.Patience, func(ctx context.Context) ([]driver.Serves, error) {
		return e.Registry.Serving(ctx, registration)
	})
	if err != nil {
		return 0, err
	}
	now, err := e.store.Now(ctx)
	if err != nil {
		return 0, err
	}
	stopped := 0
	for route, code := range e.unserved(routes, append(live, e.serves()...)) {
		if route.OldestDue.After(now.Add(-e.Unserved)) {
			continue
		}
		n, err := e.stopRoute(ctx, route.Route, code)
		if stopped += n; err != nil {
			return stopped, err
		}
	}
	if stopped > 0 {
		e.observe(Observation{Event: "sweep", Count: stopped})
	}
	return stopped, nil
}

// looked notes that this engine looks now at what is unserved. Where it has not
// for so long that it cannot tell what was in between, it begins anew.
func (e *Engine) looked() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.attended) > max(e.Unserved, registration) {
		clear(e.missing)
	}
	e.attended = time.Now()
}

// unserved returns the routes that were seen to be unserved for the grace period,
// with the code that stops what is on them.
func (e *Engine) unserved(routes []driver.Route, live []driver.Serves) map[*driver.Route]lifecycle.Code {
	e.mu.Lock()
	defer e.mu.Unlock()
	since := make(map[string]time.Time, len(e.missing))
	out := map[*driver.Route]lifecycle.Code{}
	for i := range routes {
		code, served := match(&routes[i], live)
		_, kind := driver.KindOf(routes[i].Route)
		if served || e.routes.isPaused(routes[i].Profile, kind) {
			continue
		}
		name := routes[i].Route
		since[name] = e.attended
		if earlier, ok := e.missing[name]; ok {
			since[name] = earlier
		}
		if e.attended.Sub(since[name]) >= e.Unserved {
			out[&routes[i]] = code
		}
	}
	e.missing = since
	return out
}

// match says whether a live program serves the route, and with which code its
// deliveries stop where none does.
func match(r *driver.Route, live []driver.Serves) (code lifecycle.Code, served bool) {
	code = lifecycle.HandlerMissing
	if r.Profile == lifecycle.Message {
		code = lifecycle.ChannelMissing
	}
	for i := range live {
		s := &live[i]
		if s.Profile != r.Profile || s.Kind != r.Kind {
			continue
		}
		if r.Profile == lifecycle.Message || s.Upgrade && s.Version == r.Version || !s.Upgrade && s.Fingerprint == r.Fingerprint {
			return "", true
		}
		code = lifecycle.HandlerChanged
	}
	return code, false
}

// stopRoute stops what is due on a route for longer than the grace period.
func (e *Engine) stopRoute(ctx context.Context, route string, code lifecycle.Code) (int, error) {
	stopped := 0
	for _, suspects := range []bool{false, true} {
		for {
			n, err := e.stopSome(ctx, route, code, suspects)
			if stopped += n; err != nil {
				return stopped, err
			}
			if n == 0 {
				break
			}
		}
	}
	return stopped, nil
}

// stopSome is one batch of stopRoute.
func (e *Engine) stopSome(ctx context.Context, route string, code lifecycle.Code, suspects bool) (int, error) {
	refs, err := e.store.Due(ctx, driver.ClaimRequest{
		Policy: e.Policy, Suspects: suspects, Limit: e.Batch,
		Routes: []driver.RouteLimit{{Route: route, Limit: e.Batch, Contract: anyContract}},
	})
	if err != nil || len(refs) == 0 {
		return 0, err
	}
	records, err := e.store.Load(ctx, refs)
	if err != nil {
		return 0, err
	}
	records = slices.DeleteFunc(records, func(r driver.Record) bool { return r.State.DueIn > -e.Unserved })
	return e.applyAll(ctx, overdue(records), lifecycle.Event{Kind: lifecycle.EvUnserved, Code: code})
}

// anyContract lets Due list messages whose contract nobody has copied yet.
var anyContract = lifecycle.Contract{Retry: lifecycle.Schedule, MaxAttempts: 1, Lease: time.Minute, Timeout: time.Second}
