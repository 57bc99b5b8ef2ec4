//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// socketRoom is what a path to a unix socket may be long, on every system:
// Linux allows 107 bytes, macOS and the BSDs 103.
const socketRoom = 103

// account is the user the server runs as.
type account struct {
	UID, GID uint32
	Switch   bool // true: this process is root and must become that user
}

// serverAccount picks the user to run the server as. PostgreSQL refuses to run
// as root, so root becomes "postgres", which a package installs, else "nobody".
func serverAccount(euid, egid int, lookup func(string) (*user.User, error)) (account, error) {
	if euid != 0 {
		return account{UID: uint32(euid), GID: uint32(egid)}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := lookup(name)
		if err != nil {
			continue // not on this system
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if uidErr != nil || gidErr != nil || uid == 0 {
			continue
		}
		return account{UID: uint32(uid), GID: uint32(gid), Switch: true}, nil
	}
	return account{}, fmt.Errorf("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as; add one, run the tests as another user, or set %s", overrideEnv)
}

// attributes start a child as the account.
func (a account) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{}
	if a.Switch {
		attr.Credential = &syscall.Credential{Uid: a.UID, Gid: a.GID}
	}
	return attr
}

// baseDir is the directory that clusters' directories are made in: the usual
// one for temporary files, unless the account cannot reach it or a socket's
// path in it would be too long, then /tmp.
func (a account) baseDir(temp string) string {
	longest := filepath.Join(temp, dirPrefix+"1234567890", ".s.PGSQL.65535")
	if len(longest) > socketRoom || !a.reaches(temp) {
		return "/tmp"
	}
	return temp
}

// reaches reports whether the account may pass through every directory of path.
func (a account) reaches(path string) bool {
	path, err := filepath.EvalSymlinks(path)
	if err != nil || !filepath.IsAbs(path) {
		return false
	}
	for dir := path; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return false
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return false
		}
		bit := os.FileMode(0o001)
		switch {
		case owner.Uid == a.UID:
			bit = 0o100
		case owner.Gid == a.GID:
			bit = 0o010
		}
		if info.Mode().Perm()&bit == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}
