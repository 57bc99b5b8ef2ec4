package postgres

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// meter reads what benchmarks spend: processor time of this process and of the
// server's processes, and write-ahead log. On a machine that does other work at
// the same time it says more than the clock on the wall.
type meter struct {
	client, server time.Duration
	wal            int64
}

func (d *database) meter(t testing.TB) meter {
	t.Helper()
	var m meter
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	m.client = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	rows, err := d.pool.Query(t.Context(), "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND state IS NOT NULL")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var pid int
		if err := rows.Scan(&pid); err != nil {
			t.Fatal(err)
		}
		m.server += processTime(pid)
	}
	rows.Close()
	m.wal = one[int64](t, d, "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint")
	return m
}

// processTime is what a process has used, as far as the system tells.
func processTime(pid int) time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(raw), ") ")
	var state string
	var skip, user, system int64
	fmt.Sscan(after, &state, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &user, &system)
	return time.Duration(user+system) * (time.Second / 100)
}

// report prints what n rows cost since before.
func (m meter) report(b *testing.B, before meter, n int) {
	rows := float64(n)
	b.ReportMetric(float64((m.client-before.client).Microseconds())/rows, "client-us/row")
	b.ReportMetric(float64((m.server-before.server).Microseconds())/rows, "server-us/row")
	b.ReportMetric(float64(m.wal-before.wal)/rows, "WAL-B/row")
}
