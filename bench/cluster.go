//go:build unix

package bench

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// settings are the server's. The first three make a commit survive a loss of
// power; a comparison without them says nothing. Memory and log are large enough
// that no checkpoint falls into one subject's run and not into another's.
var settings = map[string]string{
	"fsync":              "on",
	"synchronous_commit": "on",
	"full_page_writes":   "on",

	"shared_buffers":     "1GB",
	"max_wal_size":       "16GB",
	"min_wal_size":       "4GB",
	"checkpoint_timeout": "1h",
	"max_connections":    "100",
	"autovacuum":         "on",

	"listen_addresses": "",
	"timezone":         "UTC",
}

// Cluster is a PostgreSQL server of its own, reached through a unix socket in its
// own directory. Where the system offers it, the server ends with this process
// however that ends; the directory is removed by Stop alone.
type Cluster struct {
	dir     string
	process *os.Process
	exited  chan error
}

// StartCluster makes a cluster in a new directory below base (empty: the usual
// place for temporary files) and returns when it accepts connections. extra are
// settings beside or over the usual ones. Run by root, the server runs as
// "postgres", or else as "nobody".
func StartCluster(base string, extra map[string]string) (c *Cluster, err error) {
	bin, err := serverPrograms()
	if err != nil {
		return nil, err
	}
	owner, err := serverOwner()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(base, "consign-bench-")
	if err != nil {
		return nil, err
	}
	c = &Cluster{dir: dir, exited: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start PostgreSQL: %w%s", err, c.logTail()), c.Stop())
		}
	}()
	if owner != nil {
		if err := os.Chown(dir, int(owner.Uid), int(owner.Gid)); err != nil {
			return c, err
		}
	}
	initdb := c.command(owner, filepath.Join(bin, "initdb"), "-D", c.data(), "-U", "postgres", "-E", "UTF8",
		"--locale=C", "--auth=trust", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		return c, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	all := maps.Clone(settings)
	maps.Copy(all, extra)
	all["unix_socket_directories"] = dir
	var conf strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&conf, "%s = '%s'\n", name, strings.ReplaceAll(all[name], "'", "''"))
	}
	if err := appendFile(filepath.Join(c.data(), "postgresql.conf"), conf.String()); err != nil {
		return c, err
	}
	return c, c.run(c.command(owner, filepath.Join(bin, "postgres"), "-D", c.data()))
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

// URL is the address of the server. Whoever may enter the directory may connect.
func (c *Cluster) URL() string {
	q := url.Values{"host": {c.dir}, "user": {"postgres"}, "sslmode": {"disable"}}
	return "postgres:///postgres?" + q.Encode()
}

// Stop ends the server and removes its directory.
func (c *Cluster) Stop() error {
	if c.process != nil {
		c.process.Signal(syscall.SIGQUIT) // nothing in it is worth a checkpoint
		<-c.exited
		c.process = nil
	}
	return os.RemoveAll(c.dir)
}

// run starts the server and waits until it is ready.
func (c *Cluster) run(cmd *exec.Cmd) error {
	log, err := os.OpenFile(c.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr.Setsid = true // ^C at the terminal is for this process, which then stops it
	started := make(chan error)
	go func() {
		// The server's end is bound to the thread that started it, where it is
		// bound at all, so that thread must stay.
		runtime.LockOSThread()
		dieWithParent(cmd.SysProcAttr)
		err := cmd.Start()
		started <- err
		if err == nil {
			c.exited <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	c.process = cmd.Process
	const patience = time.Minute
	for began := time.Now(); time.Since(began) < patience; time.Sleep(10 * time.Millisecond) {
		select {
		case err := <-c.exited:
			c.process = nil
			return fmt.Errorf("the server ended while starting: %w", err)
		default:
		}
		raw, _ := os.ReadFile(filepath.Join(c.data(), "postmaster.pid"))
		if lines := strings.Split(string(raw), "\n"); len(lines) > 7 && strings.TrimSpace(lines[7]) == "ready" {
			return nil
		}
	}
	return fmt.Errorf("the server is not ready after %v", patience)
}

func (c *Cluster) log() string { return filepath.Join(c.dir, "log") }

// logTail is the end of the server's log, for an error message.
func (c *Cluster) logTail() string {
	raw, err := os.ReadFile(c.log())
	if err != nil || len(raw) == 0 {
		return ""
	}
	return "\nthe log ends with:\n" + string(raw[max(0, len(raw)-2000):])
}

// command is a server program, with nothing in its environment that would point
// it at another server.
func (c *Cluster) command(owner *syscall.Credential, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = c.dir
	cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
	return cmd
}

// serverPrograms finds the directory of initdb and postgres: along PATH, by
// pg_config, then where Debian keeps them, newest version first.
func serverPrograms() (string, error) {
	dirs := filepath.SplitList(os.Getenv("PATH"))
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	packaged, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	version := func(dir string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		return n
	}
	slices.SortFunc(packaged, func(a, b string) int { return version(b) - version(a) })
	for _, dir := range append(dirs, packaged...) {
		_, initdb := exec.LookPath(filepath.Join(dir, "initdb"))
		_, postgres := exec.LookPath(filepath.Join(dir, "postgres"))
		if initdb == nil && postgres == nil {
			return dir, nil
		}
	}
	return "", errors.New("no PostgreSQL server programs (initdb, postgres) found; on Debian: apt-get install postgresql")
}

// serverOwner is whom a server started by root runs as; nil for anybody else.
func serverOwner() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if uidErr == nil && gidErr == nil && uid != 0 {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as")
}

func appendFile(name, text string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
