package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// trace profiles what happens until the returned function is called, if the suite
// has a directory for it: profiles of this process, what the server's
// sessions waited for, its statements by time and its log by kind of record. Tracing costs a little itself,
// so its figures are not for comparing.
func (s *Suite) trace(ctx context.Context, name string) (stop func() error, err error) {
	if s.Trace == "" {
		return func() error { return nil }, nil
	}
	base := s.traceName(name)
	profile, err := os.Create(base + ".pprof")
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		return nil, errors.Join(err, profile.Close())
	}
	var began string
	_, err = conn.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements; CREATE EXTENSION IF NOT EXISTS pg_walinspect")
	if err == nil {
		err = conn.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text FROM pg_stat_statements_reset()").Scan(&began)
	}
	if err != nil {
		return nil, errors.Join(err, profile.Close(), conn.Close(ctx))
	}
	sampling, cancel := context.WithCancel(ctx)
	waits := make(chan string, 1)
	go func() { waits <- sampleWaits(sampling, conn) }()
	if err := pprof.StartCPUProfile(profile); err != nil {
		cancel()
		return nil, errors.Join(err, profile.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		cancel()
		text := <-waits
		conn.Close(ctx)
		tables, err := s.tables(ctx, began)
		return errors.Join(err, profile.Close(), os.WriteFile(base+".txt", []byte(text+tables), 0o644), allocations(base+".allocs.pprof"))
	}, nil
}

// traceHere is trace where there is no server: a CPU profile.
func (s *Suite) traceHere(name string) (stop func() error, err error) {
	if s.Trace == "" {
		return func() error { return nil }, nil
	}
	base := s.traceName(name)
	profile, err := os.Create(base + ".pprof")
	if err == nil {
		err = pprof.StartCPUProfile(profile)
	}
	return func() error {
		pprof.StopCPUProfile()
		return errors.Join(profile.Close(), allocations(base+".allocs.pprof"))
	}, err
}

func (s *Suite) traceName(subject string) string {
	return filepath.Join(s.Trace, strings.NewReplacer(" ", "-", ",", "").Replace(subject))
}

// allocations writes what this process has allocated so far, by place.
func allocations(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}

// TraceSettings are the server settings that a trace needs.
func TraceSettings() map[string]string {
	return map[string]string{
		"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track": "all",
		"pg_stat_statements.track_planning": "on", "track_io_timing": "on",
	}
}

// sampleWaits looks every few milliseconds at what each session is at.
func sampleWaits(ctx context.Context, conn *pgx.Conn) string {
	const query = `SELECT COALESCE(wait_event_type || ':' || wait_event, 'running') || '  ' ||
		regexp_replace(left(ltrim(query, E' \n'), 40), '\s+', ' ', 'g')
		FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND state = 'active' AND pid <> pg_backend_pid()`
	counts := map[string]int{}
	ticks := 0
	for tick := time.NewTicker(5 * time.Millisecond); ; ticks++ {
		select {
		case <-ctx.Done():
			tick.Stop()
			return histogram(counts, ticks)
		case <-tick.C:
		}
		rows, err := conn.Query(context.WithoutCancel(ctx), query)
		if err != nil {
			return err.Error()
		}
		seen, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err.Error()
		}
		for _, what := range seen {
			counts[what]++
		}
	}
}

// histogram writes down how many sessions were at what, on average.
func histogram(counts map[string]int, ticks int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "active sessions on average, by what they were at (%d looks)\n", ticks)
	keys := slices.SortedFunc(maps.Keys(counts), func(x, y string) int { return cmp.Compare(counts[y], counts[x]) })
	for _, k := range keys[:min(len(keys), 25)] {
		fmt.Fprintf(&b, "%6.3f  %s\n", float64(counts[k])/float64(max(ticks, 1)), k)
	}
	return b.String()
}

// statementsSQL lists the server's statements by time, logSQL what kinds of record
// the write-ahead log was made of since a moment.
const (
	statementsSQL = `
SELECT format('%9s calls %10s rows %9s ms total %9s ms each %7s ms planning %12s hit %9s dirtied %12s B wal  %s',
              calls, rows, round(total_exec_time), round(mean_exec_time::numeric, 3), round(total_plan_time), shared_blks_hit,
              shared_blks_dirtied, wal_bytes, regexp_replace(left(ltrim(query, E' \n'), 90), '\s+', ' ', 'g'))
FROM pg_stat_statements WHERE $1 <> ''
ORDER BY total_exec_time DESC LIMIT 15`
	logSQL = `
SELECT format('%9s records %12s B %12s B of whole pages  %s', count, record_size, fpi_size, "resource_manager/record_type")
FROM pg_get_wal_stats($1::text::pg_lsn, pg_current_wal_flush_lsn(), true)
WHERE count > 0
ORDER BY combined_size DESC LIMIT 15`
)

// tables lists what the server did since its log was at a place.
func (s *Suite) tables(ctx context.Context, began string) (string, error) {
	conn, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	text := ""
	for _, t := range [][2]string{{"statements", statementsSQL}, {"write-ahead log", logSQL}} {
		rows, err := conn.Query(ctx, t[1], began)
		if err != nil {
			return "", err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return "", err
		}
		text += "\n" + t[0] + "\n" + strings.Join(lines, "\n") + "\n"
	}
	return text, nil
}
