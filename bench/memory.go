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
	Text int64   // KiB of files that are resident at the end: the program's text
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
		return parent.tell(drained{took.Seconds(), residentText()})
	})
}

// residentText is how much of the program itself is in memory, in KiB; 0 where the
// system does not tell. This one has both subjects and SQLite in it.
func residentText() (kib int64) {
	raw, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "RssFile:"); ok {
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
		usage, err := p.usage()
		if err != nil {
			return err
		}
		out.MaxRSS, out.Text = usage.Maxrss, told.Text
		out.Drain.Seconds, out.PerSec = told.Took, float64(n)/told.Took
		return complete(ctx, pool, sub, n)
	})
	return out, err
}
