//go:build unix

package pgtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Options say how a server of one test alone differs from the usual one.
type Options struct {
	Dir      string            // where its directory is made, such as a small file system. Default: where temporary files are
	Env      []string          // of the server's processes, beside what they inherit. Default: none
	Settings map[string]string // beside or over the package's own. Default: none
	Follows  *Server           // be its standby, fed by streaming replication. Default: a server of its own
}

// Server is a server of one test alone, reached by a unix socket. It may fail on
// purpose: what happens to it reaches no other test.
type Server struct{ cluster *cluster }

// Alone starts a server for this test alone and removes it when the test ends,
// beside the shared one, and also where CONSIGN_TEST_POSTGRES names another.
func Alone(t testing.TB, o Options) *Server {
	t.Helper()
	l := launch{
		programs: func() (programs, error) { return findPrograms(os.Getenv("PATH"), serverDirs) },
		settings: o.Settings, base: o.Dir, env: o.Env,
	}
	if o.Follows != nil {
		l.follows = o.Follows.URL()
	}
	c, err := start(l)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := c.stop(); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return &Server{c}
}

// URL returns a connection string for the server.
func (s *Server) URL() string { return s.cluster.url() }

// Stop stops the server in the given mode, and it stays down.
func (s *Server) Stop(t testing.TB, mode Mode) {
	t.Helper()
	if err := s.cluster.command(stopCommand + string(mode)); err != nil {
		t.Fatalf("pgtest: stop %s: %v", mode, err)
	}
}

// Start starts the server again and returns when it accepts connections. One that
// runs is stopped before.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.cluster.command(startCommand); err != nil {
		t.Fatalf("pgtest: start: %v", err)
	}
}

// Exec runs one statement on a connection of its own.
func (s *Server) Exec(ctx context.Context, statement string) error {
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, statement)
	return err
}

// Schema makes a schema of a name for the test.
func (s *Server) Schema(t testing.TB, name string) string {
	t.Helper()
	if err := s.Exec(t.Context(), "CREATE SCHEMA "+name); err != nil {
		t.Fatal(err)
	}
	return name
}

// KillBackend ends one client's server process of the shared server with SIGKILL.
// The server takes that for a sign that its shared memory may be damaged: it ends
// all sessions and recovers. It is refused for a process that does not run in this
// server's own data directory.
func KillBackend(t testing.TB) {
	t.Helper()
	c, err := shared.own(t.Context(), "KillBackend")
	if err == nil {
		err = c.killBackend(t.Context())
	}
	if err != nil {
		t.Fatalf("pgtest: kill a backend: %v", err)
	}
}

func (c *cluster) killBackend(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.url())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var pid int
	// Another session where there is one, the busiest first.
	err = conn.QueryRow(ctx, `SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'
		ORDER BY pid = pg_backend_pid(), state = 'idle', pid LIMIT 1`).Scan(&pid)
	if err != nil {
		return err
	}
	if data := filepath.Join(c.dir, dataDir); pid <= 1 || !serves(pid, data) {
		return fmt.Errorf("process %d does not run in %s: it is not signalled", pid, data)
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}
