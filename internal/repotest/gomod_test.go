package repotest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// allowedModules are what the root module may depend on directly, and why.
// Anything that only some users want gets a module of its own.
var allowedModules = map[string]string{
	"github.com/jackc/pgx/v5": "the PostgreSQL store speaks pgx, and its users pass pgx transactions",
	"modernc.org/sqlite":      "the command's SQLite driver, and one of the two that the SQLite store is tested on",
	"pgregory.net/rapid":      "random operation histories that shrink, in tests",
	"go.uber.org/goleak":      "tests that start goroutines show that these end",

	"github.com/spf13/cobra":          "the command tree: flags, help, completion for four shells",
	"github.com/spf13/pflag":          "the flags of that tree",
	"github.com/pelletier/go-toml/v2": "the daemon's configuration; it tells lines",

	"github.com/prometheus/client_golang":                             "the daemon's metrics",
	"go.opentelemetry.io/otel":                                        "the daemon's traces",
	"go.opentelemetry.io/otel/sdk":                                    "the daemon's traces",
	"go.opentelemetry.io/otel/trace":                                  "the daemon's traces",
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp": "the daemon's traces go out over OTLP",
	"go.opentelemetry.io/proto/otlp":                                  "tests read what the daemon exported",
	"google.golang.org/protobuf":                                      "tests read what the daemon exported",
	"github.com/rogpeppe/go-internal":                                 "testscript: tests of the command as a person types it",

	"github.com/anishathalye/porcupine": "tests judge concurrent histories for linearizability",
}

// modFile is the part of go mod edit -json that the rule needs.
type modFile struct {
	Require []required
	Replace []struct{ Old, New struct{ Path string } }
}

type required struct {
	Path     string
	Indirect bool
}

// editJSON reads the go.mod of a directory.
func editJSON(t *testing.T, dir string) modFile {
	t.Helper()
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	var mod modFile
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	return mod
}

// moduleFaults reports direct dependencies that are not allowed: those that
// go.mod calls direct, and those that some file imports whatever go.mod says.
func moduleFaults(mod modFile, all []listed) []string {
	var faults []string
	direct := map[string]string{}
	for _, r := range mod.Require {
		if !r.Indirect {
			direct[r.Path] = "go.mod"
		}
	}
	for _, p := range all {
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if matches("std", imported) || matches("./...", imported) {
				continue
			}
			module := ""
			for _, r := range mod.Require {
				if matches(r.Path+"/...", imported) && len(r.Path) > len(module) {
					module = r.Path
				}
			}
			if module == "" {
				module = imported // the package C, for one, is of no module
			}
			direct[module] = p.ImportPath
		}
	}
	for _, module := range slices.Sorted(maps.Keys(direct)) {
		if allowedModules[module] == "" {
			faults = append(faults, fmt.Sprintf("%s depends on %s, which is not on the list of allowed modules", direct[module], module))
		}
	}
	for _, r := range mod.Replace {
		faults = append(faults, fmt.Sprintf("go.mod replaces %s: users of the module would not get that", r.Old.Path))
	}
	return faults
}

func TestDirectDependenciesAreAllowed(t *testing.T) {
	mod := editJSON(t, repo(t).root)
	if len(mod.Require) == 0 {
		t.Error("go.mod requires nothing")
	}
	report(t, moduleFaults(mod, goList(t)))
}

// nestedFaults reports a nested module, in a directory of the repository, that
// would be built with some released Consign and not with the one beside it.
func nestedFaults(dir string, mod modFile) []string {
	if !slices.ContainsFunc(mod.Require, func(r required) bool { return r.Path == modulePath }) {
		return nil
	}
	for _, r := range mod.Replace {
		if r.Old.Path == modulePath && path.Join(dir, r.New.Path) == "." {
			return nil
		}
	}
	return []string{dir + "/go.mod requires " + modulePath + " and does not replace it with the checkout"}
}

func TestNestedModulesUseTheCheckout(t *testing.T) {
	c, seen := repo(t), 0
	for _, name := range c.files {
		if path.Base(name) != "go.mod" || strings.Contains(name, "testdata/") {
			continue
		}
		seen++
		if dir := path.Dir(name); dir != "." {
			report(t, nestedFaults(dir, editJSON(t, filepath.Join(c.root, dir))))
		}
	}
	if seen == 0 {
		t.Error("not even the root module was seen")
	}
}

func TestNestedModuleRuleFindsWhatIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		replace string
		faults  []string
	}{
		"no replace":     {"", []string{"bench/go.mod"}},
		"another module": {`{"Old": {"Path": "example.org/x"}, "New": {"Path": ".."}}`, []string{"bench/go.mod"}},
		"another place":  {`{"Old": {"Path": "` + modulePath + `"}, "New": {"Path": "../.."}}`, []string{"bench/go.mod"}},
		"the checkout":   {`{"Old": {"Path": "` + modulePath + `"}, "New": {"Path": "../"}}`, nil},
	} {
		var mod modFile
		text := `{"Require": [{"Path": "` + modulePath + `"}], "Replace": [` + c.replace + `]}`
		if err := json.Unmarshal([]byte(text), &mod); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { wantFaults(t, nestedFaults("bench", mod), c.faults...) })
	}
	wantFaults(t, nestedFaults("alone", modFile{}))
}

func TestModuleRuleFindsWhatIsNotAllowed(t *testing.T) {
	var mod modFile
	text := `{"Require": [
		{"Path": "github.com/jackc/pgx/v5"},
		{"Path": "example.org/direct"},
		{"Path": "example.org/hidden", "Indirect": true},
		{"Path": "example.org/hidden/nested", "Indirect": true},
		{"Path": "example.org/really/indirect", "Indirect": true}],
		"Replace": [{"Old": {"Path": "example.org/replaced"}}]}`
	if err := json.Unmarshal([]byte(text), &mod); err != nil {
		t.Fatal(err)
	}
	wantFaults(t, moduleFaults(mod, []listed{
		{ImportPath: "p", Imports: []string{"os", modulePath + "/internal/canon", "github.com/jackc/pgx/v5/pgxpool"}},
		{ImportPath: "q", XTestImports: []string{"example.org/hidden/nested/x", "C"}},
	}), "q depends on C,", "go.mod depends on example.org/direct,", "q depends on example.org/hidden/nested,", "replaces example.org/replaced")
}
