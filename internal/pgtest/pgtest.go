//go:build unix

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// overrideEnv names the variable that points the tests at a running server.
const overrideEnv = "CONSIGN_TEST_POSTGRES"

// Main runs the tests of m, stops the cluster if one was started, and returns
// the exit code for os.Exit. It is Runner{M: m}.Run().
func Main(m *testing.M) int { return Runner{M: m}.Run() }

// Runner is Main with choices. It has the one method that
// goleak.VerifyTestMain asks for, so that a package can have both:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Runner{M: m}) }
type Runner struct {
	M        *testing.M        // the tests to run
	TCP      bool              // also listen on 127.0.0.1, see [TCP]. Default: unix socket only
	Settings map[string]string // server settings beside or over the package's own. Default: none
}

// Run runs the tests, stops the cluster if one was started, and returns the
// exit code. A cluster that cannot be stopped turns success into failure.
func (r Runner) Run() int {
	if raw := os.Getenv(supervisorEnv); raw != "" {
		os.Exit(supervise(raw)) // this process is not a test run: it owns a server
	}
	shared.open(launch{
		programs: func() (programs, error) { return findPrograms(os.Getenv("PATH"), serverDirs) },
		tcp:      r.TCP,
		settings: r.Settings,
	}, os.Getenv(overrideEnv))
	code := r.M.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		return max(code, 1)
	}
	return code
}

// shared is the one cluster of this test binary. It is the package's only
// global: the testing package gives a TestMain no other way to reach its tests.
var shared = server{dropWait: time.Minute, closeWait: time.Minute}

// server is a cluster that starts when it is first asked for.
type server struct {
	mu       sync.Mutex // serialises start, restart and stop
	running  bool       // between open and close
	override string     // URL of a server that is not ours, or empty
	checked  bool       // the override answered once
	launch   launch     // how to start
	cluster  *cluster   // nil until first use
	failed   error      // the first start's failure: later tests do not try again
	bouncers atomic.Int32

	// How long the end of a test waits for a lock on its schema, and for
	// connections it did not give back.
	dropWait, closeWait time.Duration
}

func (s *server) open(l launch, override string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running, s.launch, s.override = true, l, override
}

func (s *server) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = false
	if s.cluster == nil {
		return nil
	}
	c := s.cluster
	s.cluster = nil
	return c.stop()
}

// url returns the connection URL, starting the cluster on first use.
func (s *server) url(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running {
		return "", errors.New("no TestMain that calls pgtest.Main in this package; add: func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }")
	}
	if s.override != "" {
		return s.override, s.checkOverride(ctx)
	}
	if s.failed == nil && s.cluster == nil {
		s.cluster, s.failed = start(s.launch)
	}
	if s.failed != nil {
		return "", s.failed
	}
	return s.cluster.url(), nil
}

// checkOverride connects once, so that a wrong URL is one clear message and
// not a different error in every test. The URL may hold a password and is
// never printed; what it parses to is.
func (s *server) checkOverride(ctx context.Context) error {
	if s.checked || s.failed != nil {
		return s.failed
	}
	s.failed = func() error {
		cfg, err := pgx.ParseConfig(s.override)
		if err != nil {
			return fmt.Errorf("%s is not a connection URL; want postgres://user:password@host:port/database", overrideEnv)
		}
		conn, err := pgx.ConnectConfig(ctx, cfg)
		if err != nil {
			return fmt.Errorf("%s names %s:%d database %q, which does not answer: %w", overrideEnv, cfg.Host, cfg.Port, cfg.Database, err)
		}
		return conn.Close(ctx)
	}()
	s.checked = s.failed == nil
	return s.failed
}

// own returns the cluster if this package started it, starting it if need be.
func (s *server) own(ctx context.Context, what string) (*cluster, error) {
	if _, err := s.url(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.override != "" {
		return nil, fmt.Errorf("%s needs a server of its own: unset %s for this package", what, overrideEnv)
	}
	return s.cluster, nil
}

func (s *server) restart(ctx context.Context, mode Mode) error {
	c, err := s.own(ctx, "Restart")
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.restart(mode)
}

// schemaName makes a name that says which test it belongs to and that no other
// test, package or process can have. PostgreSQL keeps 63 bytes of a name.
func schemaName(test, suffix string) string {
	var b strings.Builder
	b.WriteString("t_")
	for _, r := range strings.ToLower(strings.TrimPrefix(test, "Test")) {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			r = '_'
		}
		b.WriteRune(r)
		if b.Len() == 40 {
			break
		}
	}
	return b.String() + "_" + suffix
}
