//go:build unix

package pgtest

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// programs are the two server programs a cluster needs, of one installation.
type programs struct {
	initdb, postgres string
}

// serverDirs are where packages put server programs that they keep out of
// PATH: Debian and Ubuntu, the PostgreSQL project's own packages, EDB, and
// Homebrew on both kinds of Mac.
var serverDirs = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/postgresql*/bin",
	"/opt/postgresql/*/bin",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
	"/Library/PostgreSQL/*/bin",
}

// errNoPostgres is the advice given when there is nothing to start.
var errNoPostgres = errors.New(`no PostgreSQL server programs (initdb, postgres) found; the tests need a real server. Do one of:
	run ./test.sh, which installs what the tests need where it may
	Debian, Ubuntu: apt-get install postgresql
	Fedora, RHEL:   dnf install postgresql-server
	macOS:          brew install postgresql@17
	or set ` + overrideEnv + ` to the URL of a server the tests may create schemas in`)

// findPrograms looks along path, then asks a pg_config found there, then tries
// the directories that the patterns match, newest version first.
func findPrograms(path string, patterns []string) (programs, error) {
	dirs := filepath.SplitList(path)
	for _, dir := range dirs {
		if p, ok := programsIn(dir); ok {
			return p, nil
		}
	}
	for _, dir := range dirs {
		config := filepath.Join(dir, "pg_config")
		if !executable(config) {
			continue
		}
		out, err := exec.Command(config, "--bindir").Output()
		if err != nil {
			continue // another installation may still do
		}
		if p, ok := programsIn(strings.TrimSpace(string(out))); ok {
			return p, nil
		}
	}
	var found []string
	for _, pattern := range patterns {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			return programs{}, err
		}
		found = append(found, matches...)
	}
	slices.SortStableFunc(found, func(a, b string) int { return cmp.Compare(version(b), version(a)) })
	for _, dir := range found {
		if p, ok := programsIn(dir); ok {
			return p, nil
		}
	}
	return programs{}, errNoPostgres
}

// programsIn reports the programs in dir, links followed: initdb looks for its
// postgres beside itself, so both must come from one installation.
func programsIn(dir string) (programs, bool) {
	p := programs{}
	for name, into := range map[string]*string{"initdb": &p.initdb, "postgres": &p.postgres} {
		file, err := filepath.EvalSymlinks(filepath.Join(dir, name))
		if err != nil || !filepath.IsAbs(file) || !executable(file) {
			return programs{}, false
		}
		*into = file
	}
	return p, filepath.Dir(p.initdb) == filepath.Dir(p.postgres)
}

func executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

var versionPattern = regexp.MustCompile(`\d+(\.\d+)?`)

// version is the version number in the name of a bin directory's parent, 0 if
// it has none.
func version(bin string) float64 {
	n, err := strconv.ParseFloat(versionPattern.FindString(filepath.Base(filepath.Dir(bin))), 64)
	if err != nil {
		return 0 // tried last
	}
	return n
}
