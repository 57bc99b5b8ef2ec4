package postgres

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/pgtest"
)

// counted counts the turns of a conversation: how often the client spoke after it
// had listened.
type counted struct {
	net.Conn
	turns    *atomic.Int64
	speaking atomic.Bool
}

func (c *counted) Write(b []byte) (int, error) {
	if !c.speaking.Swap(true) {
		c.turns.Add(1)
	}
	return c.Conn.Write(b)
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.speaking.Store(false)
	}
	return n, err
}

// TestRoundTrips: one message and a whole bulk cost the caller's transaction one
// round trip, and so does each of the engine's writes, with the commit included.
func TestRoundTrips(t *testing.T) {
	d := open(t)
	var turns atomic.Int64
	pool := pgtest.Pool(t, connections(1), func(c *pgxpool.Config) {
		c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return &counted{Conn: conn, turns: &turns}, err
		}
	})
	s, err := New(pool, &Options{Schema: d.schema})
	if err != nil {
		t.Fatal(err)
	}
	inSQL, db := openSQL(t, &database{pool: pool, schema: d.schema})
	insert := func(rows []driver.New) int64 {
		t.Helper()
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(t.Context())
		before := turns.Load()
		if err := s.bound.Join(tx).Insert(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
		took := turns.Load() - before
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		return took
	}
	insertSQL := func(rows []driver.New) int64 {
		t.Helper()
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		before := turns.Load()
		if err := inSQL.bound.Join(tx).Insert(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
		took := turns.Load() - before
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		return took
	}
	given := func(n int) []driver.New {
		rows := messages(n)
		for i := range rows {
			rows[i].Given = true
		}
		return rows
	}
	claim := func() int64 {
		before := turns.Load()
		got, err := s.bound.Claim(t.Context(), request("m:mail", 100))
		if err != nil || len(got) != 100 {
			t.Fatal(len(got), err)
		}
		return turns.Load() - before
	}
	start := func() int64 {
		ts := starts(d.claimedNow(t, 100))
		before := turns.Load()
		if _, err := s.bound.Apply(t.Context(), ts); err != nil {
			t.Fatal(err)
		}
		return turns.Load() - before
	}
	for _, c := range []struct {
		what string
		call func() int64
	}{
		{"one message", func() int64 { return insert(messages(1)) }},
		{"a bulk of 1,000", func() int64 { return insert(messages(1000)) }},
		{"a bulk of given refs that are new", func() int64 { return insert(given(100)) }},
		{"one message in a *sql.Tx", func() int64 { return insertSQL(messages(1)) }},
		{"a bulk in a *sql.Tx", func() int64 { return insertSQL(messages(1000)) }},
		{"a claim with its commit", claim},
		{"starts with their commit", start},
	} {
		c.call() // its statements are prepared now
		if took := c.call(); took != 1 {
			t.Errorf("%s takes %d round trips, want 1", c.what, took)
		}
	}
	before := turns.Load()
	rows := given(1)
	if err := pgx.BeginFunc(t.Context(), d.pool, func(tx pgx.Tx) error { return d.bound.Join(tx).Insert(t.Context(), rows) }); err != nil {
		t.Fatal(err)
	}
	insert(rows) // a repeat has to look; what it costs is only logged
	t.Logf("a repeated message takes %d turns with begin and commit", turns.Load()-before)
}

// claimedNow inserts and claims n messages.
func (d *database) claimedNow(t *testing.T, n int) []driver.Claimed {
	t.Helper()
	rows := messages(n)
	for i := range rows {
		rows[i].Kind = "claimed"
	}
	d.insert(t, rows...)
	got, err := d.Claim(t.Context(), request("m:claimed", n))
	if err != nil || len(got) != n {
		t.Fatal(len(got), err)
	}
	return got
}
