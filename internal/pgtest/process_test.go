//go:build unix

package pgtest

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

func TestTwoBinariesAtOnceDoNotCollide(t *testing.T) {
	if isChild(t, true) {
		return
	}
	ours := filepath.Join(ownServer(t).dir, dataDir)
	a, b := startChild(t, nil), startChild(t, nil)
	a.running(t)
	b.running(t)
	if a.Data == b.Data || a.Data == ours || b.Data == ours {
		t.Errorf("shared data directory: %s, %s and %s", a.Data, b.Data, ours)
	}
	a.end(t, false)
	if !a.gone() { // an orderly end leaves nothing by the time the binary has ended
		t.Errorf("left behind: %+v", a.report)
	}
	b.running(t)
	b.end(t, false)
	if !b.gone() {
		t.Errorf("left behind: %+v", b.report)
	}
}

func TestNothingRemainsAfterSIGKILL(t *testing.T) {
	if isChild(t, true) {
		return
	}
	privateBase(t)
	c := startChild(t, nil)
	c.running(t)
	c.end(t, true)
	eventually(t, "server and directory are gone", c.gone)
}

// TestNothingRemainsAfterAPanic stands for a test timeout too: the testing
// package ends a run that takes too long by a panic of its own goroutine.
func TestNothingRemainsAfterAPanic(t *testing.T) {
	if isChild(t, true) {
		go panic("as a test timeout does")
		select {}
	}
	privateBase(t)
	c := startChild(t, nil)
	c.running(t)
	c.stdin.Close()
	var exit *exec.ExitError
	if err := c.cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Fatalf("the child ended with %v; it was to panic", err)
	}
	eventually(t, "server and directory are gone", c.gone)
}

// owner is the account that servers run as here.
func owner(t *testing.T) account {
	t.Helper()
	a, err := serverAccount(os.Geteuid(), os.Getegid(), user.Lookup)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestNextStartRemovesWhatAKilledSupervisorLeft kills the one process that
// cleans up. A live cluster beside it must survive the next start's sweep.
func TestNextStartRemovesWhatAKilledSupervisorLeft(t *testing.T) {
	if isChild(t, true) {
		return
	}
	base := privateBase(t)
	dead, live := startChild(t, nil), startChild(t, nil)
	dead.running(t)
	live.running(t)
	if err := syscall.Kill(dead.Supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	dead.end(t, true)
	if _, err := os.Lstat(dead.Dir); err != nil {
		t.Fatalf("nothing was left to remove: %v", err)
	}
	eventually(t, "the dead one's lock is free", func() bool { free, err := lockIsFree(dead.Dir); return err == nil && free })
	if err := sweep(base, owner(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "server and directory are gone", dead.gone)
	live.running(t)
	live.end(t, false)
}

// TestNextStartStopsAServerNobodyOwns makes the case that Linux prevents: a
// server that runs on after its supervisor.
func TestNextStartStopsAServerNobodyOwns(t *testing.T) {
	runtime.LockOSThread() // the server ends with the thread that started it
	defer runtime.UnlockOSThread()
	p, err := findPrograms(os.Getenv("PATH"), serverDirs)
	if err != nil {
		t.Fatal(err)
	}
	base, who := privateBase(t), owner(t)
	dir, lock, err := makeDir(base, who)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, logFile))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	settings := (&cluster{dir: dir, port: 5432}).configuration()
	s := supervisor{log: log, spec: spec{Dir: dir, Initdb: p.initdb, Postgres: p.postgres, Account: who, Password: "x", Settings: settings}}
	if err := s.create(); err != nil {
		t.Fatal(err, logTail(dir))
	}
	pid := s.postmaster.Process.Pid
	lock.Close()
	if err := sweep(base, who); err != nil {
		t.Error(err)
	}
	if alive(pid) { // it would end by itself a minute after its directory is gone
		t.Error("the server still runs")
	}
	if err := s.stop(Immediate); err != nil {
		t.Error(err)
	}
}

// TestSweepSignalsNoStranger plants a leftover whose recorded process id now
// belongs to an unrelated process.
func TestSweepSignalsNoStranger(t *testing.T) {
	stranger := exec.Command("sleep", "600")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if !alive(stranger.Process.Pid) {
			t.Error("the stranger was signalled")
		}
		stranger.Process.Kill()
		stranger.Wait()
	}()
	base := t.TempDir()
	self := account{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	dir, lock, err := makeDir(base, self)
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, dataDir)
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	record, err := json.Marshal(stranger.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "postmaster.pid"), []byte(string(record)+"\n"+data+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	young := filepath.Join(base, dirPrefix+"young")
	if err := os.Mkdir(young, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := sweep(base, self); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); err != nil {
		t.Fatalf("a directory in use was removed: %v", err)
	}
	lock.Close()
	if err := sweep(base, self); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the leftover is still there: %v", err)
	}
	if _, err := os.Lstat(young); err != nil {
		t.Errorf("a directory being made was removed: %v", err)
	}
}

func TestOverrideUsesThatServer(t *testing.T) {
	if isChild(t, false) {
		for what, use := range map[string]func() error{
			"Restart": func() error { return shared.restart(t.Context(), Fast) },
			"TCP":     func() error { _, err := shared.own(t.Context(), "TCP"); return err },
		} {
			if err := use(); err == nil || !strings.Contains(err.Error(), overrideEnv) {
				t.Errorf("%s: %v, want a refusal that names %s", what, err, overrideEnv)
			}
		}
		return
	}
	ours, url := ownServer(t), URL(t)
	c := startChild(t, []string{overrideEnv + "=" + url})
	if want := filepath.Join(ours.dir, dataDir); c.Data != want {
		t.Errorf("the child uses %s, want %s", c.Data, want)
	}
	exists := "SELECT to_regnamespace('" + c.Schema + "') IS NOT NULL"
	if !one[bool](t, url, exists) {
		t.Errorf("schema %s is not on that server", c.Schema)
	}
	c.end(t, false)
	if one[bool](t, url, exists) {
		t.Errorf("schema %s outlived its test", c.Schema)
	}
}

func TestOverrideThatDoesNotAnswerSaysSo(t *testing.T) {
	for name, c := range map[string]struct{ url, want string }{
		"no server": {"postgres://u:secret@127.0.0.1:1/db", "127.0.0.1:1"},
		"no URL":    {"postgres://u:secret@%zz", "not a connection URL"},
	} {
		s := &server{}
		s.open(launch{}, c.url)
		for range 2 {
			got := fatal(t, func(t testing.TB) { s.mustURL(t) })
			if !strings.Contains(got, c.want) || !strings.Contains(got, overrideEnv) || strings.Contains(got, "secret") {
				t.Errorf("%s: %q; want %q, the variable's name and no password", name, got, c.want)
			}
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}
}
