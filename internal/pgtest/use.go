//go:build unix

package pgtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Mode is a way to stop the server.
type Mode string

// The ways Restart can stop the server.
const (
	Fast      Mode = "fast"      // sessions end, a checkpoint is written: an orderly restart
	Immediate Mode = "immediate" // every server process stops at once: recovery at the next start
	Kill      Mode = "kill"      // SIGKILL to the postmaster: recovery at the next start
)

// URL returns a connection string for the test server, for database/sql and
// for child processes. It names a unix socket. The test fails, with advice, if
// there is no PostgreSQL to start: a store is never tested by skipping.
func URL(t testing.TB) string {
	t.Helper()
	return shared.mustURL(t)
}

// TCP returns a connection string with a TCP address on 127.0.0.1, which
// proxies and other things that need a port can stand in front of. The package
// must have asked for it with Runner{TCP: true}.
func TCP(t testing.TB) string {
	t.Helper()
	c, err := shared.own(t.Context(), "TCP")
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	if !c.launch.tcp {
		t.Fatal("pgtest: the server has no TCP port; use Runner{M: m, TCP: true} in TestMain")
	}
	return c.tcpURL()
}

// Pool returns a pool of connections to the test server, closed when the test
// ends. No search_path is set: name the test's [Schema] in the statements or
// in the pool's configuration, which each option may change before the pool
// opens. A connection not given back by the end of the test fails the test.
func Pool(t testing.TB, options ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	return shared.pool(t, options...)
}

// Schema creates a schema for this test alone and returns its name, which
// needs no quoting. It is dropped, with all it holds, when the test ends; a
// transaction left open on it fails the test.
func Schema(t testing.TB) string {
	t.Helper()
	return shared.schema(t)
}

// Restart stops the server in the given mode, starts it again and returns when
// it accepts connections. Address and data stay; connections do not. Calls are
// one at a time, but other tests of the binary lose their connections too: do
// not use it beside parallel tests.
func Restart(t testing.TB, mode Mode) {
	t.Helper()
	if err := shared.restart(t.Context(), mode); err != nil {
		t.Fatalf("pgtest: restart %s: %v", mode, err)
	}
}

func (s *server) mustURL(t testing.TB) string {
	t.Helper()
	url, err := s.url(t.Context())
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return url
}

func (s *server) pool(t testing.TB, options ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(s.mustURL(t))
	if err != nil {
		t.Fatalf("pgtest: pool: %v", err)
	}
	for _, o := range options {
		o(cfg)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatalf("pgtest: pool: %v", err)
	}
	t.Cleanup(func() {
		closed := make(chan struct{})
		go func() { pool.Close(); close(closed) }()
		select {
		case <-closed:
		case <-time.After(s.closeWait):
			t.Errorf("pgtest: %d connections were not given back to the pool", pool.Stat().AcquiredConns())
		}
	})
	return pool
}

func (s *server) schema(t testing.TB) string {
	t.Helper()
	url := s.mustURL(t)
	random := make([]byte, 8)
	rand.Read(random) // never fails: crypto/rand ends the program instead
	name := schemaName(t.Name(), hex.EncodeToString(random))
	if err := s.execute(t.Context(), url, "CREATE SCHEMA "+name); err != nil {
		t.Fatalf("pgtest: create schema %s: %v", name, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), answerWait) // the test's own context is over
		defer cancel()
		if err := s.execute(ctx, url, "DROP SCHEMA "+name+" CASCADE"); err != nil {
			t.Errorf("pgtest: drop schema %s (a transaction left open on it?): %v", name, err)
		}
	})
	return name
}

// execute runs one statement on a connection of its own, so that schemas do
// not depend on any pool a test may have filled or closed.
func (s *server) execute(ctx context.Context, url, statement string) error {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	cfg.RuntimeParams["lock_timeout"] = fmt.Sprintf("%dms", s.dropWait.Milliseconds())
	cfg.RuntimeParams["client_min_messages"] = "warning"
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, statement)
	return err
}
