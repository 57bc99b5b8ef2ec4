//go:build unix

package pgtest

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// roleEnv marks a process that plays the child in the test it names.
const roleEnv = "CONSIGN_PGTEST_ROLE"

// patience limits every wait for another process.
const patience = 60 * time.Second

// report is what a child tells about itself.
type report struct {
	Data       string // the data directory of the server it uses
	Dir        string // of its own cluster
	Postmaster int
	Supervisor int
	Schema     string
}

// child is a second test binary, playing the same test in the child's role.
type child struct {
	report
	cmd    *exec.Cmd
	stdin  io.Closer
	output *bufio.Reader
}

// privateBase makes the directory in which this test and its children make
// their clusters, so that no other test binary's start sweeps it meanwhile.
func privateBase(t *testing.T) string {
	t.Helper()
	base, err := os.MkdirTemp("/tmp", "pgtest-base-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(base); err != nil {
			t.Errorf("clusters left behind: %v", err) // only an empty directory can be removed
		}
	})
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", base)
	return base
}

// startChild starts this binary again for the running test and returns once
// the child has reported.
func startChild(t *testing.T, env []string, args ...string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := "^" + regexp.QuoteMeta(t.Name()) + "$"
	cmd := exec.Command(self, append([]string{"-test.run=" + name, "-test.v=false"}, args...)...)
	cmd.Env = append(append(os.Environ(), roleEnv+"=child", "GORACE=atexit_sleep_ms=0"), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: cmd, stdin: stdin, output: bufio.NewReader(stdout)}
	t.Cleanup(func() { c.end(t, true) })
	for {
		line, err := c.output.ReadString('\n')
		if raw, ok := strings.CutPrefix(line, "report "); ok {
			if err := json.Unmarshal([]byte(raw), &c.report); err != nil {
				t.Fatal(err)
			}
			return c
		}
		if err != nil {
			t.Fatalf("the child ended without a report: %q %v", line, err)
		}
		if line = strings.TrimSpace(line); line != "" {
			t.Logf("child: %s", line)
		}
	}
}

// end lets the child finish, or kills its whole process group as a terminal or
// a build server would, and waits for it. Repeating it is harmless.
func (c *child) end(t *testing.T, kill bool) {
	t.Helper()
	if c.cmd.ProcessState != nil {
		return
	}
	if kill {
		if err := syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Error(err)
		}
	}
	c.stdin.Close()
	rest, err := io.ReadAll(c.output)
	if err != nil {
		t.Error(err)
	}
	err = c.cmd.Wait()
	if !kill && err != nil {
		t.Errorf("child: %v\n%s", err, rest)
	}
}

// isChild reports whether this process plays the child; if so it reports the
// server it uses and then holds it until the parent lets go.
func isChild(t *testing.T, own bool) bool {
	t.Helper()
	if os.Getenv(roleEnv) == "" {
		return false
	}
	r := report{Schema: Schema(t), Data: one[string](t, URL(t), "SHOW data_directory")}
	if own {
		c := ownServer(t)
		r.Dir, r.Postmaster, r.Supervisor = c.dir, c.pid, c.supervisor.Process.Pid
	}
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString("\nreport " + string(raw) + "\n")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		t.Fatal(err)
	}
	return true
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v still not: %s", patience, what)
		}
	}
}

// gone reports that neither the processes nor the directory exist.
func (r report) gone() bool {
	_, err := os.Lstat(r.Dir)
	return errors.Is(err, os.ErrNotExist) && !alive(r.Postmaster) && !alive(r.Supervisor)
}

// alive reports whether the process runs. One that has ended and waits for its
// parent to notice does not, and in a container that parent may never look.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) || runtime.GOOS != "linux"
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// running fails the test unless the child's server really runs: an absence is
// only worth something after a presence.
func (c *child) running(t *testing.T) {
	t.Helper()
	if _, err := os.Lstat(c.Dir); err != nil || !alive(c.Postmaster) || !alive(c.Supervisor) {
		t.Fatalf("the child's server does not run: %+v %v", c.report, err)
	}
	if free, err := lockIsFree(c.Dir); err != nil || free {
		t.Fatalf("the lock of %s is free (%v): a sweep would remove it", c.Dir, err)
	}
}

func lockIsFree(dir string) (bool, error) {
	f, err := os.Open(filepath.Join(dir, lockFile))
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
