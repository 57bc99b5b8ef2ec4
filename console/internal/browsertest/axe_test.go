package browsertest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
)

// The tests judge by this file of this version.
const (
	axeVersion = "4.14.1"
	axeSum     = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
)

// axe is axe-core, fetched once into a temporary folder: it is under another licence
// than the library, so it is no part of the repository.
var axe = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "axe")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	for _, command := range []*exec.Cmd{
		exec.Command("npm", "pack", "--silent", "axe-core@"+axeVersion),
		exec.Command("tar", "xzf", "axe-core-"+axeVersion+".tgz", "package/axe.min.js"),
	} {
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", command, err, out)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "package", "axe.min.js"))
	if err != nil {
		return "", err
	}
	if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != axeSum {
		return "", fmt.Errorf("axe-core %s has the digest %x", axeVersion, sum)
	}
	return string(text), nil
})

// violation is what axe finds.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML, FailureSummary string }
}

// violations are what axe finds on the page that is open.
func (p *person) violations() []violation {
	p.Helper()
	text, err := axe()
	if err != nil {
		p.Fatalf("axe-core cannot be fetched (it needs npm and tar): %v", err)
	}
	value[bool](p, text+"\n;true")
	found := value[[]violation](p, `axe.run(document, {resultTypes: ["violations"],
		runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(r => {
			window.axePasses = r.passes.length;
			return r.violations.map(v => ({ID: v.id, Impact: v.impact, Help: v.help, Nodes: v.nodes.map(n => ({HTML: n.html, FailureSummary: n.failureSummary}))}));
		})`)
	if passed := value[int](p, "window.axePasses"); passed < 10 {
		p.Errorf("axe looked at %d rules only", passed)
	}
	return found
}

// accessible wants that axe finds nothing.
func (p *person) accessible(name string) {
	p.Helper()
	for _, v := range p.violations() {
		var where strings.Builder
		for _, n := range v.Nodes[:min(len(v.Nodes), 3)] {
			fmt.Fprintf(&where, "\n\t%s\n\t%s", n.HTML, n.FailureSummary)
		}
		p.Errorf("%s: %s (%s): %s%s", name, v.ID, v.Impact, v.Help, where.String())
	}
}

// TestEveryPageIsAccessibleInBothThemes: axe-core finds nothing, on a wide screen and
// on a phone, and no page is wider than its window.
func TestEveryPageIsAccessibleInBothThemes(t *testing.T) {
	t.Parallel()
	d := open(t, optionsOf("staging"))
	refs := d.furnish("mail", "tickets.triaged")
	id := d.approval(proposal("the customer complained twice"))
	pages := []struct {
		name, path string
		judge      int // 0: it is much like another, so only its width; 1: by axe where it is wide; 2: on a phone too
	}{
		{"overview", "/", 1}, {"intents", "/intents", 2}, {"intents-filtered", "/intents?status=failed&kind=mail", 0}, {"intents-none", "/intents?kind=nothing", 0},
		{"intent-late", "/intents/" + refs[0].String(), 1}, {"intent-unknown", "/intents/" + refs[1].String(), 0}, {"intent-chain", "/intents/" + refs[4].String(), 1},
		{"intent-stranded", "/intents/" + refs[3].String(), 0}, {"review", "/review", 2}, {"queue", "/review/all", 1}, {"kinds", "/kinds", 1}, {"audit", "/audit", 1},
		{"approvals", "/approvals", 1}, {"approval", "/approvals/" + id.String(), 1}, {"missing", "/nowhere", 1}, {"wrong", "/audit?ref=x", 1},
	}
	for _, theme := range []string{"light", "dark"} {
		t.Run(theme, func(t *testing.T) {
			t.Parallel()
			d := *d
			d.T = t
			anna, stranger := d.person("anna"), d.somebody()
			for _, width := range []int64{1200, 360} {
				anna.look(theme, width, 800)
				stranger.look(theme, width, 800)
				for _, page := range pages {
					anna.open(page.path)
					anna.fits(fmt.Sprintf("%s-%s-%d", page.name, theme, width), page.judge == 2 || page.judge == 1 && width == 1200)
				}
				stranger.open("/sign-in")
				stranger.fits(fmt.Sprintf("sign-in-%s-%d", theme, width), width == 1200)
			}
			anna.open("/intents?status=failed")
			anna.do(chromedp.Click(chromedp.CSS("[name=ref][type=checkbox]")))
			anna.click("button[form=bulk]")
			anna.fits("bulk-"+theme, true)
			anna.calm()
			stranger.calm()
		})
	}
}

// TestAxeFindsWhatIsWrong: a picture without a text, and a text that is too pale.
func TestAxeFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	p := open(t, optionsOf("staging")).person("anna")
	value[bool](p, `document.querySelector("main").append(document.createElement("img")); document.querySelector("h1").style.color = "#ccc"; true`)
	var found []string
	for _, v := range p.violations() {
		found = append(found, v.ID)
	}
	if !slices.Contains(found, "image-alt") || !slices.Contains(found, "color-contrast") {
		t.Errorf("found %v", found)
	}
}

// fits wants the page as wide as its window, and accessible.
func (p *person) fits(name string, judged bool) {
	p.Helper()
	if wide := value[int](p, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
		p.Errorf("%s is %d pixels wider than its window", name, wide)
	}
	p.shoot(name)
	if judged {
		p.accessible(name)
	}
}
