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
// ended included, as far as the system tells. A process that ends while they are
// read would be counted twice or not at all, so they are read until none does.
func serverTime(postmaster int) time.Duration {
	for before := endedTime(postmaster); ; {
		alive := aliveTime(postmaster)
		after := endedTime(postmaster)
		if after == before {
			return after + alive
		}
		before = after
	}
}

// endedTime is the time of the server's first process and of its children that have
// ended.
func endedTime(postmaster int) time.Duration {
	f := processStat(postmaster)
	return ticks(f, 11) + ticks(f, 12) + ticks(f, 13) + ticks(f, 14)
}

// aliveTime is the time of its other children.
func aliveTime(postmaster int) (total time.Duration) {
	names, _ := filepath.Glob("/proc/[0-9]*") // fails for a bad pattern only
	parent := strconv.Itoa(postmaster)
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			continue
		}
		if f := processStat(pid); len(f) > 1 && f[1] == parent {
			total += ticks(f, 11) + ticks(f, 12)
		}
	}
	return total
}

// processStat is what the system tells of a process, from the third field of proc(5)
// on; nil: it has ended.
func processStat(pid int) []string {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	_, after, _ := strings.Cut(string(raw), ") ")
	return strings.Fields(after)
}

// ticks is a field in hundredths of a second, zero where there is none.
func ticks(fields []string, i int) time.Duration {
	if i >= len(fields) {
		return 0
	}
	n, _ := strconv.ParseInt(fields[i], 10, 64)
	return time.Duration(n) * time.Second / 100
}
