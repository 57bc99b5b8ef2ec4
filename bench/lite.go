package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/riverqueue/river/riverdriver/riversqlite"
	_ "modernc.org/sqlite" // the driver of both

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/sqlite"
)

// liteBatch is how many rows one enqueuing transaction writes into SQLite.
const liteBatch = 1000

// openLite opens a durable database with one connection, which is what the queue
// recommends for itself and what Consign's store is content with.
func openLite(path string) (*sql.DB, error) {
	q := url.Values{
		"_pragma": {"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(5000)"},
		"_txlock": {"immediate"},
	}
	db, err := sql.Open("sqlite", "file:"+path+"?"+q.Encode())
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

// lites runs P10 once.
func (s *Suite) lites(ctx context.Context, add func(Sample)) error {
	for _, sub := range []struct {
		name string
		subject[*sql.DB]
	}{{RiverLite, riverLite{s.Config}}, {WorkLite, workLite{s.Config}}} {
		sample, err := s.lite(ctx, sub.name, sub.subject)
		if err != nil {
			return fmt.Errorf("%s: %w", sub.name, err)
		}
		add(sample)
	}
	return nil
}

// lite has one subject enqueue into a fresh file and drain it.
func (s *Suite) lite(ctx context.Context, name string, sub subject[*sql.DB]) (out Sample, err error) {
	n := s.Config.SQLite
	out = Sample{Subject: name, N: n}
	dir, err := os.MkdirTemp("", "consign-bench-lite-")
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	db, err := openLite(filepath.Join(dir, "bench.db"))
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := sub.reset(ctx, db); err != nil {
		return out, err
	}
	out.Enqueue, err = spentHere(func() error { return enqueueAll(ctx, db, sub, n, 1, liteBatch) })
	if err != nil {
		return out, fmt.Errorf("enqueue: %w", err)
	}
	stop, err := s.traceHere(name)
	if err != nil {
		return out, err
	}
	var took, stopping time.Duration
	out.Drain, err = spentHere(func() (err error) {
		took, stopping, err = sub.drain(ctx, db, n)
		return err
	})
	if err != nil {
		return out, fmt.Errorf("drain: %w", err)
	}
	if err := stop(); err != nil {
		return out, err
	}
	out.Drain.Seconds, out.Stopped, out.PerSec = took.Seconds(), stopping.Seconds(), float64(n)/took.Seconds()
	return out, complete(ctx, db, sub, n)
}

// spentHere is what fn costs where there is no server.
func spentHere(fn func() error) (Spent, error) {
	cpu := func() time.Duration {
		var usage syscall.Rusage
		syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	began, before, heap := time.Now(), cpu(), readHeap()
	err := fn()
	after := readHeap()
	return Spent{
		Seconds: time.Since(began).Seconds(), Client: (cpu() - before).Seconds(),
		Allocs: after.objects - heap.objects, AllocBytes: after.bytes - heap.bytes,
	}, err
}

// workLite is the work of P1 in SQLite.
type workLite struct{ config Config }

func (w workLite) reset(ctx context.Context, db *sql.DB) error {
	store, err := sqlite.New(db, nil)
	if err == nil {
		_, err = migrate.Up(ctx, store)
	}
	return err
}

func (w workLite) enqueue(ctx context.Context, db *sql.DB, first, n int) error {
	store, err := sqlite.New(db, nil)
	if err != nil {
		return err
	}
	return insertWork(ctx, store.Driver(driver.Key{}), first, n, w.config.Payload)
}

func (w workLite) drain(ctx context.Context, db *sql.DB, n int) (took, stopping time.Duration, err error) {
	store, err := sqlite.New(db, nil)
	if err != nil {
		return 0, 0, err
	}
	return drainWork(ctx, store.Driver(driver.Key{}), w.config, n)
}

func (w workLite) left(ctx context.Context, db *sql.DB) (n int, err error) {
	err = db.QueryRowContext(ctx, "SELECT count(*) FROM consign_delivery WHERE status <> 3").Scan(&n)
	return n, err
}

// riverLite is the job queue in SQLite.
type riverLite struct{ config Config }

func (q riverLite) reset(ctx context.Context, db *sql.DB) error {
	return migrateRiver[*sql.Tx](ctx, riversqlite.New(db))
}

func (q riverLite) enqueue(ctx context.Context, db *sql.DB, _, n int) error {
	return insertRiver[*sql.Tx](ctx, riversqlite.New(db), n)
}

func (q riverLite) drain(ctx context.Context, db *sql.DB, n int) (took, stopping time.Duration, err error) {
	return drainRiver[*sql.Tx](ctx, riversqlite.New(db), q.config.Workers, n)
}

func (q riverLite) left(ctx context.Context, db *sql.DB) (n int, err error) {
	err = db.QueryRowContext(ctx, "SELECT count(*) FROM river_job WHERE state <> 'completed'").Scan(&n)
	return n, err
}
