package repotest

import (
	"fmt"
	"go/ast"
	"strings"
	"testing"
)

// The limits. A file that reaches one is two files; a function, two functions.
const (
	maxLines     = 600
	maxTestLines = 800
	maxFuncLines = 70 // tests excepted: tables of cases are long and flat
)

// sizeFaults reports a file, or functions in it, beyond the limits.
func sizeFaults(s source) []string {
	var faults []string
	limit := maxLines
	if s.isTest() {
		limit = maxTestLines
	}
	if s.lines > limit {
		faults = append(faults, fmt.Sprintf("%s has %d lines, limit %d", s.path, s.lines, limit))
	}
	if s.isTest() {
		return faults
	}
	for _, d := range s.ast.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		n := s.fset.Position(fn.End()).Line - s.fset.Position(fn.Pos()).Line + 1
		if n > maxFuncLines {
			faults = append(faults, fmt.Sprintf("%s: %s has %d lines, limit %d", s.at(fn), fn.Name.Name, n, maxFuncLines))
		}
	}
	return faults
}

func TestFilesAndFunctionsStaySmall(t *testing.T) {
	functions := 0
	for _, s := range repo(t).sources {
		report(t, sizeFaults(s))
		functions += len(s.ast.Decls)
	}
	if functions < 50 {
		t.Errorf("only %d declarations seen", functions)
	}
}

func TestSizeRuleFindsWhatIsTooLong(t *testing.T) {
	fn := func(lines int) string { return "func f() {\n" + strings.Repeat("\tf()\n", lines-2) + "}\n" }
	file := func(lines int) string { return "package p\n" + strings.Repeat("\n", lines-1) }
	wantFaults(t, sizeFaults(made(t, "a.go", file(600))))
	wantFaults(t, sizeFaults(made(t, "a.go", file(601))), "601 lines")
	wantFaults(t, sizeFaults(made(t, "a.go", strings.TrimSuffix(file(601), "\n")+"//")), "601 lines")
	wantFaults(t, sizeFaults(made(t, "a_test.go", file(800))))
	wantFaults(t, sizeFaults(made(t, "a_test.go", file(801))), "801 lines")
	wantFaults(t, sizeFaults(made(t, "a.go", "package p\n\n"+fn(70))))
	wantFaults(t, sizeFaults(made(t, "a.go", "package p\n\n"+fn(71))), "a.go:3: f has 71 lines")
	wantFaults(t, sizeFaults(made(t, "a_test.go", "package p\n\n"+fn(71))))
}
