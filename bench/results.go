package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Results are everything a comparison found out.
type Results struct {
	Machine  Machine  `json:"machine"`
	Config   Config   `json:"config"`
	Measures []string `json:"measures"`
	Lines    []Line   `json:"lines,omitempty"`
	Samples  []Sample `json:"samples"`

	Profiles []Profile `json:"profiles,omitempty"`
}

// Machine is where it ran.
type Machine struct {
	At       time.Time         `json:"at"`
	Go       string            `json:"go"`
	System   string            `json:"system"`
	CPUs     int               `json:"cpus"`
	Load     string            `json:"load"`    // when it began; what else the machine is doing falsifies the figures
	Sync     float64           `json:"sync_ms"` // of 8 kB written and made durable where the server's files are, median
	Server   map[string]string `json:"server"`
	Versions map[string]string `json:"versions"`
}

// shown are the server's settings that matter.
var shown = []string{
	"server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_compression", "wal_level", "shared_buffers",
	"work_mem", "max_wal_size", "checkpoint_timeout", "autovacuum", "jit", "max_connections", "shared_preload_libraries",
}

// Machine asks what this runs on.
func (s *Suite) Machine(ctx context.Context) (Machine, error) {
	m := Machine{
		At: time.Now().UTC(), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
		Server: map[string]string{}, Versions: map[string]string{},
	}
	if raw, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load = strings.Join(strings.Fields(string(raw))[:3], " ")
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == "github.com/jackc/pgx/v5" || d.Path == "github.com/riverqueue/river" || d.Path == "modernc.org/sqlite" {
				m.Versions[d.Path] = d.Version
			}
		}
	}
	rows, err := s.meter.conn.Query(ctx, "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY ($1)", shown)
	if err != nil {
		return m, err
	}
	var name, value string
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		m.Server[name] = value
		return nil
	})
	if err != nil {
		return m, err
	}
	var data string
	if err := s.meter.conn.QueryRow(ctx, "SHOW data_directory").Scan(&data); err != nil {
		return m, err
	}
	m.Sync, err = syncTime(filepath.Dir(data))
	return m, err
}

// syncTime measures what a durable write costs in dir, in milliseconds.
func syncTime(dir string) (ms float64, err error) {
	f, err := os.CreateTemp(dir, "sync")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	page := make([]byte, 8192)
	var took []float64
	for range 100 {
		began := time.Now()
		if _, err := f.WriteAt(page, 0); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(began).Microseconds())/1000)
	}
	return Median(took), nil
}

// PrintConfiguration writes where and with what the comparison runs.
func (r *Results) PrintConfiguration(w io.Writer) {
	m, c := &r.Machine, &r.Config
	fmt.Fprintf(w, "%s, %s, %s, %d CPUs, load %s, a durable write takes %.2f ms\n", m.At.Format(time.RFC3339), m.Go, m.System,
		m.CPUs, m.Load, m.Sync)
	for _, name := range slices.Sorted(maps.Keys(m.Versions)) {
		fmt.Fprintf(w, "%s %s\n", name, m.Versions[name])
	}
	for _, name := range shown {
		if v, ok := m.Server[name]; ok {
			fmt.Fprintf(w, "  %s = %s\n", name, v)
		}
	}
	fmt.Fprintf(w, "%s; %d rounds; n %d; both: %d workers, pool of %d, %d inserters, %d rows a batch\n",
		strings.Join(r.Measures, " "), c.Runs, c.N, c.Workers, c.Pool, c.Inserters, c.InsertBatch)
	fmt.Fprintf(w, "consign: payload %d B, batch %d, lanes %d; river: InsertManyFast, fetch cooldown 2ms, fetch poll 20ms\nsqlite: WAL, synchronous FULL, one connection, %d rows a batch, n %d\n",
		c.Payload, c.Batch, c.Lanes, liteBatch, c.SQLite)
	fmt.Fprintf(w, "P7: %d commits at %d/s; P8, P14: %d old deliveries; P9: a snapshot of %d s, %d deliveries/s meanwhile; P13: %d senders, bodies of %d B\n\n",
		c.Paced, c.Rate, c.Old, c.SnapshotAge, c.Churn, senders, postSize)
}

// Print writes one line about a sample, with what each item cost.
func (s *Sample) Print(w io.Writer) {
	each := func(seconds float64) float64 { return seconds * 1e6 / float64(s.N) }
	fmt.Fprintf(w, "%d %-32s", s.Round, s.Subject)
	switch {
	case s.Curve != "":
		done := func(seconds float64) float64 { return seconds * 1e6 / float64(s.Items) }
		fmt.Fprintf(w, " at %-9g in %7.0f/s  out %7.0f/s, %d of %d in %.1f s (client %4.1f us, server %4.1f us, WAL %4d B) removed %d\n", s.Point,
			float64(s.N)/s.Enqueue.Seconds, s.PerSec, s.Items, s.N, s.Drain.Seconds, done(s.Drain.Client), done(s.Drain.Server), s.Drain.WAL/s.Items, s.Removed)
	case s.Median > 0:
		fmt.Fprintf(w, " %8.0f/s, median %.3f ms; each: client %.1f us, server %.1f us, WAL %d B\n", s.PerSec, s.Median,
			each(s.Enqueue.Client), each(s.Enqueue.Server), s.Enqueue.WAL/int64(s.N))
	case s.First > 0:
		fmt.Fprintf(w, " first %.2f ms, then %s\n", s.First, s.Latency)
	case s.Latency != nil && s.Drain == Spent{}:
		fmt.Fprintf(w, " %8.0f/s, commit to start: %s\n", s.PerSec, s.Latency)
	case s.MaxRSS > 0:
		fmt.Fprintf(w, " %8.0f/s, resident %.1f MiB, of which %.1f MiB program text\n", s.PerSec, float64(s.MaxRSS)/1024,
			float64(s.Text)/1024)
	case s.Enqueue == Spent{}:
		fmt.Fprintf(w, " %8.0f/s; each: client %.1f us, %.1f allocations\n", s.PerSec, each(s.Drain.Client), allocated(s))
	case s.Enqueue.WAL == 0:
		fmt.Fprintf(w, " in %7.0f/s (%4.1f us)  out %7.0f/s (%4.1f us)\n",
			float64(s.N)/s.Enqueue.Seconds, each(s.Enqueue.Client), s.PerSec, each(s.Drain.Client))
	default:
		fmt.Fprintf(w, " in %7.0f/s (client %4.1f us, server %4.1f us, WAL %4d B)  out %7.0f/s (client %4.1f us, server %4.1f us, WAL %4d B)",
			float64(s.N)/s.Enqueue.Seconds, each(s.Enqueue.Client), each(s.Enqueue.Server), s.Enqueue.WAL/int64(s.N),
			s.PerSec, each(s.Drain.Client), each(s.Drain.Server), s.Drain.WAL/int64(s.N))
		if s.Latency != nil {
			fmt.Fprintf(w, "; unrelated query: %s", s.Latency)
		}
		fmt.Fprintln(w)
	}
}
