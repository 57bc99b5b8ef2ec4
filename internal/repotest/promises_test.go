package repotest

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// promise is one row of docs/guarantees.md. What keeps it is named tests, links
// to duties of the host program, or both; or it is still open; or it has no
// counterpart here.
type promise struct {
	line   int
	id     string
	tests  []testName
	hosts  []link
	open   string
	absent string // the reason why it is not applicable
}

// testName is a test in a directory; "." is the root package.
type testName struct{ dir, name string }

// link is a heading in another document.
type link struct{ file, anchor string }

// parts are the words that may follow "open:", with "host duty" before them
// where the program that uses Consign has to keep the promise.
var parts = []string{"core", "engine", "work", "messages", "command", "console", "proof", "speed"}

var (
	promiseID   = regexp.MustCompile(`^(S[12]-\d{3}|\d{1,2}\.(\d{1,3}|[A-Z]\d{1,3}[a-z]?))$`)
	promiseTest = regexp.MustCompile("^`([\\w./-]+)\\.((?:Test|Fuzz|Example)\\w*)`")
	promiseHost = regexp.MustCompile(`^host: \[[^\]]+\]\(([^)#\s]+)#([^)\s]+)\)`)
	separator   = regexp.MustCompile(`^\|(\s*:?-+:?\s*\|)+$`)
)

// parsePromises reads every table row of the document. Rows that cannot be
// read are faults, so that a slip of the pen does not lose a promise.
func parsePromises(text string) (promises []promise, faults []string) {
	lines := strings.Split(text, "\n")
	fenced := false
	for i, line := range lines {
		line = strings.TrimSpace(line)
		number := i + 1
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if fenced || !strings.HasPrefix(line, "|") || separator.MatchString(line) {
			continue
		}
		cells := splitRow(line)
		if i+1 < len(lines) && separator.MatchString(strings.TrimSpace(lines[i+1])) {
			if !slices.Equal(cells, []string{"id", "promise", "kept by"}) {
				faults = append(faults, fmt.Sprintf("line %d: a table with columns %q; every table here is id, promise, kept by", number, cells))
			}
			continue
		}
		if len(cells) != 3 {
			faults = append(faults, fmt.Sprintf("line %d: %d cells, want 3", number, len(cells)))
			continue
		}
		p := promise{line: number, id: cells[0]}
		if !promiseID.MatchString(p.id) {
			faults = append(faults, fmt.Sprintf("line %d: %q is no id", number, p.id))
		}
		if cells[1] == "" {
			faults = append(faults, fmt.Sprintf("line %d: %s promises nothing", number, p.id))
		}
		if err := p.readKept(cells[2]); err != nil {
			faults = append(faults, fmt.Sprintf("line %d: %s: %v", number, p.id, err))
		}
		promises = append(promises, p)
	}
	if fenced {
		faults = append(faults, "a code block is not closed; rows after it are not read")
	}
	return promises, faults
}

// splitRow splits a table row at the bars that are not escaped, as Markdown does.
func splitRow(line string) []string {
	const bar = "\x00"
	line = strings.ReplaceAll(line, `\|`, bar)
	line = strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|")
	cells := strings.Split(line, "|")
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(strings.TrimSpace(c), bar, "|")
	}
	return cells
}

// readKept reads the third cell.
func (p *promise) readKept(cell string) error {
	if words, ok := strings.CutPrefix(cell, "open:"); ok {
		return p.readOpen(strings.TrimSpace(words))
	}
	if reason, ok := strings.CutPrefix(cell, "not applicable:"); ok {
		if p.absent = strings.TrimSpace(reason); p.absent == "" {
			return fmt.Errorf("not applicable without a reason")
		}
		return nil
	}
	for rest := cell; ; {
		if m := promiseTest.FindStringSubmatch(rest); m != nil {
			dir := m[1]
			if dir == "consign" {
				dir = "."
			}
			p.tests = append(p.tests, testName{dir, m[2]})
			rest = rest[len(m[0]):]
		} else if m := promiseHost.FindStringSubmatch(rest); m != nil {
			p.hosts = append(p.hosts, link{m[1], m[2]})
			rest = rest[len(m[0]):]
		} else {
			return fmt.Errorf("cannot read %q; want `dir.TestName`, host: [text](file#heading), open: part, or not applicable: reason", rest)
		}
		if rest = strings.TrimSpace(rest); rest == "" {
			return nil
		}
		if !strings.HasPrefix(rest, ",") {
			return fmt.Errorf("a comma is missing before %q", rest)
		}
		rest = strings.TrimSpace(rest[1:])
	}
}

func (p *promise) readOpen(words string) error {
	p.open = words
	named := strings.Split(words, ", ")
	if len(named) > 1 && named[0] == "host duty" {
		named = named[1:]
	}
	for _, n := range named {
		if !slices.Contains(parts, n) {
			return fmt.Errorf("open: %q is none of the parts %s", n, strings.Join(parts, ", "))
		}
	}
	return nil
}

// evidence is what promises are checked against.
type evidence struct {
	tests    map[testName]bool
	headings func(file string) (anchors []string, err error) // file relative to the repository
	origins  map[string]int                                  // "S1" -> how many statements it has
}

// promiseFaults reports statements that have no row or two, tests that do not
// exist and links that lead nowhere.
func promiseFaults(promises []promise, e evidence) []string {
	var faults []string
	seen := map[string]int{}
	for _, p := range promises {
		at := fmt.Sprintf("line %d: %s", p.line, p.id)
		if first := seen[p.id]; first != 0 {
			faults = append(faults, fmt.Sprintf("%s is already on line %d", at, first))
		} else {
			seen[p.id] = p.line
		}
		for _, name := range p.tests {
			if !e.tests[name] {
				faults = append(faults, fmt.Sprintf("%s names %s in %s, which is not a test there", at, name.name, name.dir))
			}
		}
		for _, l := range p.hosts {
			file := path.Join("docs", l.file)
			anchors, err := e.headings(file)
			if err != nil {
				faults = append(faults, fmt.Sprintf("%s links to %s: %v", at, file, err))
			} else if !slices.Contains(anchors, l.anchor) {
				faults = append(faults, fmt.Sprintf("%s links to #%s, which is no heading of %s", at, l.anchor, file))
			}
		}
		var origin string
		var n int
		if _, err := fmt.Sscanf(strings.Replace(p.id, "-", " ", 1), "%s %d", &origin, &n); err == nil && (n < 1 || n > e.origins[origin]) {
			faults = append(faults, fmt.Sprintf("%s does not exist: %s has %d statements", at, origin, e.origins[origin]))
		}
	}
	for _, origin := range []string{"S1", "S2"} {
		for n := 1; n <= e.origins[origin]; n++ {
			if id := fmt.Sprintf("%s-%03d", origin, n); seen[id] == 0 {
				faults = append(faults, id+" has no row")
			}
		}
	}
	return faults
}

var (
	headingLine = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	linkText    = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}\p{M}_ -]`)
)

// anchors lists the anchors of a document's headings, made as GitHub makes
// them: lower case, spaces to hyphens, other punctuation dropped, repeated ones
// numbered.
func anchors(text string) []string {
	var out []string
	times := map[string]int{}
	fenced := false
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		m := headingLine.FindStringSubmatch(line)
		if fenced || m == nil {
			continue
		}
		a := notInAnchor.ReplaceAllString(strings.ToLower(linkText.ReplaceAllString(m[1], "$1")), "")
		a = strings.ReplaceAll(a, " ", "-")
		n := times[a]
		times[a]++
		if n > 0 {
			a = fmt.Sprintf("%s-%d", a, n)
		}
		out = append(out, a)
	}
	return out
}
