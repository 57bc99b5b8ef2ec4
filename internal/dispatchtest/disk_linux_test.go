package dispatchtest

import (
	"context"
	_ "embed"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/effort"
	"github.com/consign-go/consign/internal/pgtest"
)

// smallDisk is a file system of its own of so many MiB, nil: mounting one is not
// permitted here.
func smallDisk(t *testing.T, size string) (dir string, ok bool) {
	t.Helper()
	dir, err := os.MkdirTemp("", "disk-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(dir) })
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755,size="+size); err != nil {
		if errors.Is(err, syscall.EPERM) {
			return "", false
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir, true
}

// notShown says loudly that something was not shown.
func notShown(t *testing.T, why string) {
	t.Helper()
	effort.Note(t, "NOT SHOWN HERE: %s", why)
}

// fill takes up all the space that is left; the returned function gives it back.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	file := filepath.Join(dir, "ballast")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 64<<10)
	for len(block) > 0 {
		if _, err := f.Write(block); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			block = block[:len(block)/2]
		}
	}
	if err := f.Close(); err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

// The disk of the database is full, under load, twice. What was acknowledged is
// there when it has space again, and everything is delivered: nothing is lost,
// nothing that is not idempotent is sent twice.
func TestFullDiskLosesNothingAcknowledgedAndDeliveryResumes(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		dir, ok := smallDisk(t, "160m")
		if !ok {
			notShown(t, "PostgreSQL on a full disk: mounting a small file system is not permitted to this user, root may")
			return
		}
		s := pgtest.Alone(t, pgtest.Options{Dir: dir, Settings: map[string]string{
			"min_wal_size": "32MB", "max_wal_size": "48MB", "shared_buffers": "16MB",
		}})
		alone(t, s).fullTwice(t, dir, func() { s.Start(t) })
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		dir, ok := smallDisk(t, "16m")
		if !ok {
			notShown(t, "SQLite on a full disk: mounting a small file system is not permitted to this user, root may")
			return
		}
		migrated(t, address{File: filepath.Join(dir, "consign.db")}).fullTwice(t, dir, func() {})
	})
}

// fullTwice fills the database's disk under load and makes room again. start starts
// a server that has stopped for want of space.
func (d *database) fullTwice(t *testing.T, dir string, start func()) {
	far := newReceiver(t)
	far.takes = 10 * time.Millisecond
	p := program{Address: d.address, Receiver: far.place(), Policy: steady, Kinds: grid(steadyLease, steadyTimeout)}
	c := d.hire(t, 2, p)
	stop := d.pour(t, p.Kinds)
	for range 2 {
		far.more(t, 20)
		free := fill(t, dir)
		before := c.failed.Load() + d.refused.Load()
		until(t, "writes fail", func() bool { return c.failed.Load()+d.refused.Load() >= before+10 })
		free()
		until(t, "the database answers", func() bool {
			_, err := d.one(t.Context(), "SELECT count(*) FROM "+d.prefix+"delivery")
			if err != nil {
				start()
			}
			return err == nil
		})
	}
	far.more(t, 20)
	effort.Note(t, "the disk was full twice, %d commits of the program failed", d.refused.Load())
	d.allSettled(t, c, far, stop())
}

//go:embed testdata/eio.c
var eio string

// damage makes the writes of PostgreSQL fail with EIO, one at a time.
type damage struct {
	dir string
	env []string
}

func newDamage(t *testing.T) *damage {
	t.Helper()
	dir, err := os.MkdirTemp("", "eio-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil { // the server runs as another user
		t.Fatal(err)
	}
	source, library := filepath.Join(dir, "eio.c"), filepath.Join(dir, "eio.so")
	if err := os.WriteFile(source, []byte(eio), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, source, "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return &damage{dir, []string{"LD_PRELOAD=" + library, "CONSIGN_EIO=" + dir}}
}

// strike has the next call of a kind fail, and waits until it did.
func (b *damage) strike(t *testing.T, call string) {
	t.Helper()
	file := filepath.Join(b.dir, call)
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	until(t, "a "+call+" has failed", func() bool {
		_, err := os.Stat(file)
		return errors.Is(err, os.ErrNotExist)
	})
}

// A write of PostgreSQL's log, and its sync, fails with EIO, under load. The server
// cannot know what is on disk, stops and recovers; a commit of that moment is
// neither done nor undone until it has been looked up. Nothing is lost, nothing
// that is not idempotent is sent twice.
func TestWriteErrorOfTheDiskLosesNothingAndRepeatsNothing(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		b := newDamage(t)
		s := pgtest.Alone(t, pgtest.Options{Env: b.env})
		d := alone(t, s)
		far := newReceiver(t)
		far.takes = 10 * time.Millisecond
		p := program{Address: d.address, Receiver: far.place(), Policy: steady, Kinds: grid(steadyLease, steadyTimeout)}
		c := d.hire(t, 2, p)
		stop := d.pour(t, p.Kinds)
		strikes := effort.Of(2, 20)
		for i := range strikes {
			far.more(t, 15)
			before := c.failed.Load()
			b.strike(t, []string{"sync", "write"}[i%2])
			until(t, "engines have noticed", func() bool { return c.failed.Load() > before })
			for end := time.Now().Add(patience); s.Exec(context.Background(), "SELECT 1") != nil; time.Sleep(50 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the server does not come back")
				}
			}
		}
		far.more(t, 15)
		effort.Note(t, "%d writes and syncs have failed", strikes)
		d.allSettled(t, c, far, stop())
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		d := migrated(t, databases[1].make(t))
		far := newReceiver(t)
		p := program{Address: d.address, Name: "narrow", Receiver: far.place(), Policy: steady, Kinds: grid(steadyLease, steadyTimeout)}
		stop := d.pour(t, p.Kinds)
		worker := p
		worker.Narrow = 10
		narrow := worker.start(t)
		until(t, "the worker can write again", func() bool { return narrow.said(toldWide) })
		far.more(t, 20)
		out := narrow.end()
		if out.Errors < 10 {
			t.Errorf("%d calls failed", out.Errors)
		}
		effort.Note(t, "%d calls of a process that may not write have failed", out.Errors)
		c := d.hire(t, 1, p)
		d.allSettled(t, c, far, stop())
	})
}
