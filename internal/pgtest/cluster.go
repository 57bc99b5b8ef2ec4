//go:build unix

package pgtest

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The names in a temporary directory and in a cluster's directory.
const (
	dirPrefix = "consign-pg-"
	dataDir   = "data"
	logFile   = "log"
	lockFile  = "lock"
)

// answerWait limits the wait for the supervisor: creating a cluster or a
// recovery after a kill, on a busy machine.
const answerWait = 3 * time.Minute

// launch is all that decides how a cluster is started.
type launch struct {
	programs func() (programs, error)
	tcp      bool
	settings map[string]string
	base     string   // where its directory is made; empty: where temporary files are
	env      []string // of the server's processes
	follows  string   // the server to replicate; empty: none
}

// cluster is the parent's end of a running server.
type cluster struct {
	launch   launch
	dir      string // holds the data directory, the socket, the log and the lock
	port     int    // of the TCP address; names the socket too
	password string // for TCP, where any local user could connect
	pid      int    // of the postmaster

	supervisor *exec.Cmd
	commands   *os.File // a line each way; closing it ends the supervisor
	answers    *os.File
	reader     *bufio.Reader
}

// start makes a cluster and returns when it accepts connections.
func start(l launch) (*cluster, error) {
	p, err := l.programs()
	if err != nil {
		return nil, err
	}
	owner, err := serverAccount(os.Geteuid(), os.Getegid(), user.Lookup)
	if err != nil {
		return nil, err
	}
	base := l.base
	if base == "" {
		base = owner.baseDir(os.TempDir())
	}
	if err := sweep(base, owner); err != nil {
		return nil, fmt.Errorf("remove what dead runs left: %w", err)
	}
	const tries = 3 // the free port may be taken before the server has it
	for try := 1; ; try++ {
		c := &cluster{launch: l, port: 5432, password: rand.Text()}
		if l.tcp {
			if c.port, err = freePort(); err != nil {
				return nil, err
			}
		}
		err := c.start(p, owner, base)
		if err == nil {
			return c, nil
		}
		if !l.tcp || try == tries {
			return nil, err
		}
	}
}

func (c *cluster) start(p programs, owner account, base string) error {
	dir, lock, err := makeDir(base, owner)
	if err != nil {
		return err
	}
	defer lock.Close() // the supervisor holds it from here on
	c.dir = dir
	raw, err := json.Marshal(spec{
		Dir: dir, Initdb: p.initdb, Postgres: p.postgres, Account: owner,
		Password: c.password, Settings: c.configuration(), Env: c.launch.env, Follows: c.launch.follows,
	})
	if err == nil {
		err = c.startSupervisor(string(raw), lock)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	if err := c.await(); err != nil {
		return errors.Join(fmt.Errorf("start PostgreSQL (%s): %w", p.postgres, err), c.end())
	}
	return nil
}

// startSupervisor starts this test binary again as the server's owner. It has
// a session of its own, so that ^C at a terminal ends the tests and leaves the
// supervisor to clean up.
func (c *cluster) startSupervisor(raw string, lock *os.File) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	commandsIn, commands, err := os.Pipe()
	if err != nil {
		return err
	}
	defer commandsIn.Close()
	answers, answersOut, err := os.Pipe()
	if err != nil {
		return errors.Join(err, commands.Close())
	}
	defer answersOut.Close()
	log, err := os.OpenFile(filepath.Join(c.dir, logFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return errors.Join(err, commands.Close(), answers.Close())
	}
	defer log.Close()
	cmd := exec.Command(self)
	cmd.Env = append(serverEnv(os.Environ()), supervisorEnv+"="+raw,
		"GORACE=atexit_sleep_ms=0") // built with -race it would end a second late
	cmd.Stdout, cmd.Stderr = log, log // never the parent's: go test waits for those to close
	cmd.ExtraFiles = []*os.File{lock, commandsIn, answersOut}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, commands.Close(), answers.Close())
	}
	c.supervisor, c.commands, c.answers, c.reader = cmd, commands, answers, bufio.NewReader(answers)
	return nil
}

// restart has the supervisor stop the server in the given mode and start it.
func (c *cluster) restart(mode Mode) error {
	switch mode {
	case Fast, Immediate, Kill:
	default:
		return fmt.Errorf("unknown mode %q; want fast, immediate or kill", mode)
	}
	return c.command(string(mode))
}

// command has the supervisor do something and waits until it is done.
func (c *cluster) command(line string) error {
	if _, err := fmt.Fprintln(c.commands, line); err != nil {
		return fmt.Errorf("the supervisor is gone: %w", err)
	}
	return c.await()
}

// await reads the supervisor's answer: the server's process id, or why not.
func (c *cluster) await() error {
	if err := c.answers.SetReadDeadline(time.Now().Add(answerWait)); err != nil {
		return err
	}
	line, err := c.reader.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("no answer from the supervisor: %w%s", err, logTail(c.dir))
	}
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		return err
	}
	if a.Error != "" {
		return errors.New(a.Error)
	}
	c.pid = a.PID
	return nil
}

// stop ends the server and removes its directory. The supervisor does both
// when its pipe closes, so an orderly end runs what a crash runs.
func (c *cluster) stop() error {
	if err := c.end(); err != nil {
		return fmt.Errorf("stop PostgreSQL: %w", err)
	}
	if _, err := os.Lstat(c.dir); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("stop PostgreSQL: %s is still there", c.dir)
	}
	return nil
}

func (c *cluster) end() error {
	return errors.Join(c.commands.Close(), c.supervisor.Wait(), c.answers.Close())
}

// url is the address of the unix socket.
func (c *cluster) url() string {
	q := url.Values{"host": {c.dir}, "port": {strconv.Itoa(c.port)}, "user": {"postgres"}, "sslmode": {"disable"}}
	return "postgres:///postgres?" + q.Encode()
}

// tcpURL is the TCP address, if the launch asked for one.
func (c *cluster) tcpURL() string {
	return fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%d/postgres?sslmode=disable", c.password, c.port)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// serverEnv is an environment for server programs: no variable that would
// point them at another server or make their messages another language's.
func serverEnv(environ []string) []string {
	out := []string{"LC_ALL=C"}
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "PG") || strings.HasPrefix(name, "LC_") || name == "LANG" || name == "LANGUAGE" {
			continue
		}
		out = append(out, v)
	}
	return out
}
