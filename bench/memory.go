package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

// childEnv makes a program that calls Child drain what it says, and end.
const childEnv = "CONSIGN_BENCH_CHILD"

// child is what a draining process is told and tells.
type child struct {
	URL     string
	Subject string
	Config  Config
	N       int
	Took    float64 // seconds
	Text    int64   // KiB of files that are resident at the end: the program's text, with both subjects and SQLite in it
	Peak    int64   // KiB that were resident at most
}

// Child drains in a process of its own, whose memory is then its own too. It
// returns false where this process was not started for that. Call it first in
// main.
func Child(ctx context.Context) (bool, error) {
	raw := os.Getenv(childEnv)
	if raw == "" {
		return false, nil
	}
	var c child
	if err := json.Unmarshal([]byte(raw), &c); err != nil {
		return true, err
	}
	sub, ok := drains(c.Config)[c.Subject]
	if !ok {
		return true, fmt.Errorf("no subject %q", c.Subject)
	}
	s := Suite{Config: c.Config, URL: c.URL}
	return true, s.inPool(ctx, func(pool *pgxpool.Pool) error {
		took, _, err := sub.drain(ctx, pool, c.N)
		if err != nil {
			return err
		}
		c.Took, c.Text, c.Peak = took.Seconds(), status("RssFile:"), status("VmHWM:")
		return json.NewEncoder(os.Stdout).Encode(c)
	})
}

// status reads one figure about this process's memory, in KiB; 0 where the system
// does not tell.
func status(name string) (kib int64) {
	raw, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			fmt.Sscan(rest, &kib)
		}
	}
	return kib
}

// memory runs P11 once for one subject: this process enqueues, a child drains.
func (s *Suite) memory(ctx context.Context, name, subject string) (Sample, error) {
	n := s.Config.Memory
	out := Sample{Subject: name, N: n}
	sub := drains(s.Config)[subject]
	err := s.inPool(ctx, func(pool *pgxpool.Pool) error {
		var err error
		if out.Enqueue, err = s.fill(ctx, pool, name, sub, n); err != nil {
			return err
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		told, err := json.Marshal(child{URL: s.URL, Subject: subject, Config: s.Config, N: n})
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, self)
		cmd.Env = append(os.Environ(), childEnv+"="+string(told))
		var answer bytes.Buffer
		cmd.Stdout, cmd.Stderr = &answer, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("the draining process: %w", err)
		}
		var c child
		if err := json.Unmarshal(answer.Bytes(), &c); err != nil {
			return err
		}
		// What the system tells of an ended child (ru_maxrss) begins with what its
		// parent had when it started the child, and this process has enqueued a million.
		if c.Peak == 0 {
			return errors.New("this system does not tell a process's own memory")
		}
		out.MaxRSS, out.Text = c.Peak, c.Text
		out.Drain.Seconds, out.PerSec = c.Took, float64(n)/c.Took
		left, err := sub.left(ctx, pool)
		if err == nil && left != 0 {
			err = fmt.Errorf("%d of %d are not completed", left, n)
		}
		return err
	})
	return out, err
}
