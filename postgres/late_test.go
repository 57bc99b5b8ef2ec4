package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/fault"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/internal/pgtest"
)

// patience limits every wait for something that is certain to come.
const patience = time.Minute

// behind returns a proxy in front of the server, a store that goes through it on
// one connection, and what cuts that connection on the client's side. (pgx leaves
// it open for a while when a call is given up, in case the server still answers.)
// There is never a second connection: over one, pgx asks the server to cancel what
// was given up, which may arrive after the late bytes and undo what they do.
func behind(t *testing.T, d *database) (p *fault.Proxy, s *Store, cut func()) {
	t.Helper()
	c := d.pool.Config().ConnConfig
	p, err := fault.NewProxy(pgconn.NetworkAddress(c.Host, c.Port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	var dialled atomic.Pointer[net.Conn]
	pool := pgtest.Pool(t, connections(1), func(c *pgxpool.Config) {
		c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (conn net.Conn, err error) {
			conn, err = new(net.Dialer).DialContext(ctx, network, address)
			if err == nil && !dialled.CompareAndSwap(nil, &conn) {
				conn.Close()
				return nil, errors.New("the test allows one connection")
			}
			return conn, err
		}
		host, port, err := net.SplitHostPort(p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			t.Fatal(err)
		}
		c.ConnConfig.Host, c.ConnConfig.Port, c.ConnConfig.Fallbacks = host, uint16(number), nil
	})
	s, err = New(pool, &Options{Schema: d.schema})
	if err != nil {
		t.Fatal(err)
	}
	return p, s, func() { (*dialled.Load()).Close() }
}

// whole is a delivery with everything that says whether it was touched: its
// columns, the transaction that wrote it and the place where it lies.
func (d *database) whole(t testing.TB, ref driver.ID) string {
	t.Helper()
	return one[string](t, d, "SELECT (d.*, d.xmin, d.ctid)::text FROM {s}delivery d WHERE ref = $1", ref.String())
}

// one claims ref for a fresh owner, which must succeed.
func (d *database) take(t testing.TB, ref driver.ID) driver.Claimed {
	t.Helper()
	r := request("m:mail", 1)
	r.Refs = []driver.ID{ref}
	for _, r.Suspects = range []bool{false, true} {
		got, err := d.Claim(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 1 {
			return got[0]
		}
	}
	t.Fatalf("%s cannot be claimed", ref)
	return driver.Claimed{}
}

// decide is what lifecycle makes of an event of c's owner.
func decide(t testing.TB, c driver.Claimed, e lifecycle.Event) lifecycle.Transition {
	t.Helper()
	e.Owner, e.Generation = c.State.Owner, c.State.Generation
	if e.Attempt == 0 {
		e.Attempt = c.State.AttemptNo()
	}
	e.Digest = c.Intent.Digest
	x := lifecycle.DefaultPolicy.Apply(c.State, e)
	if x.Answer != lifecycle.Apply {
		t.Fatalf("%s is answered %s %s", e.Kind, x.Answer, x.Code)
	}
	x.Ref = c.Intent.Ref
	return x
}

// TestLateWrite: a write that was cut off and reaches the database after another
// one was applied changes nothing, byte for byte. The bytes of the write are really
// held back on the wire, its client has given up and is gone, and the server gets
// them in the end.
func TestLateWrite(t *testing.T) {
	const hour = time.Hour // more than any lease
	start := lifecycle.Event{Kind: lifecycle.EvStart}
	type done func(t *testing.T, d *database, ref driver.ID)
	nothing := func(*testing.T, *database, driver.ID) {}
	claimed := func(t *testing.T, d *database, ref driver.ID) {
		if err := d.Elapse(t.Context(), hour); err != nil {
			t.Fatal(err)
		}
		d.take(t, ref)
	}
	started := func(t *testing.T, d *database, ref driver.ID) {
		claimed(t, d, ref)
		held, err := d.Load(t.Context(), []driver.ID{ref})
		if err != nil {
			t.Fatal(err)
		}
		apply(t, d, []lifecycle.Transition{decide(t, driver.Claimed{Intent: held[0].Intent, State: held[0].State}, start)})
	}
	settled := func(t *testing.T, d *database, ref driver.ID) {
		started(t, d, ref)
		held, err := d.Load(t.Context(), []driver.ID{ref})
		if err != nil {
			t.Fatal(err)
		}
		apply(t, d, []lifecycle.Transition{decide(t, driver.Claimed{Intent: held[0].Intent, State: held[0].State},
			lifecycle.Event{Kind: lifecycle.EvSucceeded})})
	}
	erased := func(t *testing.T, d *database, ref driver.ID) {
		if n, err := d.Erase(t.Context(), []string{"customer:1"}); err != nil || n != 1 {
			t.Fatal(n, err)
		}
	}
	for _, c := range []struct {
		name    string
		begun   bool // the late owner has started before
		late    lifecycle.Event
		between done
		applies bool
	}{
		// These show that the bytes arrive, and would change the row.
		{"start/nothing else", false, start, nothing, true},
		{"success/nothing else", true, lifecycle.Event{Kind: lifecycle.EvSucceeded}, nothing, true},

		{"start/claimed by another", false, start, claimed, false},
		{"start/started by another", false, start, started, false},
		{"start/settled by another", false, start, settled, false},
		{"start/erased", false, start, erased, false},
		{"release/claimed by another", false, lifecycle.Event{Kind: lifecycle.EvReleased}, claimed, false},
		{"success/claimed by another", true, lifecycle.Event{Kind: lifecycle.EvSucceeded}, claimed, false},
		{"success/settled by another", true, lifecycle.Event{Kind: lifecycle.EvSucceeded}, settled, false},
		{"success/erased", true, lifecycle.Event{Kind: lifecycle.EvSucceeded}, erased, false},
		{"refusal/claimed by another", true, lifecycle.Event{Kind: lifecycle.EvRefused, Error: "503"}, claimed, false},
		{"refusal/settled by another", true, lifecycle.Event{Kind: lifecycle.EvRefused, Error: "503"}, settled, false},
		{"unknown/started by another", true, lifecycle.Event{Kind: lifecycle.EvUnknown}, started, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := open(t)
			proxy, slow, cut := behind(t, d)
			n, warm := message("mail", webhook, 100), message("mail", webhook, 100)
			n.Subject = "customer:1"
			d.insert(t, n, warm)
			// The statement has to be prepared, or the late bytes would be those of
			// its preparation.
			if _, err := slow.bound.Apply(t.Context(), []lifecycle.Transition{decide(t, d.take(t, warm.Ref), start)}); err != nil {
				t.Fatal(err)
			}
			owner := d.take(t, n.Ref)
			if c.begun {
				x := decide(t, owner, start)
				apply(t, d, []lifecycle.Transition{x})
				owner = after(owner, &x)
			}
			late := decide(t, owner, c.late)

			ctx, giveUp := context.WithCancel(t.Context())
			held := proxy.Hold()
			answer := make(chan error, 1)
			go func() {
				_, err := slow.bound.Apply(ctx, []lifecycle.Transition{late})
				answer <- err
			}()
			await(t, "the write is on the wire", held.Arrived())
			giveUp()
			if err := <-answer; !errors.Is(err, context.Canceled) {
				t.Fatalf("the client gave up with %v", err)
			}
			cut()
			await(t, "the client is gone", held.Gone())
			c.between(t, d, n.Ref)
			before := d.whole(t, n.Ref)
			log := one[int](t, d, "SELECT count(*) FROM {s}attempt")

			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			bytes, err := held.Release(ctx)
			if err != nil || bytes == 0 {
				t.Fatalf("%d bytes were late, %v", bytes, err)
			}
			after := d.whole(t, n.Ref)
			if changed := after != before; changed != c.applies {
				t.Errorf("the late write has changed the row: %v, want %v\nbefore %s\nafter  %s", changed, c.applies, before, after)
			}
			if !c.applies && one[int](t, d, "SELECT count(*) FROM {s}attempt") != log {
				t.Error("the late write has left a log row")
			}
		})
	}
}

func await(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("after %s still not: %s", patience, what)
	}
}

// TestLateClaim: a claim that was cut off and takes effect late is an ordinary
// claim, known by its owner. Nobody was told of it, so its lease runs out.
func TestLateClaim(t *testing.T) {
	d := open(t)
	proxy, slow, cut := behind(t, d)
	warm, n := message("mail", webhook, 100), message("other", webhook, 100)
	d.insert(t, warm, n)
	if got, err := slow.bound.Claim(t.Context(), request("m:mail", 1)); err != nil || len(got) != 1 {
		t.Fatal(len(got), err)
	}
	r := request("m:other", 1)
	ctx, giveUp := context.WithCancel(t.Context())
	held := proxy.Hold()
	answer := make(chan error, 1)
	go func() {
		got, err := slow.bound.Claim(ctx, r)
		if len(got) > 0 {
			err = fmt.Errorf("handed out %d rows: %w", len(got), err)
		}
		answer <- err
	}()
	await(t, "the claim is on the wire", held.Arrived())
	giveUp()
	if err := <-answer; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	cut()
	await(t, "the client is gone", held.Gone())
	if got, err := d.Held(t.Context(), r); err != nil || len(got) != 0 {
		t.Fatalf("%d rows are held before the claim arrived, %v", len(got), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := held.Release(ctx); err != nil {
		t.Fatal(err)
	}
	got, err := d.Held(t.Context(), r)
	if err != nil || len(got) != 1 || got[0].Intent.Ref != n.Ref || got[0].State.Owner != r.Owner {
		t.Fatalf("the owner's look-up finds %d rows, %v", len(got), err)
	}
}
