//go:build unix

package dispatchtest

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/effort"
	"github.com/consign-go/consign/internal/pgtest"
)

// alone is a migrated database on a server of the test's own.
func alone(t *testing.T, s *pgtest.Server) *database {
	t.Helper()
	return migrated(t, address{URL: s.URL(), Schema: s.Schema(t, "proof")})
}

// as is the same database with its records on another server, which has taken over
// from the first.
func (d *database) as(t *testing.T, s *pgtest.Server) *database {
	t.Helper()
	out := &database{address: address{URL: s.URL(), Schema: d.Schema}}
	out.store = out.mustOpen(t)
	u, err := url.Parse(out.URL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("search_path", d.Schema)
	u.RawQuery = q.Encode()
	out.records = reopened(t, "pgx", u.String(), "")
	out.records.enqueue = d.records.enqueue
	return out
}

// failedCalls waits until n more calls of the crew have failed.
func (c *crew) failedCalls(t *testing.T, n int64) {
	t.Helper()
	before := c.failed.Load()
	until(t, "calls fail", func() bool { return c.failed.Load() >= before+n })
}

// The primary dies under load, and its clients are led to a standby that only reads
// and has all that was acknowledged. Nothing is sent from there. Once it is
// promoted, delivery goes on: nothing is lost, nothing that is not idempotent is
// sent twice.
func TestReadOnlyStandbySendsNothingAndGoesOnOncePromoted(t *testing.T) {
	t.Parallel()
	primary := pgtest.Alone(t, pgtest.Options{Settings: map[string]string{"synchronous_standby_names": "*"}})
	standby := pgtest.Alone(t, pgtest.Options{Follows: primary, Settings: map[string]string{"synchronous_standby_names": ""}})
	d := alone(t, primary)
	through, proxy := d.behind(t)
	far := newReceiver(t)
	far.takes = 20 * time.Millisecond
	p := program{Address: through, Receiver: far.place(), Policy: steady, Kinds: grid(steadyLease, steadyTimeout)}
	c := d.hire(t, 2, p)
	poured := &database{address: through, store: through.mustOpen(t), records: d.records}
	stop := poured.pour(t, []kind{p.Kinds[0], p.Kinds[1], p.Kinds[2]}) // messages, whose refs can be repeated
	far.more(t, 40)

	primary.Stop(t, pgtest.Kill)
	proxy.Lead(address{URL: standby.URL()}.place(t))
	proxy.Cut()
	c.failedCalls(t, 20) // whatever was in flight has come by then
	sent := far.count()
	c.failedCalls(t, 40)
	if n := far.count() - sent; n != 0 {
		t.Errorf("%d requests came out of a database that only reads", n)
	}
	if err := standby.Exec(context.Background(), "SELECT pg_promote()"); err != nil {
		t.Fatal(err)
	}
	far.more(t, 40)
	effort.Note(t, "1 failover, %d calls failed", c.failed.Load())
	d.as(t, standby).allSettled(t, c, far, stop())
}
