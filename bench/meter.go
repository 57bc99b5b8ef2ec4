package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/metrics"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Spent is what one phase of a run cost.
type Spent struct {
	Seconds     float64 `json:"seconds"`
	Client      float64 `json:"client_cpu_seconds"`
	Server      float64 `json:"server_cpu_seconds"` // 0 where the system does not tell
	WAL         int64   `json:"wal_bytes"`
	Checkpoints int64   `json:"checkpoints"` // after one, the first change of each page costs a whole page of WAL
	Allocs      uint64  `json:"allocs"`      // of memory in this process
	AllocBytes  uint64  `json:"alloc_bytes"`
}

// meter reads what is spent, on a connection of its own. Processor time says more
// than the clock on the wall where a machine does other work at the same time.
type meter struct {
	conn       *pgx.Conn
	postmaster int
}

// reading is a meter's state at one moment.
type reading struct {
	at             time.Time
	client, server time.Duration
	wal            int64
	checkpoints    int64
	heap           heap
}

// heap is what this process has allocated so far.
type heap struct{ objects, bytes uint64 }

func readHeap() heap {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return heap{s[0].Value.Uint64(), s[1].Value.Uint64()}
}

func newMeter(ctx context.Context, url string) (*meter, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	m := &meter{conn: conn}
	var data string
	if err := conn.QueryRow(ctx, "SHOW data_directory").Scan(&data); err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err == nil {
		first, _, _ := strings.Cut(string(raw), "\n")
		m.postmaster, err = strconv.Atoi(first)
	}
	return m, err
}

func (m *meter) close() { m.conn.Close(context.Background()) }

func (m *meter) read(ctx context.Context) (reading, error) {
	var r reading
	err := m.conn.QueryRow(ctx, "SELECT pg_current_wal_lsn() - '0/0', checkpoints_timed + checkpoints_req FROM "+checkpointView(m.conn)).
		Scan(&r.wal, &r.checkpoints)
	var usage syscall.Rusage
	if err == nil {
		err = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	}
	r.at, r.heap = time.Now(), readHeap()
	r.client = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	r.server = serverTime(m.postmaster)
	return r, err
}

// checkpointView is where the server counts its checkpoints.
func checkpointView(conn *pgx.Conn) string {
	version, _, _ := strings.Cut(conn.PgConn().ParameterStatus("server_version"), ".")
	if n, err := strconv.Atoi(version); err == nil && n >= 17 {
		return "(SELECT num_timed AS checkpoints_timed, num_requested AS checkpoints_req FROM pg_stat_checkpointer) c"
	}
	return "pg_stat_bgwriter"
}

func (r reading) since(before reading) Spent {
	return Spent{
		Seconds: r.at.Sub(before.at).Seconds(), Client: (r.client - before.client).Seconds(),
		Server: (r.server - before.server).Seconds(), WAL: r.wal - before.wal, Checkpoints: r.checkpoints - before.checkpoints,
		Allocs: r.heap.objects - before.heap.objects, AllocBytes: r.heap.bytes - before.heap.bytes,
	}
}

// serverTime is the processor time of the server's processes, those that have
// ended included, as far as the system tells.
func serverTime(postmaster int) time.Duration {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0
	}
	const tick = time.Second / 100
	var total time.Duration
	for _, name := range stats {
		raw, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended meanwhile
		}
		_, after, _ := strings.Cut(string(raw), ") ")
		f := strings.Fields(after) // from the third field of proc(5) on
		if len(f) < 15 {
			continue
		}
		number := func(i int) int64 { n, _ := strconv.ParseInt(f[i], 10, 64); return n }
		switch {
		case filepath.Dir(name) == fmt.Sprintf("/proc/%d", postmaster):
			total += time.Duration(number(13)+number(14)) * tick // its ended children
		case number(1) == int64(postmaster):
			total += time.Duration(number(11)+number(12)) * tick
		}
	}
	return total
}
