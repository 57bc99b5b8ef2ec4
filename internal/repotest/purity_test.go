package repotest

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"strconv"
	"testing"
)

// pureDir is the package that must decide without doing anything.
const pureDir = "internal/lifecycle"

// impureNames are what allowed packages offer beyond pure functions: clocks,
// timers and files in time, output and input in fmt.
var impureNames = map[string]*regexp.Regexp{
	"time": regexp.MustCompile(`^(Now|Since|Until|Sleep|After|AfterFunc|Tick|NewTimer|NewTicker|Local|LoadLocation)$`),
	"fmt":  regexp.MustCompile(`^(Print|Fprint|Scan|Fscan|Sscan)`),
}

// purityFaults reports clocks, IO and concurrency in a file.
func purityFaults(s source) []string {
	var faults []string
	add := func(n ast.Node, what string) { faults = append(faults, fmt.Sprintf("%s: %s", s.at(n), what)) }
	named := map[string]string{} // the name a package has in this file -> its path
	for _, spec := range s.ast.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			add(spec, err.Error())
			continue
		}
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "." {
			add(spec, "a dot import hides where names come from")
		}
		named[name] = imported
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			add(n, "starts a goroutine")
		case *ast.SelectStmt:
			add(n, "waits in a select")
		case *ast.ChanType:
			add(n, "uses a channel")
		case *ast.FuncDecl:
			if n.Recv == nil && n.Name.Name == "init" {
				add(n, "has an init function")
			}
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			if !ok {
				break
			}
			if impure := impureNames[named[pkg.Name]]; impure != nil && impure.MatchString(n.Sel.Name) {
				add(n, "uses "+named[pkg.Name]+"."+n.Sel.Name)
			}
		}
		return true
	})
	return faults
}

func TestDecisionCoreIsPure(t *testing.T) {
	seen := 0
	for _, s := range repo(t).sources {
		if s.dir() == pureDir && !s.isTest() {
			seen++
			report(t, purityFaults(s))
		}
	}
	if seen == 0 {
		t.Errorf("no file of %s was seen", pureDir)
	}
}

func TestPurityRuleFindsWhatIsImpure(t *testing.T) {
	s := made(t, "p.go", `package p

import (
	clock "time"
	. "strings"
	"fmt"
)

var at = clock.Now()
var zone = clock.UTC
var text = fmt.Sprintf("x")

func init() {}

func f(c chan int) {
	clock.Sleep(1)
	go f(nil)
	select {}
	fmt.Println(c)
}

type time struct{ Now int }

func (t time) init() int { return t.Now }
`)
	wantFaults(t, purityFaults(s), "dot import", "time.Now", "init function", "channel", "time.Sleep", "goroutine", "select", "fmt.Println")
}
