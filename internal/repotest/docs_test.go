package repotest

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"testing"
)

// packages groups the non-test files by directory.
func packages(sources []source) map[string][]source {
	out := map[string][]source{}
	for _, s := range sources {
		if !s.isTest() {
			out[s.dir()] = append(out[s.dir()], s)
		}
	}
	return out
}

// docFaults reports a package without a package comment and, unless it is a
// command, exported names without a comment of their own. Fields and interface
// methods are explained in their type; constants and variables may be
// explained as a group.
func docFaults(dir string, files []source) []string {
	var faults []string
	commented := false
	for _, s := range files {
		commented = commented || s.ast.Doc.Text() != ""
	}
	if !commented {
		faults = append(faults, dir+": no package comment")
	}
	for _, s := range files {
		if s.ast.Name.Name == "main" {
			continue
		}
		for _, d := range s.ast.Decls {
			for _, name := range undocumented(d) {
				faults = append(faults, fmt.Sprintf("%s: exported %s has no comment", s.at(d), name))
			}
		}
	}
	return faults
}

// undocumented lists the exported names that a declaration leaves unexplained.
func undocumented(d ast.Decl) []string {
	var names []string
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && receiverIsExported(d) && d.Doc.Text() == "" {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		group := d.Doc.Text() != ""
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				// The comment of a one-type declaration stands on the declaration;
				// that of a group says nothing about each type in it.
				alone := group && !d.Lparen.IsValid()
				if spec.Name.IsExported() && !alone && spec.Doc.Text() == "" {
					names = append(names, spec.Name.Name)
				}
			case *ast.ValueSpec:
				if group || spec.Doc.Text() != "" || spec.Comment.Text() != "" {
					continue
				}
				for _, name := range spec.Names {
					if name.IsExported() {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}

// receiverIsExported is true of a function, and of a method whose type a
// reader of the documentation can see.
func receiverIsExported(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	typ := d.Recv.List[0].Type
	for {
		switch t := typ.(type) {
		case *ast.StarExpr:
			typ = t.X
		case *ast.IndexExpr: // T[A]
			typ = t.X
		case *ast.IndexListExpr: // T[A, B]
			typ = t.X
		case *ast.Ident:
			return token.IsExported(t.Name)
		default:
			return true
		}
	}
}

func TestPackagesAndExportedNamesAreDocumented(t *testing.T) {
	all := packages(repo(t).sources)
	for _, dir := range slices.Sorted(maps.Keys(all)) {
		report(t, docFaults(dir, all[dir]))
	}
	if len(all) < len(mustSee) {
		t.Errorf("only %d packages seen", len(all))
	}
}

func TestDocRuleFindsWhatIsUnexplained(t *testing.T) {
	const head = "// Package p is.\npackage p\n"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"no package comment":        {"package p\n", []string{"no package comment"}},
		"a directive is no comment": {"//go:build unix\n\npackage p\n", []string{"no package comment"}},
		"function":                  {head + "func F() {}\nfunc f() {}\n", []string{"exported F"}},
		"method": {
			head + "// T is.\ntype T[A any] struct{}\nfunc (t *T[A]) M() {}\nfunc (t T[A]) m() {}\ntype u int\nfunc (u) M() {}\n",
			[]string{"exported M"},
		},
		"type":            {head + "type T int\n", []string{"exported T"}},
		"type in a group": {head + "// Types.\ntype (\n\tA int\n\t// B is.\n\tB int\n)\n", []string{"exported A"}},
		"constants": {
			head + "const A = 1\n\n// Group.\nconst (\n\tB = 1\n)\nconst (\n\tC = 1\n\t// D is.\n\tD = 1\n\tE = 1 // is\n)\n",
			[]string{"exported A", "exported C"},
		},
		"variables":    {head + "var A, b, C = 1, 2, 3\n", []string{"exported A", "exported C"}},
		"all is well":  {head + "// F is.\nfunc F() {}\n\n// T is.\ntype T struct{ Field int }\n", nil},
		"main exempts": {"// Command p is.\npackage main\n\nfunc F() {}\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			wantFaults(t, docFaults("p", []source{made(t, "p/p.go", c.text)}), c.want...)
		})
	}
	two := []source{made(t, "p/a.go", "package p\n"), made(t, "p/doc.go", head)}
	wantFaults(t, docFaults("p", two))
}
