//go:build !generated

package tickets

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"testing"

	"entgo.io/ent"
	"entgo.io/ent/entc/gen"
	"entgo.io/ent/entc/load"

	"github.com/consign-go/consign/examples/orm/ent/schema"
	_ "github.com/consign-go/consign/examples/orm/ormtest" // so that a change below it is not answered from the test cache
)

const module = "github.com/consign-go/consign/examples/orm/ent"

// The promises about ent are tests of the files tagged "generated". This one
// generates the client that they need, which takes no network and a moment, into
// a copy of the module, and runs them there: five thousand generated lines for two
// tables would teach nobody anything.
func TestExampleWithItsGeneratedClient(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	generate(t, filepath.Join(dir, "client"))
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	run(t, dir, "mod", "edit", "-replace=github.com/consign-go/consign="+root,
		"-replace=github.com/consign-go/consign/examples/orm/ormtest="+filepath.Join(root, "examples/orm/ormtest"))
	args := []string{"test", "-vet=all", "-tags=generated"}
	if underRace() {
		args = append(args, "-race")
	}
	if testing.Verbose() {
		args = append(args, "-v")
	}
	run(t, dir, append(args, ".")...)
}

// run runs the go command and shows what it says.
func run(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if len(out) > 0 {
		t.Logf("%s", out)
	}
	if err != nil {
		t.Fatalf("go %s: %v", args[0], err)
	}
}

// generate writes the client of the schema.
func generate(t *testing.T, dir string) {
	t.Helper()
	var schemas []*load.Schema
	for _, s := range []ent.Interface{schema.Ticket{}, schema.Tag{}} {
		text, err := load.MarshalSchema(s)
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := load.UnmarshalSchema(text)
		if err != nil {
			t.Fatal(err)
		}
		schemas = append(schemas, loaded)
	}
	storage, err := gen.NewStorage("sql")
	if err != nil {
		t.Fatal(err)
	}
	graph, err := gen.NewGraph(&gen.Config{
		Target: dir, Package: module + "/client", Schema: module + "/schema", Storage: storage,
	}, schemas...)
	if err != nil {
		t.Fatal(err)
	}
	if err := graph.Gen(); err != nil {
		t.Fatal(err)
	}
}

// underRace reports whether this test was built with the race detector.
func underRace() bool {
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		if s.Key == "-race" {
			return s.Value == "true"
		}
	}
	return false
}
