package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

// drained is what a process that drains alone tells.
type drained struct {
	Took float64 // seconds
	Text int64   // KiB of files that are resident at the end: the program's text, with both subjects and SQLite in it
	Peak int64   // KiB that were resident at most
}

// drainAlone drains in this process, whose memory is then for that alone.
func drainAlone(ctx context.Context, t *task, parent *parent) error {
	sub, ok := drains(t.Config)[t.Subject]
	if !ok {
		return fmt.Errorf("no subject %q", t.Subject)
	}
	s := Suite{Config: t.Config, URL: t.URL}
	return s.inPool(ctx, func(pool *pgxpool.Pool) error {
		took, _, err := sub.drain(ctx, pool, t.N)
		if err != nil {
			return err
		}
		return parent.tell(drained{took.Seconds(), status("RssFile:"), status("VmHWM:")})
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

// memories runs P11 once.
func (s *Suite) memories(ctx context.Context, add func(Sample)) error {
	for _, m := range [][2]string{{WorkMemory, Work}, {RiverMemory, River}} {
		sample, err := s.memory(ctx, m[0], m[1])
		if err != nil {
			return fmt.Errorf("%s: %w", m[1], err)
		}
		add(sample)
	}
	return nil
}

// memory runs P11 once for one subject: this process enqueues, another drains.
func (s *Suite) memory(ctx context.Context, name, subject string) (Sample, error) {
	n := s.Config.Memory
	out := Sample{Subject: name, N: n}
	sub := drains(s.Config)[subject]
	err := s.inPool(ctx, func(pool *pgxpool.Pool) error {
		var err error
		if out.Enqueue, err = s.fill(ctx, pool, name, sub, n); err != nil {
			return err
		}
		p, err := s.start(ctx, task{Role: "drain", Subject: subject, N: n})
		if err != nil {
			return err
		}
		var told drained
		err = p.hear(&told)
		if err := errors.Join(err, p.end()); err != nil {
			return err
		}
		// What the system tells of an ended child (ru_maxrss) begins with what its
		// parent had when it started the child, and this process has enqueued a million.
		if told.Peak == 0 {
			return errors.New("this system does not tell a process's own memory")
		}
		out.MaxRSS, out.Text = told.Peak, told.Text
		out.Drain.Seconds, out.PerSec = told.Took, float64(n)/told.Took
		return complete(ctx, pool, sub, n)
	})
	return out, err
}
