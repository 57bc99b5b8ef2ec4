package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/consign-go/consign/internal/pgtest"
)

// binary is the real command, built once.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "consign-command-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "consign")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	return pgtest.Main(m)
}

// place is where a command runs: a folder and an environment of its own.
type place struct {
	dir string
	env []string
}

// newPlace is an empty folder without a variable of Consign's.
func newPlace(t *testing.T, env ...string) *place {
	p := &place{dir: t.TempDir()}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "CONSIGN_") && !strings.HasPrefix(e, "OTEL_") && !strings.HasPrefix(e, "TRACEPARENT") {
			p.env = append(p.env, e)
		}
	}
	p.env = append(p.env, env...)
	return p
}

// onEach runs a test on an SQLite file and on a schema of PostgreSQL, migrated.
func onEach(t *testing.T, test func(t *testing.T, p *place)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		p.must(t, "migrate", "up")
		test(t, p)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, "CONSIGN_DB="+pgtest.URL(t))
		p.config(t, "schema = \""+pgtest.Schema(t)+"\"\n")
		p.must(t, "migrate", "up")
		test(t, p)
	})
}

// config writes the configuration and has all commands read it; what the place needs
// itself stays on top.
func (p *place) config(t *testing.T, text string) {
	t.Helper()
	name := filepath.Join(p.dir, "consign.toml")
	old, _ := os.ReadFile(name)
	top, _, _ := strings.Cut(string(old), "#\n")
	if top == "" {
		top = text
		if strings.Contains(text, "[") {
			top = ""
		}
		p.env = append(p.env, "CONSIGN_CONFIG="+name)
	}
	if err := os.WriteFile(name, []byte(top+"#\n"+strings.TrimPrefix(text, top)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// command is the command, not started.
func (p *place) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Env = p.dir, p.env
	return cmd
}

// result is what a command left.
type result struct {
	out, err string
	code     int
}

// run runs the command to its end.
func (p *place) run(t *testing.T, input string, args ...string) result {
	t.Helper()
	cmd := p.command(args...)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{out.String(), errOut.String(), cmd.ProcessState.ExitCode()}
}

// must runs a command that ends with 0 and says nothing but its result.
func (p *place) must(t *testing.T, args ...string) string {
	t.Helper()
	r := p.run(t, "", args...)
	if r.code != 0 || r.err != "" {
		t.Fatalf("%v: exit code %d\n%s%s", args, r.code, r.out, r.err)
	}
	return r.out
}

// enqueue enqueues one message and returns its ref.
func (p *place) enqueue(t *testing.T, payload string, args ...string) string {
	t.Helper()
	r := p.run(t, payload, append([]string{"enqueue", "--payload", "-"}, args...)...)
	if r.code != 0 || r.err != "" {
		t.Fatalf("enqueue: exit code %d: %s", r.code, r.err)
	}
	return strings.TrimSpace(r.out)
}

// read reads a file of the place.
func (p *place) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestMainStaysTiny(t *testing.T) {
	text, err := os.ReadFile("main.go")
	if n := strings.Count(string(text), "\n"); err != nil || n >= 60 {
		t.Errorf("main.go has %d lines, %v", n, err)
	}
}

// shell runs a script of a page and returns what it printed.
func (p *place) shell(t *testing.T, script string) string {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir, cmd.Env = p.dir, p.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}
