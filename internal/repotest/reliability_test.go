package repotest

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var namedTest = regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz)\\w+)`")

// Every test that the page on reliability names is there.
func TestReliabilityNamesTestsThatExist(t *testing.T) {
	c := repo(t)
	text, err := os.ReadFile(filepath.Join(c.root, "docs/reliability.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := testsOf(c.sources)
	found := namedTest.FindAllStringSubmatch(string(text), -1)
	for _, f := range found {
		dir := f[1]
		if dir == "consign" {
			dir = "."
		}
		if !tests[testName{dir, f[2]}] {
			t.Errorf("there is no test %s in %s", f[2], dir)
		}
	}
	if len(found) < 30 {
		t.Errorf("only %d tests are named", len(found))
	}
}
