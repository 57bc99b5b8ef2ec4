package repotest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// mustSee are packages that the import rules have to meet: a rule about a
// package that was renamed would otherwise pass for ever. Extend it as
// packages are added.
var mustSee = []string{
	".",
	"./approval",
	"./cli",
	"./cmd/consign",
	"./cmd/consign/internal/config",
	"./cmd/consign/internal/daemon",
	"./cmd/consign/internal/metrics",
	"./cmd/consign/internal/tracing",
	"./console",
	"./consigntest",
	"./examples/supportdesk",
	"./internal/canon",
	"./internal/driver",
	"./internal/driver/drivertest",
	"./internal/driver/memory",
	"./internal/lifecycle",
	"./internal/pgtest",
	"./internal/repotest",
	"./internal/rules",
	"./migrate",
	"./operator",
	"./postgres",
	"./reply",
	"./sqlite",
	"./webhook",
	"./webhook/receive",
}

// sqliteDrivers are the SQLite libraries for Go. Two of them in one process on
// one file lose rows silently, so the program chooses, never this module.
var sqliteDrivers = []string{
	"modernc.org/sqlite/...", "github.com/mattn/go-sqlite3/...", "github.com/ncruces/go-sqlite3/...",
	"github.com/glebarez/go-sqlite/...", "github.com/glebarez/sqlite/...", "zombiezen.com/go/sqlite/...", "crawshaw.io/sqlite/...",
}

// pureImports is what the decision core may use: nothing that does IO, keeps
// state or runs on its own.
var pureImports = []string{
	"bytes", "cmp", "encoding/hex", "errors", "fmt", "iter", "maps", "math", "math/bits",
	"slices", "sort", "strconv", "strings", "time", "unicode", "unicode/utf8",
}

// rule limits what some packages import. Patterns: "std" is the standard
// library; "." the root package; "./x" a package of this module; anything else
// an import path; "/..." at the end includes everything below.
type rule struct {
	why    string
	of     []string // the packages it is about
	except []string // those it is not about after all
	deep   bool     // look at all that is linked in, not only at direct imports
	allow  []string // if set, everything else is refused
	deny   []string
}

// rules are about what is compiled in; tests may import what they like.
var rules = []rule{
	{
		why: "the root package brings nothing but the standard library into a program",
		of:  []string{"."}, deep: true, allow: []string{"std", "./internal/..."},
	},
	{
		why: "the decision core is pure",
		of:  []string{"./internal/lifecycle"}, allow: pureImports,
	},
	{
		why: "canonical JSON stands alone",
		of:  []string{"./internal/canon/..."}, deep: true, allow: []string{"std", "./internal/canon/..."},
	},
	{
		why: "the rules of inputs know what is written and nothing else",
		of:  []string{"./internal/rules"}, deep: true, allow: []string{"std", "./internal/rules", "./internal/canon"},
	},
	{
		why: "the storage contract knows the core and nothing else",
		of:  []string{"./internal/driver"}, allow: []string{"std", "./internal/lifecycle", "./internal/canon"},
	},
	{
		why: "the contract, its suite and its reference driver know neither the API nor a store",
		of:  []string{"./internal/driver/..."}, deep: true, deny: []string{".", "./postgres/...", "./sqlite/...", "./internal/dispatch/..."},
	},
	{
		why: "the root package and the stores meet at internal/driver",
		of:  []string{"."}, deep: true, deny: []string{"./postgres/...", "./sqlite/..."},
	},
	{
		why: "a store imports neither the root package nor the other store",
		of:  []string{"./postgres/..."}, deep: true, deny: []string{".", "./sqlite/..."},
	},
	{
		why: "a store imports neither the root package nor the other store",
		of:  []string{"./sqlite/..."}, deep: true, deny: []string{".", "./postgres/..."},
	},
	{
		why: "the SQLite store works on the program's own driver",
		// The suite is what the store's tests share; the store does not link it.
		of: []string{"./sqlite/..."}, except: []string{"./sqlite/internal/suite"}, deep: true, allow: []string{"std", "./..."},
	},
	{
		why: "only the command chooses a SQLite driver",
		of:  []string{"./..."}, except: []string{"./cmd/consign"}, deny: sqliteDrivers,
	},
	{
		why: "pgx comes only with the PostgreSQL store",
		of:  []string{"./..."}, except: []string{"./postgres/...", "./internal/pgtest", "./cmd/...", "./bench/..."},
		deny: []string{"github.com/jackc/pgx/v5/..."},
	},
	{
		why: "neither end of a webhook chooses the program's database",
		of:  []string{"./webhook/..."}, deep: true, allow: []string{"std", "./..."}, deny: []string{"./postgres/...", "./sqlite/..."},
	},
	{
		why: "the test server knows nothing of what is tested on it",
		of:  []string{"./internal/pgtest"}, allow: []string{"std", "github.com/jackc/pgx/v5/..."},
	},
	{
		why: "an example uses the public API only, and its user opens the database",
		of:  []string{"./examples/supportdesk"}, allow: []string{"std", ".", "./approval", "./webhook"},
	},
	{
		why: "console and command use the public API only",
		of:  []string{"./console/...", "./cli/..."}, deny: []string{"./internal/..."},
	},
	{
		why: "mounting the commands brings neither a database nor metrics, traces or configuration into a program",
		of:  []string{"./cli/..."}, deep: true,
		allow: []string{"std", "./...", "github.com/spf13/cobra/...", "github.com/spf13/pflag/...", "github.com/inconshreveable/mousetrap/..."},
		deny:  []string{"./postgres/...", "./sqlite/...", "./cmd/..."},
	},
	{
		why: "metrics, traces and configuration are the daemon's",
		of:  []string{"./..."}, except: []string{"./cmd/consign/..."},
		deny: []string{"github.com/prometheus/...", "go.opentelemetry.io/...", "google.golang.org/...", "github.com/pelletier/..."},
	},
	{
		why: "the engine knows the storage contract, not the API above it or a store below it",
		of:  []string{"./internal/dispatch/..."}, deep: true, deny: []string{".", "./postgres/...", "./sqlite/..."},
	},
	{
		why: "the auditor is not the code it audits",
		of:  []string{"./internal/audit/..."}, deep: true,
		deny: []string{".", "./postgres/...", "./sqlite/...", "./internal/dispatch/...", "./internal/driver/...", "./internal/lifecycle/..."},
	},
}

// listed is one package as the go command sees it.
type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
	Deps                               []string
}

// matches reports whether an import path fits a pattern.
func matches(pattern, imported string) bool {
	if pattern == "std" {
		first, _, _ := strings.Cut(imported, "/")
		return !strings.Contains(first, ".") && imported != "C"
	}
	if rest, ok := strings.CutPrefix(pattern, "."); ok {
		pattern = modulePath + rest
	}
	if prefix, ok := strings.CutSuffix(pattern, "/..."); ok {
		return imported == prefix || strings.HasPrefix(imported, prefix+"/")
	}
	return imported == pattern
}

func matchesAny(patterns []string, imported string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, imported) })
}

// faults reports what a package imports against the rule.
func (r rule) faults(p listed) []string {
	if !matchesAny(r.of, p.ImportPath) || matchesAny(r.except, p.ImportPath) {
		return nil
	}
	imports := p.Imports
	if r.deep {
		imports = p.Deps
	}
	var faults []string
	for _, imported := range imports {
		if (r.allow != nil && !matchesAny(r.allow, imported)) || matchesAny(r.deny, imported) {
			faults = append(faults, fmt.Sprintf("%s imports %s, but %s", p.ImportPath, imported, r.why))
		}
	}
	return faults
}

// goList asks the go command about the packages of the root module.
func goList(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-buildvcs=false", "-json=ImportPath,Imports,TestImports,XTestImports,Deps", "./...")
	cmd.Dir = repo(t).root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestImportsPointInwards(t *testing.T) {
	all := goList(t)
	for _, want := range mustSee {
		if !slices.ContainsFunc(all, func(p listed) bool { return matches(want, p.ImportPath) }) {
			t.Errorf("package %s was not seen; renamed? then change the rules too", want)
		}
	}
	met := 0
	for _, p := range all {
		for _, r := range rules {
			report(t, r.faults(p))
			if matchesAny(r.of, p.ImportPath) && !matchesAny(r.except, p.ImportPath) && len(p.Imports) > 0 {
				met++
			}
		}
	}
	if met < len(mustSee) {
		t.Errorf("the rules met packages %d times", met)
	}
}

// TestImportRulesFindWhatIsForbidden breaks every rule once.
func TestImportRulesFindWhatIsForbidden(t *testing.T) {
	own := func(p string) string { return strings.TrimSuffix(modulePath+"/"+p, "/") }
	for _, c := range []struct {
		pkg, imported string
		deep          bool
		faults        int
	}{
		{"", "net/http", false, 0},
		{"", own("internal/dispatch"), true, 0},
		{"", "github.com/google/uuid", true, 1},
		{"", own("postgres"), true, 2},
		{"", own("sqlite"), true, 2},
		{"internal/lifecycle", "time", false, 0},
		{"internal/lifecycle", "os", false, 1},
		{"internal/lifecycle", "context", false, 1},
		{"internal/lifecycle", "C", false, 1},
		{"internal/lifecycle", own("internal/canon"), false, 1},
		{"internal/canon", "github.com/google/uuid", true, 1},
		{"internal/rules", own("internal/canon"), true, 0},
		{"internal/rules", own("internal/driver"), true, 1},
		{"internal/driver", own("internal/canon"), false, 0},
		{"internal/driver", own("internal/dispatch"), false, 1},
		{"internal/driver", "golang.org/x/sync/errgroup", false, 1},
		{"internal/driver/drivertest", "pgregory.net/rapid", false, 0},
		{"internal/driver/memory", own(""), true, 1},
		{"postgres", own("internal/driver"), true, 0},
		{"postgres", "github.com/jackc/pgx/v5/pgxpool", false, 0},
		{"postgres", own(""), true, 1},
		{"postgres/more", own("sqlite"), true, 1},
		{"sqlite", own("postgres"), true, 1},
		{"sqlite", "modernc.org/sqlite", false, 1},
		{"sqlite", "modernc.org/libc", true, 1},
		{"sqlite/more", "pgregory.net/rapid", true, 1},
		{"sqlite/internal/suite", "pgregory.net/rapid", true, 0},
		{"cmd/consign", "modernc.org/sqlite", false, 0},
		{"cmd/other", "modernc.org/sqlite", false, 1},
		{"consigntest", "github.com/mattn/go-sqlite3", false, 1},
		{"webhook", "github.com/jackc/pgx/v5", false, 1},
		{"webhook/receive", "github.com/jackc/pgx/v5", true, 1},
		{"webhook/receive", own("postgres"), true, 1},
		{"webhook/receive", own("webhook"), true, 0},
		{"webhook", "github.com/jackc/pgx/v5x", false, 0},
		{"internal/pgtest", "github.com/jackc/pgx/v5/pgxpool", false, 0},
		{"internal/pgtest", own("internal/driver"), false, 1},
		{"console", own("operator"), false, 0},
		{"console", own("internal/driver"), false, 1},
		{"cli/more", own("internal/dispatch"), false, 1},
		{"cli", "github.com/spf13/cobra", true, 0},
		{"cli", "github.com/jackc/pgx/v5", true, 1},
		{"cli", own("sqlite"), true, 1},
		{"cli", "github.com/prometheus/client_golang/prometheus", true, 1},
		{"webhook/more", "go.opentelemetry.io/otel", false, 1},
		{"cmd/consign/internal/metrics", "github.com/prometheus/client_golang/prometheus", false, 0},
		{"internal/dispatch", own(""), true, 1},
		{"internal/audit", own("internal/lifecycle"), true, 1},
	} {
		p := listed{ImportPath: own(c.pkg)}
		if p.Deps = []string{c.imported}; !c.deep {
			p.Imports, p.Deps = p.Deps, nil
		}
		var faults []string
		for _, r := range rules {
			faults = append(faults, r.faults(p)...)
		}
		if len(faults) != c.faults {
			t.Errorf("%q importing %s: %d faults, want %d: %q", c.pkg, c.imported, len(faults), c.faults, faults)
		}
	}
}
