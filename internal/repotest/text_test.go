package repotest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// forbidden is text that must not be in the repository. It is put together from
// pieces, so that this file does not hold what it forbids.
var forbidden = []struct {
	why     string
	goOnly  bool
	hints   []string       // plain text that every match contains: quick to look for
	pattern *regexp.Regexp // what is forbidden, within a line
}{
	{
		why:     "unfinished work is an issue, not a comment",
		hints:   []string{"TO" + "DO", "FIX" + "ME", "XX" + "X"},
		pattern: regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`),
	},
	{
		why:     "a path of one machine",
		hints:   []string{"/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/", "/Us" + "ers/"},
		pattern: regexp.MustCompile(`(^|[^\w.])/(wo` + `rk/(main|shared|\.lib)|ro` + `ot/|ho` + `me/\w|Us` + `ers/\w)`),
	},
	{
		why:     "a file that is not in this repository",
		hints:   []string{"../sha" + "red", "SP" + "EC.md", "CHECK" + "LIST.md"},
		pattern: regexp.MustCompile(`\.\./sha` + `red\b|\b(SP` + `EC|CHECK` + `LIST)\.md\b`),
	},
	{
		why:     "a test that is skipped shows nothing",
		goOnly:  true,
		hints:   []string{".Skip"},
		pattern: regexp.MustCompile(`\b(t|b|tb|f)\.Skip` + `(f|Now)?\(`),
	},
}

// textFaults reports forbidden text, line by line. Binary files have none.
func textFaults(name string, text []byte) []string {
	if bytes.IndexByte(text, 0) >= 0 {
		return nil
	}
	var faults []string
	for _, f := range forbidden {
		hinted := slices.ContainsFunc(f.hints, func(h string) bool { return bytes.Contains(text, []byte(h)) })
		if !hinted || (f.goOnly && !strings.HasSuffix(name, ".go")) {
			continue
		}
		number := 0
		for line := range strings.SplitSeq(string(text), "\n") {
			number++
			if found := f.pattern.FindString(line); found != "" {
				faults = append(faults, fmt.Sprintf("%s:%d: %q: %s", name, number, found, f.why))
			}
		}
	}
	return faults
}

func TestForbiddenTextIsAbsent(t *testing.T) {
	c := repo(t)
	for _, name := range c.files {
		text, err := os.ReadFile(filepath.Join(c.root, name))
		if err != nil {
			t.Error(err)
			continue
		}
		report(t, textFaults(name, text))
	}
	if len(c.files) < len(c.sources) || len(c.files) == 0 {
		t.Errorf("only %d files seen", len(c.files))
	}
}

func TestTextRuleFindsWhatIsForbidden(t *testing.T) {
	bad := strings.Join([]string{
		"// TO" + "DO: later", "x = FIX" + "ME", "XX" + "X", "cd /wo" + "rk/main", "see ~ and /ho" + "me/me", "(/ro" + "ot/go)",
		"SP" + "EC.md section 4", "../sha" + "red/x", "\tt.Skip" + "(\"no\")", "\tb.Skip" + "Now()", "\tf.Skip" + "f(\"no\")",
	}, "\n")
	wantFaults(t, textFaults("a_test.go", []byte(bad)),
		"a_test.go:1:", ":2:", ":3:", ":4:", ":5:", ":6:", ":7:", ":8:", ":9:", ":10:", ":11:")
	good := "GET /work/{ref} of XX" + "XL methods; https://example.org/ho" + "me/page, at.Skip" + "(1), a/ro" + "ot/b"
	wantFaults(t, textFaults("a.go", []byte(good)))
	wantFaults(t, textFaults("a.md", []byte("never t.Skip"+"(…) in a test")))
	wantFaults(t, textFaults("a.bin", []byte("XX"+"X\x00")))
}
