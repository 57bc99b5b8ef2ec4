package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// taskEnv makes a program that calls Child do what it says, and end.
const taskEnv = "CONSIGN_BENCH_TASK"

// task is what a process of its own is told.
type task struct {
	Role    string // what to do; one of roles
	URL     string // of the server
	Subject string
	Config  Config
	N       int
}

// roles are what a process can do. It tells its parent with tell. Its context ends
// when its standard input does, so that it ends with its parent however that ends.
var roles = map[string]func(ctx context.Context, t *task, tell func(any) error) error{
	"drain":  drainAlone,
	"starts": startsAlone,
}

// Child does what the parent asks in a process of its own. It returns false where
// this process was not started for that. Call it first in main.
func Child(ctx context.Context) (bool, error) {
	raw := os.Getenv(taskEnv)
	if raw == "" {
		return false, nil
	}
	var t task
	if err := json.Unmarshal([]byte(raw), &t); err != nil {
		return true, err
	}
	role, ok := roles[t.Role]
	if !ok {
		return true, fmt.Errorf("no role %q", t.Role)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return true, role(ctx, &t, json.NewEncoder(os.Stdout).Encode)
}

// process is another process of this program.
type process struct {
	cmd *exec.Cmd
	in  io.Closer
	out *json.Decoder
}

// start has another process do t.
func (s *Suite) start(ctx context.Context, t task) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	t.URL, t.Config = s.URL, s.Config
	told, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, self)}
	p.cmd.Env = append(os.Environ(), taskEnv+"="+string(told))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = json.NewDecoder(out)
	return p, p.cmd.Start()
}

// hear waits for the next that the process tells.
func (p *process) hear(v any) error {
	if err := p.out.Decode(v); err != nil {
		return fmt.Errorf("the other process tells nothing: %w", err)
	}
	return nil
}

// end asks the process to end, and waits. It may be called again.
func (p *process) end() error {
	if p.cmd.ProcessState != nil {
		return nil
	}
	err := p.in.Close()
	if waited := p.cmd.Wait(); waited != nil {
		return errors.Join(err, fmt.Errorf("the other process: %w", waited))
	}
	return err
}

// usage is what the process has used, once it has ended.
func (p *process) usage() (*syscall.Rusage, error) {
	usage, ok := p.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return nil, errors.New("this system does not tell what a process has used")
	}
	return usage, nil
}
