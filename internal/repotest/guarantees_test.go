package repotest

import (
	"errors"
	"go/ast"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// guarantees is the document that maps promises to tests.
const guarantees = "docs/guarantees.md"

// origins are the two designs that Consign descends from, with the number of
// statements each makes.
var origins = map[string]int{"S1": 152, "S2": 61}

// testsOf lists the tests, fuzz targets and examples that go test would run.
func testsOf(sources []source) map[testName]bool {
	out := map[testName]bool{}
	for _, s := range sources {
		if !s.isTest() {
			continue
		}
		for _, d := range s.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && isTestFunc(fn) {
				out[testName{s.dir(), fn.Name.Name}] = true
			}
		}
	}
	return out
}

var runName = regexp.MustCompile(`^(Test|Fuzz|Example)($|[^\p{Ll}])`)

func isTestFunc(fn *ast.FuncDecl) bool {
	name := fn.Name.Name
	if fn.Recv != nil || !runName.MatchString(name) || name == "TestMain" {
		return false
	}
	if strings.HasPrefix(name, "Example") {
		return fn.Type.Params.NumFields() == 0
	}
	return fn.Type.Params.NumFields() == 1
}

func TestEveryPromiseNamesWhatKeepsIt(t *testing.T) {
	c := repo(t)
	text, err := os.ReadFile(filepath.Join(c.root, guarantees))
	if err != nil {
		t.Fatal(err)
	}
	promises, faults := parsePromises(string(text))
	report(t, faults)
	report(t, promiseFaults(promises, evidence{
		tests:   testsOf(c.sources),
		origins: origins,
		headings: func(file string) ([]string, error) {
			if !slices.Contains(c.files, file) {
				return nil, fs.ErrNotExist
			}
			text, err := os.ReadFile(filepath.Join(c.root, file))
			return anchors(string(text)), err
		},
	}))
	kept, open := 0, 0
	for _, p := range promises {
		switch {
		case p.open != "":
			open++
		case len(p.tests) > 0:
			kept++
		}
	}
	t.Logf("%d promises: %d name tests, %d are open", len(promises), kept, open)
}

func TestTestsOfCountsWhatRuns(t *testing.T) {
	got := testsOf([]source{
		made(t, "a/a_test.go", `package a

func TestMain(m *testing.M) {}
func TestGood(t *testing.T) {}
func Test(t *testing.T) {}
func Testbad(t *testing.T) {}
func TestNothing() {}
func (x T) TestMethod(t *testing.T) {}
func FuzzGood(f *testing.F) {}
func Example() {}
func ExampleT_Do() {}
func BenchmarkGood(b *testing.B) {}
`),
		made(t, "a/a.go", "package a\n\nfunc TestInNoTestFile(t *testing.T) {}\n"),
		made(t, "root_test.go", "package consign\n\nfunc TestRoot(t *testing.T) {}\n"),
	})
	want := []testName{{"a", "TestGood"}, {"a", "Test"}, {"a", "FuzzGood"}, {"a", "Example"}, {"a", "ExampleT_Do"}, {".", "TestRoot"}}
	for _, w := range want {
		if !got[w] {
			t.Errorf("%v is missing", w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d tests, want %d: %v", len(got), len(want), got)
	}
}

func TestAnchors(t *testing.T) {
	got := anchors("# Two words\n## A `code`, and *more*: 50 %!\n```sh\n# not a heading\n```\n### Two words\n### [Link](x.md#y) to_it ##\n#no\nÜber\n## Über-all\n")
	want := []string{"two-words", "a-code-and-more-50-", "two-words-1", "link-to_it", "über-all"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// table makes a document of one table.
func table(rows ...string) string {
	return "# Title\n\n| id | promise | kept by |\n|---|:--|---|\n" + strings.Join(rows, "\n") + "\n"
}

func TestReadPromises(t *testing.T) {
	promises, faults := parsePromises(table(
		"| S1-001 | a \\| b | `internal/canon.TestA`, `consign.FuzzB` |",
		"| 3.T11b | x | `a/b-c.ExampleT_Do`, host: [read this](operations.md#keys) |",
		"| 4.3 | x | host: [this](../README.md#use), host: [that](design.md#x) |",
		"| 4.4 | x | open: core |",
		"| 4.5 | x | open: host duty, work |",
		"| 4.6 | x | not applicable: Ruby, a class reloads |",
	) + "\n```\n| not | a | row |\n```\n| outside | of `code` |\n")
	wantFaults(t, faults, "2 cells")
	if len(promises) != 6 {
		t.Fatalf("%d promises, want 6", len(promises))
	}
	for i, want := range []promise{
		{id: "S1-001", tests: []testName{{"internal/canon", "TestA"}, {".", "FuzzB"}}},
		{id: "3.T11b", tests: []testName{{"a/b-c", "ExampleT_Do"}}, hosts: []link{{"operations.md", "keys"}}},
		{id: "4.3", hosts: []link{{"../README.md", "use"}, {"design.md", "x"}}},
		{id: "4.4", open: "core"},
		{id: "4.5", open: "host duty, work"},
		{id: "4.6", absent: "Ruby, a class reloads"},
	} {
		got := promises[i]
		if got.id != want.id || got.line != i+5 || !slices.Equal(got.tests, want.tests) || !slices.Equal(got.hosts, want.hosts) ||
			got.open != want.open || got.absent != want.absent {
			t.Errorf("row %d is %+v, want %+v", i, got, want)
		}
	}
}

func TestPromiseParserRefusesWhatItCannotRead(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no id":             {table("|  | x | open: core |"), `"" is no id`},
		"foreign id":        {table("| S3-001 | x | open: core |"), `"S3-001" is no id`},
		"short id":          {table("| S1-01 | x | open: core |"), `"S1-01" is no id`},
		"no promise":        {table("| 4.1 |  | open: core |"), "promises nothing"},
		"nothing keeps it":  {table("| 4.1 | x |  |"), "cannot read"},
		"bare test":         {table("| 4.1 | x | internal/canon.TestA |"), "cannot read"},
		"test without dir":  {table("| 4.1 | x | `TestA` |"), "cannot read"},
		"benchmark":         {table("| 4.1 | x | `a.BenchmarkA` |"), "cannot read"},
		"no comma":          {table("| 4.1 | x | `a.TestA` `a.TestB` |"), "comma is missing"},
		"comma at the end":  {table("| 4.1 | x | `a.TestA`, |"), "cannot read"},
		"test and open":     {table("| 4.1 | x | `a.TestA`, open: core |"), "cannot read"},
		"open without part": {table("| 4.1 | x | open: |"), "none of the parts"},
		"open, unknown":     {table("| 4.1 | x | open: later |"), "none of the parts"},
		"only a duty":       {table("| 4.1 | x | open: host duty |"), "none of the parts"},
		"just open":         {table("| 4.1 | x | open |"), "cannot read"},
		"no reason":         {table("| 4.1 | x | not applicable: |"), "without a reason"},
		"host, no link":     {table("| 4.1 | x | host: see the manual |"), "cannot read"},
		"host, no heading":  {table("| 4.1 | x | host: [a](b.md) |"), "cannot read"},
		"two cells":         {table("| 4.1 | open: core |"), "2 cells"},
		"four cells":        {table("| 4.1 | a | b | open: core |"), "4 cells"},
		"other columns":     {"| id | text |\n|---|---|\n", "columns"},
		"open code block":   {table("```", "| 4.1 | x | open: core |"), "not closed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, faults := parsePromises(c.text)
			wantFaults(t, faults, c.want)
		})
	}
}

func TestPromiseCheckFindsWhatIsWrong(t *testing.T) {
	e := evidence{
		tests:   map[testName]bool{{"a", "TestA"}: true},
		origins: map[string]int{"S1": 2, "S2": 1},
		headings: func(file string) ([]string, error) {
			if file == "docs/ops.md" || file == "README.md" {
				return []string{"keys"}, nil
			}
			return nil, errors.New("no such file")
		},
	}
	whole := []string{"| S1-001 | x | `a.TestA` |", "| S1-002 | x | open: core |", "| S2-001 | x | host: [k](ops.md#keys) |"}
	for name, c := range map[string]struct {
		rows []string
		want []string
	}{
		"all is well":     {append(slices.Clone(whole), "| 4.1 | x | `a.TestA`, host: [k](../README.md#keys) |"), nil},
		"missing ids":     {whole[:1], []string{"S1-002 has no row", "S2-001 has no row"}},
		"no rows":         {nil, []string{"S1-001 has no row", "S1-002 has no row", "S2-001 has no row"}},
		"doubled id":      {append(slices.Clone(whole), whole[0]), []string{"S1-001 is already on line 5"}},
		"doubled own id":  {append(slices.Clone(whole), "| 4.1 | x | open: core |", "| 4.1 | y | open: core |"), []string{"4.1 is already on line 8"}},
		"one too many":    {append(slices.Clone(whole), "| S2-002 | x | open: core |"), []string{"S2 has 1 statements"}},
		"number zero":     {append(slices.Clone(whole), "| S1-000 | x | open: core |"), []string{"S1 has 2 statements"}},
		"unknown test":    {append(slices.Clone(whole), "| 4.1 | x | `a.TestA`, `a.TestB` |"), []string{"TestB in a"}},
		"unknown dir":     {append(slices.Clone(whole), "| 4.1 | x | `b.TestA` |"), []string{"TestA in b"}},
		"root package":    {append(slices.Clone(whole), "| 4.1 | x | `consign.TestA` |"), []string{"TestA in ."}},
		"dead file":       {append(slices.Clone(whole), "| 4.1 | x | host: [k](no.md#keys) |"), []string{"docs/no.md: no such file"}},
		"dead heading":    {append(slices.Clone(whole), "| 4.1 | x | host: [k](ops.md#locks) |"), []string{"#locks"}},
		"dead second one": {append(slices.Clone(whole), "| 4.1 | x | `a.TestA`, host: [k](ops.md#locks) |"), []string{"#locks"}},
	} {
		t.Run(name, func(t *testing.T) {
			promises, faults := parsePromises(table(c.rows...))
			wantFaults(t, faults)
			wantFaults(t, promiseFaults(promises, e), c.want...)
		})
	}
}
