//go:build unix

package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// youth is how long a directory without a lock is taken for one being made.
const youth = time.Minute

// makeDir makes a cluster's directory, entered by the account alone, and the
// lock that says it is in use. Whoever inherits the open lock keeps it; when
// all are dead, the directory is anyone's to remove. The lock is taken before
// it has its name, so that nobody sees a new one free.
func makeDir(base string, owner account) (dir string, lock *os.File, err error) {
	dir, err = os.MkdirTemp(base, dirPrefix)
	if err != nil {
		return "", nil, err
	}
	lock, err = func() (*os.File, error) {
		if err := os.Chmod(dir, 0o700); err != nil {
			return nil, err
		}
		if err := os.Chown(dir, int(owner.UID), int(owner.GID)); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(filepath.Join(dir, lockFile+".new"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if err := os.Rename(f.Name(), filepath.Join(dir, lockFile)); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	}()
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, lock, nil
}

// sweep removes the directories of clusters whose supervisor was killed, and
// stops a server that outlived it. A cluster in use, and a directory that is
// neither ours nor the account's, is left alone.
func sweep(base string, owner account) error {
	dirs, err := filepath.Glob(filepath.Join(base, dirPrefix+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() {
			continue // gone meanwhile, or not a cluster
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok || (stat.Uid != owner.UID && int(stat.Uid) != os.Geteuid()) {
			continue
		}
		errs = append(errs, sweepOne(dir, info.ModTime()))
	}
	return errors.Join(errs...)
}

func sweepOne(dir string, made time.Time) error {
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if time.Since(made) < youth {
			return nil // being made, or being removed
		}
		return os.RemoveAll(dir)
	case err != nil:
		return err
	}
	defer lock.Close()
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil // in use, or another start is removing it
	}
	if err != nil {
		return err
	}
	if err := stopOrphan(dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// stopOrphan stops a server that runs on in a directory nobody owns. The
// recorded process id may be a stranger's by now, so it is signalled only
// while that process runs in this very data directory.
func stopOrphan(dir string) error {
	pid, _ := readPIDFile(dir)
	for _, signal := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGKILL} {
		for waited := time.Duration(0); ; waited += 20 * time.Millisecond {
			if pid == 0 || !serves(pid, filepath.Join(dir, dataDir)) {
				return nil
			}
			if waited == 0 {
				if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
					return err
				}
			}
			if waited > 5*time.Second {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return fmt.Errorf("process %d of %s does not end", pid, dir)
}

// serves reports whether the process is a server of that data directory. A
// server's current directory is its data directory; where there is no /proc
// its arguments tell.
func serves(pid int, data string) bool {
	if _, err := os.Stat("/proc/self/cwd"); err == nil {
		cwd, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd")
		return err == nil && cwd == data
	}
	out, err := exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && slices.Contains(strings.Fields(string(out)), data)
}
