//go:build unix

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(Runner{M: m}) }

// one returns the only value of a statement's only row.
func one[T any](t testing.TB, url, statement string) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var v T
	if err := conn.QueryRow(t.Context(), statement).Scan(&v); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return v
}

// ownServer fails the test on a server that is not this package's: what is
// tested here is how that one is started and ended.
func ownServer(t testing.TB) *cluster {
	t.Helper()
	c, err := shared.own(t.Context(), "this test")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestServerIsDurableAndPrivate(t *testing.T) {
	c := ownServer(t)
	for name, want := range map[string]string{
		"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "autovacuum": "on",
		"max_connections": "100", "listen_addresses": "", "wal_level": "replica",
		"unix_socket_directories": c.dir, "data_directory": filepath.Join(c.dir, dataDir),
		"server_encoding": "UTF8",
	} {
		if got := one[string](t, URL(t), "SHOW "+name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	info, err := os.Stat(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 {
		t.Errorf("directory has mode %v, want 0700: its socket trusts whoever can enter", info.Mode().Perm())
	}
	if _, err := os.Stat(filepath.Join(c.dir, "password")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the password file is left in place: %v", err)
	}
}

func TestServerDoesNotRunAsRoot(t *testing.T) {
	c := ownServer(t)
	for _, path := range []string{c.dir, filepath.Join(c.dir, dataDir)} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if uid := info.Sys().(*syscall.Stat_t).Uid; uid == 0 {
			t.Errorf("%s belongs to root", path)
		}
	}
	if pid, status := readPIDFile(c.dir); pid != c.pid || status != "ready" {
		t.Errorf("recorded process is %d %q, want %d ready", pid, status, c.pid)
	}
}

func TestSchemasIsolateTests(t *testing.T) {
	url := URL(t)
	var names []string
	for range 2 {
		t.Run("same name", func(t *testing.T) {
			schema := Schema(t)
			names = append(names, schema)
			pool := Pool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = schema })
			if _, err := pool.Exec(t.Context(), "CREATE TABLE intent (id int PRIMARY KEY); INSERT INTO intent VALUES (1)"); err != nil {
				t.Fatal(err)
			}
			var n int
			if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM intent").Scan(&n); err != nil || n != 1 {
				t.Fatalf("%d rows, %v; another test's rows are seen", n, err)
			}
		})
	}
	if len(names) != 2 || names[0] == names[1] {
		t.Fatalf("schemas %q, want two different ones", names)
	}
	for _, name := range names {
		if one[bool](t, url, "SELECT to_regnamespace('"+name+"') IS NOT NULL") {
			t.Errorf("schema %s outlived its test", name)
		}
	}
}

func TestSchemaNames(t *testing.T) {
	for test, want := range map[string]string{
		"TestClaim":                    "t_claim_00",
		"TestÄ/a b;\"--":               "t___a_b_____00",
		strings.Repeat("TestLong", 20): "t_longtestlongtestlongtestlongtestlongte_00",
	} {
		got := schemaName(test, "00")
		if len(got) > 63-len("0123456789abcd") {
			t.Errorf("schemaName(%q) = %q, too long with a full suffix", test, got)
		}
		if got != want {
			t.Errorf("schemaName(%q) = %q, want %q", test, got, want)
		}
	}
}

func TestRestartKeepsWhatWasCommitted(t *testing.T) {
	for _, mode := range []Mode{Fast, Immediate, Kill} {
		t.Run(string(mode), func(t *testing.T) {
			c, schema, url := ownServer(t), Schema(t), URL(t)
			before := c.pid
			conn, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.WithoutCancel(t.Context()))
			for _, statement := range []string{
				"CREATE TABLE " + schema + ".kept (id int)",
				"INSERT INTO " + schema + ".kept VALUES (1)",
				"BEGIN",
				"INSERT INTO " + schema + ".kept VALUES (2)",
			} {
				if _, err := conn.Exec(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			Restart(t, mode)
			if _, err := conn.Exec(t.Context(), "COMMIT"); err == nil {
				t.Error("the connection outlived the server")
			}
			if got := one[int](t, url, "SELECT sum(id) FROM "+schema+".kept"); got != 1 {
				t.Errorf("sum of ids is %d, want 1: the committed row and nothing else", got)
			}
			if c.pid == before {
				t.Errorf("process %d both times: nothing was restarted", before)
			}
			if URL(t) != url {
				t.Error("the address changed")
			}
		})
	}
}

func TestRestartsAreOneAtATime(t *testing.T) {
	c := ownServer(t)
	pids := make(chan int, 3)
	var group sync.WaitGroup
	for range cap(pids) {
		group.Go(func() {
			if err := shared.restart(t.Context(), Immediate); err != nil {
				t.Error(err)
			}
			shared.mu.Lock()
			defer shared.mu.Unlock()
			pids <- c.pid
		})
	}
	group.Wait()
	close(pids)
	n := 0
	for pid := range pids {
		if n++; pid <= 1 {
			t.Errorf("process id %d", pid)
		}
	}
	if n != cap(pids) {
		t.Errorf("%d restarts, want %d", n, cap(pids))
	}
	if got := one[int](t, URL(t), "SELECT 1"); got != 1 {
		t.Error("the server does not answer")
	}
}

func TestRestartRefusesUnknownMode(t *testing.T) {
	c := ownServer(t)
	before := c.pid
	err := shared.restart(t.Context(), "smart")
	if err == nil || !strings.Contains(err.Error(), "fast, immediate or kill") {
		t.Fatalf("error %v, want one that names the modes", err)
	}
	if c.pid != before || one[int](t, URL(t), "SELECT 1") != 1 {
		t.Error("the server was touched")
	}
}

func TestTCPAddressWorksBesideTheSocket(t *testing.T) {
	c, err := start(launch{
		programs: func() (programs, error) { return findPrograms(os.Getenv("PATH"), serverDirs) },
		tcp:      true,
		settings: map[string]string{"deadlock_timeout": "123ms", "cluster_name": "it's"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
	}()
	data := filepath.Join(c.dir, dataDir)
	for _, url := range []string{c.tcpURL(), c.url()} {
		if got := one[string](t, url, "SHOW data_directory"); got != data {
			t.Errorf("data directory %q, want %q", got, data)
		}
	}
	if got := one[string](t, c.url(), "SHOW deadlock_timeout"); got != "123ms" {
		t.Errorf("deadlock_timeout = %q", got)
	}
	if got := one[string](t, c.url(), "SHOW cluster_name"); got != "it's" {
		t.Errorf("cluster_name = %q", got)
	}
	wrong := strings.Replace(c.tcpURL(), c.password, "guess", 1)
	if conn, err := pgx.Connect(t.Context(), wrong); err == nil {
		t.Error("any password opens the TCP address")
		conn.Close(t.Context())
	}
	if err := c.restart(Fast); err != nil {
		t.Fatal(err)
	}
	if got := one[string](t, c.tcpURL(), "SHOW data_directory"); got != data {
		t.Errorf("data directory after a restart %q, want %q", got, data)
	}
}

func TestBrokenSettingSaysWhy(t *testing.T) {
	privateBase(t) // which fails the test if the directory stays
	_, err := start(launch{
		programs: func() (programs, error) { return findPrograms(os.Getenv("PATH"), serverDirs) },
		settings: map[string]string{"no_such_setting": "1"},
	})
	if err == nil {
		t.Fatal("started")
	}
	if !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("error does not show the server's log: %v", err)
	}
}

// fakeTB records what a test would have failed with.
type fakeTB struct {
	testing.TB
	fatal    string
	errors   []string
	cleanups []func()
}

func (f *fakeTB) Helper()           {}
func (f *fakeTB) Name() string      { return "TestFake" }
func (f *fakeTB) Cleanup(fn func()) { f.cleanups = append(f.cleanups, fn) }
func (f *fakeTB) Errorf(format string, args ...any) {
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}
func (f *fakeTB) Fatalf(format string, args ...any) {
	f.fatal = fmt.Sprintf(format, args...)
	panic(f)
}

// fatal runs fn and returns what it failed with.
func fatal(t *testing.T, fn func(t testing.TB)) string {
	t.Helper()
	f := &fakeTB{TB: t}
	func() {
		defer func() {
			if r := recover(); r != nil && r != any(f) {
				panic(r)
			}
		}()
		fn(f)
	}()
	return f.fatal
}

func TestMissingProgramsGiveAdvice(t *testing.T) {
	s := &server{}
	empty := t.TempDir()
	s.open(launch{programs: func() (programs, error) { return findPrograms(empty, []string{empty + "/*"}) }}, "")
	for range 2 { // the second test must be told the same, at once
		for name, use := range map[string]func(testing.TB){
			"URL":    func(t testing.TB) { s.mustURL(t) },
			"Pool":   func(t testing.TB) { s.pool(t) },
			"Schema": func(t testing.TB) { s.schema(t) },
		} {
			got := fatal(t, use)
			for _, want := range []string{"apt-get install postgresql", "brew install", overrideEnv, "./test.sh"} {
				if !strings.Contains(got, want) {
					t.Errorf("%s: advice lacks %q: %q", name, want, got)
				}
			}
		}
	}
}

// finish runs the cleanups, last first, as the end of a test does.
func (f *fakeTB) finish() {
	for _, fn := range slices.Backward(f.cleanups) {
		fn()
	}
}

func TestWhatATestLeavesOpenFailsIt(t *testing.T) {
	s := &server{dropWait: 100 * time.Millisecond, closeWait: 100 * time.Millisecond}
	s.open(launch{}, URL(t))
	f := &fakeTB{TB: t}
	schema, pool := s.schema(f), s.pool(f)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "CREATE TABLE "+schema+".held (id int)"); err != nil {
		t.Fatal(err)
	}
	f.finish()
	if len(f.errors) != 2 || !strings.Contains(f.errors[0], "1 connections were not given back") ||
		!strings.Contains(f.errors[1], "drop schema "+schema) {
		t.Errorf("errors %q, want one for the connection and one for the transaction", f.errors)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.execute(t.Context(), URL(t), "DROP SCHEMA "+schema); err != nil {
		t.Error(err)
	}
}

func TestMissingTestMainGivesAdvice(t *testing.T) {
	s := &server{}
	if got := fatal(t, func(t testing.TB) { s.schema(t) }); !strings.Contains(got, "pgtest.Main(m)") {
		t.Errorf("no advice: %q", got)
	}
}
