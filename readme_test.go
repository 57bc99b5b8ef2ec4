package consign_test

import (
	"os"
	"strings"
	"testing"
)

// What the README shows first is the code of the example, which compiles and runs.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "```go\n")
	shown, _, found := strings.Cut(rest, "```")
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if !found || len(shown) < 100 || !strings.Contains(string(example), shown) {
		t.Errorf("the first program of the README is not in example_test.go:\n%s", shown)
	}
	if lines := strings.Count(shown, "\n"); lines > 20 {
		t.Errorf("the first program has %d lines", lines)
	}
}
