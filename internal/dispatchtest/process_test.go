//go:build unix

package dispatchtest

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a worker program, seen from the test.
type process struct {
	t     *testing.T
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	out   *output
}

// output is what a process has written so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// start starts p as a process of its own.
func (p program) start(t *testing.T) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	c := &process{t: t, name: p.Name, cmd: exec.Command(self), out: &output{}}
	c.cmd.Env = append(os.Environ(), programVariable+"="+string(raw), "GORACE=atexit_sleep_ms=0", "GOMAXPROCS=2", clockVariable+"="+p.Clock)
	c.cmd.Stdout, c.cmd.Stderr = c.out, c.out
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.cmd.ProcessState != nil {
			return
		}
		c.cmd.Process.Signal(syscall.SIGCONT)
		c.cmd.Process.Signal(syscall.SIGQUIT) // for its goroutines' stacks
		c.cmd.Wait()
		t.Logf("%s was still running:\n%s", c.name, c.out)
	})
	return c
}

// said reports whether the process has said something by now.
func (c *process) said(what string) bool { return strings.Contains(c.out.String(), what) }

// died waits for the process's death and reports whether it was by SIGKILL. One
// that does not die in time is killed, and has not died by itself.
func (c *process) died() bool { return c.diedBy(syscall.SIGKILL) }

func (c *process) diedBy(sig syscall.Signal) bool {
	late := false
	timer := time.AfterFunc(patience, func() {
		late = true
		c.cmd.Process.Signal(syscall.SIGQUIT) // for its goroutines' stacks
	})
	c.cmd.Wait()
	timer.Stop()
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != sig || late {
		c.t.Errorf("%s did not die at its point: %v\n%s", c.name, c.cmd.ProcessState, c.out)
		return false
	}
	return true
}

// stopped waits until the process stands still.
func (c *process) stopped() {
	c.t.Helper()
	until(c.t, c.name+" stands still", func() bool {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(c.cmd.Process.Pid, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
		if err != nil || pid != 0 && !status.Stopped() {
			c.t.Fatalf("%s: %v, %v\n%s", c.name, status, err, c.out)
		}
		return pid != 0
	})
}

// resume lets a process that stands still go on.
func (c *process) resume() {
	c.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		c.t.Fatal(err)
	}
}

// signal sends the process a signal.
func (c *process) signal(sig syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		c.t.Fatal(err)
	}
}

// end has the process end in order and returns what it tells.
func (c *process) end() (out told) {
	c.t.Helper()
	c.stdin.Close()
	timer := time.AfterFunc(patience, func() { c.cmd.Process.Kill() })
	defer timer.Stop()
	if err := c.cmd.Wait(); err != nil {
		c.t.Fatalf("%s: %v\n%s", c.name, err, c.out)
	}
	lines := strings.Split(strings.TrimSpace(c.out.String()), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &out); err != nil {
		c.t.Fatalf("%s: %v\n%s", c.name, err, c.out)
	}
	return out
}
