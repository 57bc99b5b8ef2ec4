//go:build unix

package pgtest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// supervisorEnv makes this test binary a supervisor: its value is a spec.
const supervisorEnv = "CONSIGN_PGTEST_SUPERVISOR"

// stopWait limits an orderly stop before the server is killed; startWait a
// start, recovery included; retryFor the time a start is repeated after a
// kill, while processes of the killed server still hold its shared memory.
const (
	stopWait  = 30 * time.Second
	startWait = 2 * time.Minute
	retryFor  = 20 * time.Second
)

// spec is what a supervisor is to run.
type spec struct {
	Dir              string
	Initdb, Postgres string
	Account          account
	Password         string
	Settings         string
	Env              []string // of the server's processes, beside what they inherit
	Follows          string   // connection string of the server to replicate; empty: none
}

// answer is one line from the supervisor.
type answer struct {
	PID   int    `json:",omitempty"` // the postmaster accepts connections; 0: stopped
	Error string `json:",omitempty"`
}

// supervisor owns one server process and its directory.
type supervisor struct {
	spec
	log        *os.File // what the server programs print
	postmaster *exec.Cmd
	exited     chan error
}

// supervise runs a server until the commands end, which they do when the
// parent closes the pipe or dies, then removes every trace of it.
func supervise(raw string) (code int) {
	// The server asks the kernel for a signal when the thread that started it
	// ends, so that it also dies with a supervisor that is killed. Locking keeps
	// that thread alive as long as this function runs.
	runtime.LockOSThread()
	const firstExtra = 3 // lock, commands, answers
	for fd := firstExtra; fd < firstExtra+3; fd++ {
		syscall.CloseOnExec(fd) // the server must hold neither the lock nor the pipes
	}
	commands := os.NewFile(firstExtra+1, "commands")
	answers := json.NewEncoder(os.NewFile(firstExtra+2, "answers"))
	s := supervisor{log: os.Stderr} // which is the log file, see startSupervisor
	if err := json.Unmarshal([]byte(raw), &s.spec); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest: supervisor:", err)
		return 2
	}
	defer func() {
		if err := errors.Join(s.stop(Immediate), os.RemoveAll(s.Dir)); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest: supervisor:", err)
			code = 1
		}
	}()
	s.report(answers, s.create())
	for lines := bufio.NewScanner(commands); lines.Scan(); {
		s.report(answers, s.obey(lines.Text()))
	}
	return 0
}

// The commands beside the name of a mode, which restarts.
const (
	stopCommand  = "stop " // and a mode
	startCommand = "start"
)

func (s *supervisor) obey(command string) error {
	if mode, ok := strings.CutPrefix(command, stopCommand); ok {
		return s.stop(Mode(mode))
	}
	if command == startCommand {
		return s.startAgain()
	}
	return s.restart(Mode(command))
}

// report tells the parent how a command ended. A parent that is gone is not an
// error: the end of the commands says so next.
func (s *supervisor) report(to *json.Encoder, err error) {
	a := answer{}
	if err != nil {
		a.Error = err.Error() + logTail(s.Dir)
	} else if s.postmaster != nil {
		a.PID = s.postmaster.Process.Pid
	}
	if err := to.Encode(a); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest: supervisor: the tests are gone:", err)
	}
}

// create makes the data directory and starts the server.
func (s *supervisor) create() error {
	build := s.initdb
	if s.Follows != "" {
		build = s.copy
	}
	if err := build(); err != nil {
		return err
	}
	conf, err := os.OpenFile(filepath.Join(s.Dir, dataDir, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = io.WriteString(conf, s.Settings)
	if err := errors.Join(err, conf.Close()); err != nil {
		return err
	}
	return s.start()
}

// copy makes the data directory of a standby of another server.
func (s *supervisor) copy() error {
	backup := s.command(filepath.Join(filepath.Dir(s.Initdb), "pg_basebackup"), "-D", filepath.Join(s.Dir, dataDir), "-d", s.Follows,
		"--write-recovery-conf", "--checkpoint=fast", "--no-sync")
	if err := backup.Run(); err != nil {
		return fmt.Errorf("pg_basebackup: %w", err)
	}
	return nil
}

// initdb makes a new data directory.
func (s *supervisor) initdb() error {
	secret := filepath.Join(s.Dir, "password")
	if err := os.WriteFile(secret, []byte(s.Password+"\n"), 0o600); err != nil {
		return err
	}
	if err := os.Chown(secret, int(s.Account.UID), int(s.Account.GID)); err != nil {
		return err
	}
	data := filepath.Join(s.Dir, dataDir)
	initdb := s.command(s.Initdb, "-D", data, "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C",
		"--auth-local=trust", "--auth-host=scram-sha-256", "--pwfile="+secret)
	if err := initdb.Run(); err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	return os.Remove(secret)
}

// command is a server program, run as the server's account, that dies with
// this process where the system offers that.
func (s *supervisor) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = s.Dir // the account may not enter the current directory
	cmd.Env = append(serverEnv(os.Environ()), s.Env...)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	cmd.SysProcAttr = s.Account.attributes()
	dieWithParent(cmd.SysProcAttr)
	return cmd
}

// start starts the server and waits until it accepts connections.
func (s *supervisor) start() error {
	cmd := s.command(s.Postgres, "-D", filepath.Join(s.Dir, dataDir))
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	s.postmaster, s.exited = cmd, exited
	deadline := time.After(startWait)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-exited:
			s.postmaster = nil
			return fmt.Errorf("the server ended while starting: %v", cmd.ProcessState)
		case <-deadline:
			return fmt.Errorf("the server did not start in %v", startWait)
		case <-tick.C:
			if pid, status := readPIDFile(s.Dir); pid == cmd.Process.Pid && (status == "ready" || status == "standby") {
				return nil
			}
		}
	}
}

// restart stops the server in the given mode and starts it again.
func (s *supervisor) restart(mode Mode) error {
	if err := s.stop(mode); err != nil {
		return err
	}
	if mode == Kill {
		return s.startAgain()
	}
	return s.start()
}

// startAgain starts a server that may not have ended in good order: what is left
// of it may hold its shared memory for a while.
func (s *supervisor) startAgain() error {
	if s.postmaster != nil { // it has ended by itself, or it is to
		if err := s.stop(Fast); err != nil {
			return err
		}
	}
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		err := s.start()
		if err == nil || time.Since(began) > retryFor {
			return err
		}
	}
}

// stop ends the server, which is this process's own child and no one else's:
// the process handle cannot name a stranger, and the server's own file must
// agree before any signal is sent.
func (s *supervisor) stop(mode Mode) error {
	if s.postmaster == nil {
		return nil
	}
	signal := map[Mode]syscall.Signal{Fast: syscall.SIGINT, Immediate: syscall.SIGQUIT, Kill: syscall.SIGKILL}[mode]
	if signal == 0 {
		return fmt.Errorf("unknown mode %q", mode)
	}
	if pid, _ := readPIDFile(s.Dir); pid != 0 && pid != s.postmaster.Process.Pid {
		return fmt.Errorf("process %d is started and %d is recorded for %s: neither is signalled", s.postmaster.Process.Pid, pid, s.Dir)
	}
	if err := s.postmaster.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.exited:
	case <-time.After(stopWait):
		if err := s.postmaster.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		<-s.exited
	}
	s.postmaster = nil
	return nil
}

// readPIDFile returns the process id and the status that the server recorded,
// if what it recorded is about the data directory of dir.
func readPIDFile(dir string) (pid int, status string) {
	data := filepath.Join(dir, dataDir)
	raw, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0, "" // not started, or stopped in good order
	}
	lines := strings.Split(string(raw), "\n")
	if len(lines) < 2 || lines[1] != data {
		return 0, ""
	}
	pid, err = strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 1 {
		return 0, ""
	}
	if len(lines) > 7 {
		status = strings.TrimSpace(lines[7])
	}
	return pid, status
}

// logTail is the end of the server's log, for an error message.
func logTail(dir string) string {
	const most = 2000
	raw, err := os.ReadFile(filepath.Join(dir, logFile))
	if err != nil || len(raw) == 0 {
		return ""
	}
	return "\nthe log ends with:\n" + string(raw[max(0, len(raw)-most):])
}
