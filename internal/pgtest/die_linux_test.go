package pgtest

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

func TestServerDiesWithItsSupervisor(t *testing.T) {
	if isChild(t, true) {
		return
	}
	base := privateBase(t)
	c := startChild(t, nil)
	c.running(t)
	if err := syscall.Kill(c.Supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server has ended by itself", func() bool { return !alive(c.Postmaster) })
	c.end(t, true)
	if err := sweep(base, owner(t)); err != nil {
		t.Error(err)
	}
}

// TestServerHoldsNeitherLockNorPipes would fail if a server that outlives its
// supervisor kept the lock: no later start could then remove it.
func TestServerHoldsNeitherLockNorPipes(t *testing.T) {
	c := ownServer(t)
	open, err := filepath.Glob("/proc/" + strconv.Itoa(c.pid) + "/fd/*")
	if err != nil || len(open) == 0 {
		t.Fatalf("no open files seen: %v", err)
	}
	supervisor := "/proc/" + strconv.Itoa(c.supervisor.Process.Pid) + "/fd/"
	ours := map[string]string{}
	for _, fd := range []string{"3", "4", "5"} {
		name, err := os.Readlink(supervisor + fd)
		if err != nil {
			t.Fatal(err)
		}
		ours[name] = fd
	}
	if want := filepath.Join(c.dir, lockFile); ours[want] != "3" {
		t.Fatalf("the supervisor's files are %v, want %s as the first", ours, want)
	}
	for _, fd := range open {
		name, err := os.Readlink(fd)
		if err == nil && ours[name] != "" { // an error: closed meanwhile
			t.Errorf("the server holds %s, file %s of its supervisor", name, ours[name])
		}
	}
}
