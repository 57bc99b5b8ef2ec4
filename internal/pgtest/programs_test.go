//go:build unix

package pgtest

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
)

// install makes a directory with fake server programs, or some of them.
func install(t *testing.T, dir string, names ...string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFindProgramsOrder(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }
	whole := install(t, at("whole"), "initdb", "postgres")
	client := install(t, at("client"), "psql", "initdb")
	install(t, at("lib", "9", "bin"), "initdb", "postgres")
	install(t, at("lib", "15", "bin"), "initdb", "postgres")
	install(t, at("lib", "16", "bin"), "psql")
	links := install(t, at("links"))
	for _, name := range []string{"initdb", "postgres"} {
		if err := os.Symlink(at("lib", "9", "bin", name), filepath.Join(links, name)); err != nil {
			t.Fatal(err)
		}
	}
	config := install(t, at("config"))
	script := "#!/bin/sh\n[ \"$1\" = --bindir ] && echo " + whole + "\n"
	if err := os.WriteFile(filepath.Join(config, "pg_config"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	pattern := at("lib", "*", "bin")
	for name, c := range map[string]struct{ path, pattern, want string }{
		"PATH comes first":                {path: whole, pattern: pattern, want: whole},
		"half an installation is none":    {path: client + ":" + whole, want: whole},
		"links lead to one installation":  {path: links, want: at("lib", "9", "bin")},
		"pg_config of PATH":               {path: client + ":" + config, pattern: pattern, want: whole},
		"newest directory with a server":  {path: client, pattern: pattern, want: at("lib", "15", "bin")},
		"an empty PATH element is no dir": {path: ":", pattern: pattern, want: at("lib", "15", "bin")},
		"nothing":                         {path: client, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := findPrograms(c.path, []string{c.pattern})
			if c.want == "" {
				if !errors.Is(err, errNoPostgres) {
					t.Fatalf("%+v, %v; want the advice", got, err)
				}
				return
			}
			if err != nil || filepath.Dir(got.initdb) != c.want || filepath.Dir(got.postgres) != c.want {
				t.Errorf("%+v, %v; want those of %s", got, err, c.want)
			}
		})
	}
}

func TestServerAccount(t *testing.T) {
	users := func(known ...string) func(string) (*user.User, error) {
		ids := map[string]string{"postgres": "101", "nobody": "65534"}
		return func(name string) (*user.User, error) {
			for _, k := range known {
				if k == name {
					return &user.User{Uid: ids[name], Gid: ids[name]}, nil
				}
			}
			return nil, user.UnknownUserError(name)
		}
	}
	for name, c := range map[string]struct {
		euid   int
		known  []string
		want   account
		refuse bool
	}{
		"an ordinary user stays":      {euid: 1000, known: []string{"postgres"}, want: account{UID: 1000, GID: 1000}},
		"root becomes postgres":       {known: []string{"nobody", "postgres"}, want: account{UID: 101, GID: 101, Switch: true}},
		"root becomes nobody":         {known: []string{"nobody"}, want: account{UID: 65534, GID: 65534, Switch: true}},
		"root alone is told so":       {refuse: true},
		"root is never a server user": {known: []string{}, refuse: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := serverAccount(c.euid, c.euid, users(c.known...))
			if c.refuse {
				if err == nil || !strings.Contains(err.Error(), "root") {
					t.Fatalf("%+v, %v; want advice about root", got, err)
				}
				return
			}
			if err != nil || got != c.want {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
		})
	}
	rootNamed := func(string) (*user.User, error) { return &user.User{Uid: "0", Gid: "0"}, nil }
	if got, err := serverAccount(0, 0, rootNamed); err == nil {
		t.Errorf("a user postgres with id 0 was accepted: %+v", got)
	}
}

func TestBaseDirIsReachableAndShort(t *testing.T) {
	open, err := os.MkdirTemp("/tmp", "pgtest-base-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(open)
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	deep := filepath.Join(open, strings.Repeat("d", 80))
	shut := filepath.Join(open, "shut")
	for dir, mode := range map[string]os.FileMode{deep: 0o755, shut: 0o700} {
		if err := os.Mkdir(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	stranger := account{UID: 65533, GID: 65533}
	self := account{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	for name, c := range map[string]struct {
		account account
		temp    string
		want    string
	}{
		"reachable":           {account: stranger, temp: open, want: open},
		"too long":            {account: stranger, temp: deep, want: "/tmp"},
		"closed to the user":  {account: stranger, temp: shut, want: "/tmp"},
		"own closed one":      {account: self, temp: shut, want: shut},
		"one that is missing": {account: self, temp: filepath.Join(open, "no"), want: "/tmp"},
	} {
		if got := c.account.baseDir(c.temp); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestServerEnvDropsWhatWouldMislead(t *testing.T) {
	got := serverEnv([]string{"PATH=/bin", "PGDATA=/x", "PGHOST=h", "LC_ALL=de_DE", "LANG=de_DE", "HOME=/h"})
	if want := "LC_ALL=C PATH=/bin HOME=/h"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}
