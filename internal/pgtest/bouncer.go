//go:build unix

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// bouncerDirs are where packages put PgBouncer, beside PATH: sbin is not in
// everybody's.
var bouncerDirs = []string{"/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/usr/bin", "/opt/homebrew/bin"}

// errNoBouncer is the advice given when there is none to start.
var errNoBouncer = errors.New(`no pgbouncer found; the tests need a real one. Do one of:
	run ./test.sh, which installs what the tests need where it may
	Debian, Ubuntu: apt-get install pgbouncer
	Fedora, RHEL:   dnf install pgbouncer
	macOS:          brew install pgbouncer`)

// firstBouncer names the socket of the first one; none listens on a port.
const firstBouncer = 6432

// Bouncer starts a PgBouncer in transaction mode in front of the test server and
// returns a connection string through it. Up to size connections lead to the
// server, each handed to another client after every transaction. It stops when
// the test ends, and where the system offers that with the test process.
func Bouncer(t testing.TB, size int) string {
	t.Helper()
	c, err := shared.own(t.Context(), "Bouncer")
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	b := bouncer{dir: c.dir, server: c.port, port: firstBouncer + int(shared.bouncers.Add(1)) - 1}
	if err := b.start(t.Context(), size); err != nil {
		t.Fatalf("pgtest: start PgBouncer: %v", err)
	}
	t.Cleanup(func() {
		if err := b.stop(); err != nil {
			t.Errorf("pgtest: stop PgBouncer: %v", err)
		}
	})
	return b.url()
}

// bouncer is a running PgBouncer in a cluster's directory, which is removed with
// all that it left there.
type bouncer struct {
	dir    string
	server int // the cluster's port
	port   int // names the socket

	process *exec.Cmd
	exited  chan error
}

func (b *bouncer) file(kind string) string {
	return filepath.Join(b.dir, "bouncer-"+strconv.Itoa(b.port)+"."+kind)
}

func (b *bouncer) url() string {
	q := url.Values{"host": {b.dir}, "port": {strconv.Itoa(b.port)}, "user": {"postgres"}, "sslmode": {"disable"}}
	return "postgres:///postgres?" + q.Encode()
}

func (b *bouncer) configuration(size int) string {
	return fmt.Sprintf(`[databases]
* = host=%[1]s port=%[2]d
[pgbouncer]
listen_addr =
listen_port = %[3]d
unix_socket_dir = %[1]s
auth_type = trust
auth_file = %[4]s
pool_mode = transaction
default_pool_size = %[5]d
max_client_conn = 500
`, b.dir, b.server, b.port, b.file("users"), size)
}

// start starts it as the server's account: it refuses to run as root.
func (b *bouncer) start(ctx context.Context, size int) error {
	program, err := findBouncer(os.Getenv("PATH"), bouncerDirs)
	if err != nil {
		return err
	}
	owner, err := serverAccount(os.Geteuid(), os.Getegid(), user.Lookup)
	if err != nil {
		return err
	}
	for kind, text := range map[string]string{"ini": b.configuration(size), "users": "\"postgres\" \"\"\n"} {
		if err := os.WriteFile(b.file(kind), []byte(text), 0o644); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(b.file(logFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program, b.file("ini"))
	cmd.Dir, cmd.Env = b.dir, serverEnv(os.Environ())
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = owner.attributes()
	dieWithParent(cmd.SysProcAttr)
	started, exited := make(chan error, 1), make(chan error, 1)
	go func() {
		// The signal that ends it with its parent comes when the thread that
		// started it ends, so that thread waits for it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			exited <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	b.process, b.exited = cmd, exited
	if err := b.await(ctx); err != nil {
		raw, _ := os.ReadFile(b.file(logFile)) // what there is of it
		return errors.Join(fmt.Errorf("%w\n%s", err, raw), b.stop())
	}
	return nil
}

// await returns once a query goes through.
func (b *bouncer) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	config, err := pgx.ParseConfig(b.url())
	if err != nil {
		return err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.ConnectConfig(ctx, config)
		if err == nil {
			_, err = conn.Exec(ctx, "SELECT 1")
			if err = errors.Join(err, conn.Close(ctx)); err == nil {
				return nil
			}
		}
		select {
		case ended := <-b.exited:
			b.exited <- ended
			return fmt.Errorf("it ended while starting: %v", ended)
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// stop ends it. It keeps nothing that would have to be put in order, and the
// process handle cannot name a stranger.
func (b *bouncer) stop() error {
	if err := b.process.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-b.exited
	return nil
}

// findBouncer looks along path, then in dirs.
func findBouncer(path string, dirs []string) (string, error) {
	for _, dir := range append(filepath.SplitList(path), dirs...) {
		if file := filepath.Join(dir, "pgbouncer"); dir != "" && executable(file) {
			return filepath.Abs(file)
		}
	}
	return "", errNoBouncer
}
