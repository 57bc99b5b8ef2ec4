package repotest

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// modulePath is the root module; nested modules have paths below it.
const modulePath = "github.com/consign-go/consign"

// checkout is what the rules look at: every file that is, or would be, in the
// repository.
type checkout struct {
	root    string   // absolute
	files   []string // slash-separated, relative to root
	sources []source // the Go files among them
}

// source is one parsed Go file.
type source struct {
	path  string // slash-separated, relative to the root of the repository
	lines int
	fset  *token.FileSet
	ast   *ast.File
}

func (s source) dir() string  { return path.Dir(s.path) }
func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// at is the position of a node, for a fault.
func (s source) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", s.path, s.fset.Position(n.Pos()).Line)
}

// parse reads one Go file.
func parse(name string, text []byte) (source, error) {
	s := source{path: name, fset: token.NewFileSet(), lines: bytes.Count(text, []byte("\n"))}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		s.lines++
	}
	var err error
	s.ast, err = parser.ParseFile(s.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	return s, err
}

// made is a made-up Go file for a rule's own test.
func made(t *testing.T, name, text string) source {
	t.Helper()
	s, err := parse(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// loaded reads the checkout once for all rules.
var loaded = sync.OnceValues(load)

// repo returns the checkout.
func repo(t *testing.T) *checkout {
	t.Helper()
	c, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func load() (*checkout, error) {
	root, err := findRoot()
	if err != nil {
		return nil, err
	}
	c := &checkout{root: root}
	if c.files, err = listFiles(root); err != nil {
		return nil, err
	}
	for _, name := range c.files {
		if !strings.HasSuffix(name, ".go") || strings.Contains("/"+name, "/testdata/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		s, err := parse(name, text)
		if err != nil {
			return nil, err
		}
		c.sources = append(c.sources, s)
	}
	return c, nil
}

// findRoot looks upwards for the root module's go.mod.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(text, []byte("module "+modulePath+"\n")) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod of " + modulePath + " above the test")
		}
	}
}

// listFiles returns the files below root that git tracks or would add. The walk
// is done even where git could answer alone: go test notes the directories
// read, so that a cached result is dropped when a file appears. Without git (a
// module unpacked from an archive) all files count.
func listFiles(root string) ([]string, error) {
	var all []string
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		if d.Type().IsRegular() {
			rel, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			all = append(all, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		return all, nil
	}
	cmd := exec.Command("git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	known := map[string]bool{}
	for name := range strings.SplitSeq(string(out), "\x00") {
		known[name] = true
	}
	var files []string
	for _, name := range all {
		if known[name] {
			files = append(files, name)
		}
	}
	return files, nil
}

// report fails the test once per fault.
func report(t *testing.T, faults []string) {
	t.Helper()
	for _, f := range faults {
		t.Error(f)
	}
}

// wantFaults fails the test unless the faults are exactly one per word, in
// order, each containing its word.
func wantFaults(t *testing.T, faults []string, words ...string) {
	t.Helper()
	if len(faults) != len(words) {
		t.Fatalf("%d faults, want %d:\n%s", len(faults), len(words), strings.Join(faults, "\n"))
	}
	for i, word := range words {
		if !strings.Contains(faults[i], word) {
			t.Errorf("fault %q does not mention %q", faults[i], word)
		}
	}
}

func TestCheckoutIsSeen(t *testing.T) {
	c := repo(t)
	seen := map[string]bool{}
	for _, s := range c.sources {
		seen[s.path] = true
	}
	for _, name := range []string{"internal/repotest/doc.go", "internal/repotest/checkout_test.go", "internal/pgtest/doc.go"} {
		if !seen[name] {
			t.Errorf("%s is not among the %d Go files seen", name, len(c.sources))
		}
	}
}
