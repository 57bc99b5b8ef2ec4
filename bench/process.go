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

// roles are what a process can do. Its context ends when its standard input does, so
// that it ends with its parent however that ends.
var roles = map[string]func(ctx context.Context, t *task, parent *parent) error{
	"drain":   drainAlone,
	"starts":  startsAlone,
	"work":    workAlone,
	"receive": receiveAlone,
}

// parent is the other end, for the process that was started.
type parent struct {
	tell  func(any) error
	ahead chan struct{} // closed when it is told to go ahead
}

// goAhead waits until this process is to begin; false: it is to end.
func (p *parent) goAhead(ctx context.Context) bool {
	select {
	case <-p.ahead:
		return true
	case <-ctx.Done():
		return false
	}
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
	p := &parent{tell: json.NewEncoder(os.Stdout).Encode, ahead: make(chan struct{})}
	go func() {
		defer cancel()
		if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err == nil {
			close(p.ahead)
			io.Copy(io.Discard, os.Stdin)
		}
	}()
	return true, role(ctx, &t, p)
}

// process is another process of this program.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
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

// goAhead lets a process begin that waits for it.
func (p *process) goAhead() error {
	_, err := p.in.Write([]byte{1})
	return err
}

// finish asks the process to end; what it still tells can be heard.
func (p *process) finish() error { return p.in.Close() }

// end asks the process to end, and waits. It may be called again.
func (p *process) end() error {
	if p.cmd.ProcessState != nil {
		return nil
	}
	err := p.in.Close()
	if errors.Is(err, os.ErrClosed) {
		err = nil // it was asked before
	}
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
