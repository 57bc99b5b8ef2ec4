package seeded

import (
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/effort"
)

// bentClock is what time.Now has between reading the clock and telling the time, in
// a process for which CONSIGN_CLOCK says how its wall clock is wrong. The monotonic
// clock stays as it is, as it does where an operator sets the other one.
const bentClock = `
	switch bentHow {
	case "ahead":
		sec += 3 * 3600
	case "behind":
		sec -= 3 * 3600
	case "frozen":
		sec, nsec = bentFrom, 0
	case "backwards":
		sec = bentFrom - (mono-bentMono)/1e9
	case "jumping":
		sec += ((mono-bentMono)/1e9%3 - 1) * 3 * 3600
	}
`

const bentState = `
var (
	bentHow, _           = syscall.Getenv("CONSIGN_CLOCK")
	bentFrom, _, bentMono = runtimeNow()
)
`

// bentTime is the standard library's time.go with a wall clock that can be wrong.
func bentTime(t *testing.T) (file, text string) {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(strings.TrimSpace(string(out)), "src", "time", "time.go")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = string(raw)
	for _, edit := range [][2]string{
		{"func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n", "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n" + bentClock},
		{"import (\n\t\"errors\"\n", "import (\n\t\"errors\"\n\t\"syscall\"\n"},
	} {
		if strings.Count(text, edit[0]) != 1 {
			t.Fatalf("%s: %q does not occur once: this version of Go reads its clock in another way", file, edit[0])
		}
		text = strings.Replace(text, edit[0], edit[1], 1)
	}
	return file, text + bentState
}

// A clock that is wrong can be built, and in a long run the workers are built with
// it: all of the standard library is compiled for that.
func TestWorkersAreTriedWithWrongClocks(t *testing.T) {
	file, text := bentTime(t)
	if _, err := parser.ParseFile(token.NewFileSet(), file, text, 0); err != nil {
		t.Fatal(err)
	}
	if !effort.Long() {
		return
	}
	out, err := goTest(t, file, text, "internal/dispatchtest", "TestWorkersWithWrongClocks", 20*time.Minute, "CONSIGN_CLOCKS_BENT=yes")
	if err != nil || !strings.Contains(out, "ok") {
		t.Errorf("%v\n%s", err, out)
	}
}
