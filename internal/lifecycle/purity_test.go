package lifecycle_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestPackageDoesNoIOAndReadsNoClock holds the package to its promise by reading
// its source: what decides is a function of what it is given.
func TestPackageDoesNoIOAndReadsNoClock(t *testing.T) {
	imports := []string{"math", "strconv", "time"}
	ofTime := []string{"Duration", "Second"} // a length of time is a value; the time of day is not
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		read++
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range file.Imports {
			if path, _ := strconv.Unquote(i.Path.Value); !slices.Contains(imports, path) || i.Name != nil {
				t.Errorf("%v: imports %s", set.Position(i.Pos()), i.Path.Value)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && !slices.Contains(ofTime, n.Sel.Name) {
					t.Errorf("%v: uses time.%s", set.Position(n.Pos()), n.Sel.Name)
				}
			case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt, *ast.ChanType, *ast.DeferStmt:
				t.Errorf("%v: %T", set.Position(n.Pos()), n)
			case *ast.FuncDecl:
				if n.Name.Name == "init" && n.Recv == nil {
					t.Errorf("%v: an init function", set.Position(n.Pos()))
				}
			}
			return true
		})
	}
	if read < 8 {
		t.Errorf("read %d files", read)
	}
}
