package seeded

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/effort"
)

// mistake is a seeded one: a text of a file that becomes another, and the suite
// that must fail.
type mistake struct {
	what     string
	file     string // below the module's root
	old, new string // old occurs once
	suite    string // a package's directory
	run      string // the tests of it, as go test -run takes them
}

// root is the module's.
const root = "../.."

// bent is the file with its mistake.
func (m *mistake) bent(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(raw), m.old); n != 1 {
		t.Fatalf("%s: %q occurs %d times", m.file, m.old, n)
	}
	return strings.ReplaceAll(string(raw), m.old, m.new)
}

// Every seeded mistake can be made: its place is there, what comes of it is Go, and
// the tests that are to find it exist.
func TestSeededMistakesCanBeMade(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range mistakes {
		if seen[m.what] {
			t.Errorf("%s: twice", m.what)
		}
		seen[m.what] = true
		if _, err := parser.ParseFile(token.NewFileSet(), m.file, m.bent(t), 0); err != nil {
			t.Errorf("%s: %v", m.what, err)
		}
		if !suiteHas(t, m.suite, m.run) {
			t.Errorf("%s: %s has no test %s", m.what, m.suite, m.run)
		}
	}
	if len(mistakes) < 20 {
		t.Errorf("only %d mistakes", len(mistakes))
	}
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

func suiteHas(t *testing.T, dir, run string) bool {
	t.Helper()
	wanted := regexp.MustCompile(strings.Split(run, "/")[0])
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range testFunc.FindAllStringSubmatch(string(raw), -1) {
			if wanted.MatchString(name[1]) {
				return true
			}
		}
	}
	return false
}

// limit is how long a suite may take to report a mistake, its compilation included.
const limit = 3 * time.Minute

// Every seeded mistake is reported by its suite. Of each change only one is made,
// to see that they can be: a suite is compiled for each.
func TestSeededMistakesAreReported(t *testing.T) {
	which := mistakes[:effort.Of(1, len(mistakes))]
	tried, reported := 0, 0
	for _, m := range which {
		t.Run(m.what, func(t *testing.T) {
			tried++
			began := time.Now()
			out, err := m.goTest(t)
			switch {
			case err == nil:
				t.Errorf("%s does not report it", m.suite)
			case !strings.Contains(out, "--- FAIL: ") && !strings.Contains(out, "panic: "): // it was not built, say
				t.Errorf("%s reports something else: %v\n%s", m.suite, err, out)
			default:
				reported++
				effort.Note(t, "reported by %s %s in %s", m.suite, m.run, time.Since(began).Round(time.Second))
			}
		})
	}
	if reported != tried || tried == 0 {
		t.Errorf("%d of %d mistakes were reported", reported, tried)
	}
	effort.Note(t, "%d of %d mistakes were reported", reported, tried)
}

// goTest runs the suite with the mistake in the place of the file.
func (m *mistake) goTest(t *testing.T) (string, error) {
	t.Helper()
	file, err := filepath.Abs(filepath.Join(root, m.file))
	if err != nil {
		t.Fatal(err)
	}
	return goTest(t, file, m.bent(t), m.suite, m.run, limit, "CONSIGN_EFFORT=", "CONSIGN_SUMMARY=")
}

// goTest runs a suite with another text in the place of a file.
func goTest(t *testing.T, file, text, suite, run string, limit time.Duration, env ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	bent := filepath.Join(dir, "bent.go")
	if err := os.WriteFile(bent, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(map[string]map[string]string{"Replace": {file: bent}})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-overlay", overlay, "-vet=off", "-count=1", "-failfast",
		"-timeout", limit.String(), "-run", run, "./"+suite)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
