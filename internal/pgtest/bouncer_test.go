//go:build unix

package pgtest

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func TestFindBouncerOrder(t *testing.T) {
	root := t.TempDir()
	first, second := install(t, filepath.Join(root, "first"), "pgbouncer"), install(t, filepath.Join(root, "second"), "pgbouncer")
	for name, c := range map[string]struct{ path, want string }{
		"PATH comes first": {first, first},
		"then the others":  {"/nowhere:", second},
	} {
		if got, err := findBouncer(c.path, []string{second}); err != nil || got != filepath.Join(c.want, "pgbouncer") {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	if _, err := findBouncer(root, nil); !errors.Is(err, errNoBouncer) || !strings.Contains(err.Error(), "apt-get install pgbouncer") {
		t.Errorf("without one: %v", err)
	}
}

// TestBouncerHandsConnectionsOn: two clients at once have one connection to the
// server between them, each for a transaction, and it ends with the test.
func TestBouncerHandsConnectionsOn(t *testing.T) {
	var pid int
	t.Run("in a test", func(t *testing.T) {
		url := Bouncer(t, 1)
		pool := Pool(t, func(c *pgxpool.Config) {
			through, err := pgx.ParseConfig(url)
			if err != nil {
				t.Fatal(err)
			}
			through.DefaultQueryExecMode = pgx.QueryExecModeExec
			c.ConnConfig = through
		})
		backends := map[int]bool{}
		for range 2 {
			conn, err := pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Release()
			var backend int
			if err := conn.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&backend); err != nil {
				t.Fatal(err)
			}
			backends[backend] = true
		}
		if len(backends) != 1 {
			t.Errorf("%d connections to the server for two clients, want one", len(backends))
		}
		for pid = range backends {
		}
	})
	eventually(t, "the connection to the server has ended", func() bool { return !alive(pid) })
}
