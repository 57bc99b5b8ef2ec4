package repotest

import (
	"fmt"
	"go/ast"
	"regexp"
	"testing"
)

// clocks are what tells the time.
var clocks = regexp.MustCompile(`^(Now|Since|Until)$`)

// waiting are the files of the stores that measure how long a call waits. No time
// of theirs goes into a statement.
var waiting = map[string]bool{
	"postgres/wake.go": true, // silence on the listening connection
	"sqlite/engine.go": true, // patience for the write lock
	"sqlite/write.go":  true,
}

// clockFaults reports where a store reads the clock of its process.
func clockFaults(s source) []string {
	var faults []string
	ast.Inspect(s.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := sel.X.(*ast.Ident)
		if ok && pkg.Name == "time" && clocks.MatchString(sel.Sel.Name) {
			faults = append(faults, fmt.Sprintf("%s: uses time.%s: the database's clock alone decides", s.at(n), sel.Sel.Name))
		}
		return true
	})
	return faults
}

// TestStoresLeaveTimeToTheDatabase holds that no due time, lease or deadline comes
// from the clock of a process: a wrong one may delay but never decide.
func TestStoresLeaveTimeToTheDatabase(t *testing.T) {
	seen := map[string]int{}
	for _, s := range repo(t).sources {
		if s.isTest() || s.dir() != "postgres" && s.dir() != "sqlite" {
			continue
		}
		seen[s.dir()]++
		if !waiting[s.path] {
			report(t, clockFaults(s))
		}
	}
	if seen["postgres"] < 10 || seen["sqlite"] < 10 {
		t.Errorf("looked at %v files, too few", seen)
	}
}

func TestClockRuleFindsAClock(t *testing.T) {
	s := made(t, "postgres/x.go", `package postgres

import "time"

var a = time.Now()
var b = time.Duration(3) * time.Second
`)
	if faults := clockFaults(s); len(faults) != 1 {
		t.Errorf("found %v, want the one clock", faults)
	}
}
