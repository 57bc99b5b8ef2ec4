//go:build unix

package dispatchtest

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/consign-go/consign/internal/dispatch"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/fault"
)

// committed is PostgreSQL's answer to a COMMIT: that it was done, and that the
// server is idle again.
const committed = "C\x00\x00\x00\x0bCOMMIT\x00Z\x00\x00\x00\x05I"

// loss is how one call loses its answer.
type loss struct {
	name string
	// befalls makes the call without its answer, and returns whether that came about.
	befalls func(call func() error) (told error, lost bool)
}

// losses are the ways to lose an answer: of PostgreSQL the connection is cut before
// the call, or in its answer to COMMIT after any of its bytes. SQLite has no wire,
// so its answers are lost on the way from the store to the engine.
func (d *database) losses(t *testing.T, s *store, p *fault.Proxy) (all []loss) {
	if d.File != "" {
		return []loss{
			{"nothing was done", func(func() error) (error, bool) { return errGone, true }},
			{"it was done", func(call func() error) (error, bool) { return errGone, call() == nil }},
		}
	}
	all = append(all, loss{"cut before the call", func(call func() error) (error, bool) {
		if _, err := s.Now(t.Context()); err != nil { // there is a connection
			return err, false
		}
		p.Cut()
		err := call()
		return err, err != nil
	}})
	for keep := range len(committed) {
		all = append(all, loss{fmt.Sprintf("cut after %d bytes", keep), func(call func() error) (error, bool) {
			answer := p.CutAnswer([]byte(committed), keep)
			err := call()
			select {
			case <-answer.Lost():
				return err, err != nil
			default:
				return err, false
			}
		}})
	}
	return all
}

// behind is the database's address behind a proxy.
func (d *database) behind(t *testing.T) (address, *fault.Proxy) {
	t.Helper()
	if d.File != "" {
		return d.address, nil
	}
	return d.address.behind(t)
}

// place is the network and the address of the server.
func (a address) place(t *testing.T) (network, at string) {
	t.Helper()
	c, err := pgx.ParseConfig(a.URL)
	if err != nil {
		t.Fatal(err)
	}
	return pgconn.NetworkAddress(c.Host, c.Port)
}

func (a address) behind(t *testing.T) (address, *fault.Proxy) {
	t.Helper()
	p, err := fault.NewProxy(a.place(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	u, err := url.Parse(a.URL)
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := strings.Cut(p.Addr(), ":")
	q := u.Query()
	q.Set("host", host)
	q.Set("port", port)
	u.RawQuery = q.Encode()
	return address{URL: u.String(), Schema: a.Schema}, p
}

// The answer to each durable step of a delivery is lost, whether or not it was
// committed: of PostgreSQL after any byte of its answer to COMMIT. The engine looks
// up what has become of it and goes on from there, in the same claim: nothing is
// lost, nothing is done twice, and nothing becomes uncertain.
func TestLostAnswerOfAnyStepIsLookedUpAndNothingIsDoneTwice(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		far := newReceiver(t)
		through, proxy := d.behind(t)
		store := through.mustOpen(t)
		kinds := grid(2*time.Minute, time.Minute)
		smooth := map[string]smooth{}
		for i, l := range d.losses(t, store, proxy) {
			for j, step := range durableSteps {
				for n, k := range kinds {
					// Every step of every kind, and every byte under some kind.
					if i > 1 && n != (i+j)%len(kinds) {
						continue
					}
					ref := d.enqueue(t, k, 1)[0]
					s := smoothly(k, step+", "+l.name)
					if (i+j+n)%4 == 0 {
						s.refused = 1
					}
					far.refuses(name(ref), s.refused)
					program := program{Name: "visitor", Receiver: far.place(), Kinds: []kind{k}, Policy: steady, Patience: time.Minute}
					program.visit(t, ref, store, step, l)
					smooth[name(ref)] = s
				}
			}
		}
		found := d.audit(t, far.all())
		for ref, s := range smooth {
			s.check(t, found[ref])
		}
	})
}

// visit visits an intent to its end, on a store that loses the answer to a step.
func (p program) visit(t *testing.T, ref driver.ID, s *store, step string, l loss) {
	t.Helper()
	lost, failed := false, 0
	w := &stricken{Driver: s.Driver, step: step}
	w.befall = func(call func() error) (err error) {
		err, lost = l.befalls(call)
		return err
	}
	e := dispatch.New(p.config(w, func(o dispatch.Observation) {
		if o.Event == "error" {
			failed++
		}
	}))
	ended := false
	for n := 0; !ended && n < 200; n++ { // not as long as a lease: nothing may wait for its end
		r, _, err := e.Visit(t.Context(), ref) // the first one may have lost its claim, and says so
		if ended = err == nil && r.Status.Terminal(); !ended {
			time.Sleep(5 * time.Millisecond)
		}
	}
	if !lost || failed != 1 {
		t.Errorf("%s of %s, %s: lost %v, the engine saw %d calls fail, want 1", step, p.Kinds[0].Name, l.name, lost, failed)
	}
}
