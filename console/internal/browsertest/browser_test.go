package browsertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/consign-go/consign/console"
)

// browser is the one that all tests share; each person has a profile of their own.
var browser context.Context

func TestMain(m *testing.M) {
	os.Exit(func() int {
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU,
			chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(time.Minute))
		allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
		defer end()
		var close context.CancelFunc
		browser, close = chromedp.NewContext(allocator)
		defer close()
		if err := chromedp.Do(browser); err != nil {
			fmt.Fprintln(os.Stderr, "these tests need Chromium (Debian: apt-get install chromium):", err)
			return 1
		}
		return m.Run()
	}())
}

// person is somebody at a browser.
type person struct {
	*desk
	tab context.Context

	mu      sync.Mutex
	faults  []string // what the browser complained about
	dialogs int
}

// somebody opens a browser.
func (d *desk) somebody() *person {
	d.Helper()
	tab, end := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	d.Cleanup(end)
	p := &person{desk: d}
	if err := chromedp.Do(tab); err != nil {
		d.Fatal(err)
	}
	limited, cancel := context.WithTimeout(tab, 2*time.Minute)
	d.Cleanup(cancel)
	p.tab = limited
	if err := chromedp.Listen(tab, p.hear); err != nil {
		d.Fatal(err)
	}
	p.do(chromedp.EmulateViewport(1200, 900))
	call(p, log.Enable, cdp.Empty{})
	return p
}

func (p *person) hear(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Source != log.EntrySourceNetwork { // a refusal of the server is no fault of the page
			p.faults = append(p.faults, e.Entry.Text)
		}
	case *runtime.EventExceptionThrown:
		p.faults = append(p.faults, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		p.faults = append(p.faults, "console."+string(e.Type))
	case *page.EventJavascriptDialogOpening:
		p.dialogs++
		go chromedp.Call(p.tab, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{})
	}
}

// call sends a command of the protocol.
func call[P, R any](p *person, command cdp.Command[P, R], params P) {
	p.Helper()
	if _, err := chromedp.Call(p.tab, command, params); err != nil {
		p.Fatal(err)
	}
}

func (p *person) do(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	if err := chromedp.Do(p.tab, actions...); err != nil {
		p.Fatalf("%v\nat %s", err, p.text("main"))
	}
}

// person signs somebody in by a link, which is quicker than a password.
func (d *desk) person(name string) *person {
	d.Helper()
	p := d.somebody()
	d.linking.Lock()
	defer d.linking.Unlock()
	link, err := d.console.SignInLink(d.base, console.Identity{Name: name, Role: roles[name]})
	if err != nil {
		d.Fatal(err)
	}
	p.do(chromedp.Navigate(link))
	p.click("form.narrow button")
	p.see("Overview")
	return p
}

func (p *person) signIn(name, path string) {
	p.Helper()
	p.do(
		chromedp.Navigate(p.base+path), chromedp.SendKeys(chromedp.CSS("#name"), name),
		chromedp.SendKeys(chromedp.CSS("#password"), password),
	)
	p.click("form.narrow button")
}

func (p *person) open(path string) {
	p.Helper()
	p.do(chromedp.Navigate(p.base + path))
}

// click clicks and waits for the page that it leads to.
func (p *person) click(selector string) {
	p.Helper()
	if _, err := chromedp.RunResponse(p.tab, chromedp.Click(chromedp.CSS(selector))); err != nil {
		p.Fatalf("click %s: %v\nat %s", selector, err, p.text("main"))
	}
}

func (p *person) write(selector, text string) {
	p.Helper()
	p.do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// text is what a part of the page shows.
func (p *person) text(selector string) string {
	text, err := chromedp.Run(p.tab, chromedp.Evaluate[string](fmt.Sprintf("(document.querySelector(%q) || document.body).innerText", selector)))
	if err != nil {
		return err.Error()
	}
	return text
}

// value is what an expression is in the page.
func value[T any](p *person, expression string) T {
	p.Helper()
	v, err := chromedp.Run(p.tab, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.Fatalf("%s: %v", expression[:min(len(expression), 200)], err)
	}
	return v
}

// see wants texts on the page.
func (p *person) see(texts ...string) {
	p.Helper()
	shown := p.text("body")
	for _, text := range texts {
		if !strings.Contains(shown, text) {
			p.Fatalf("%q is not on the page:\n%s", text, shown)
		}
	}
}

// unseen wants texts not to be on the page.
func (p *person) unseen(texts ...string) {
	p.Helper()
	shown := p.text("body")
	for _, text := range texts {
		if strings.Contains(shown, text) {
			p.Errorf("%q is on the page:\n%s", text, shown)
		}
	}
}

// until waits for something to come true in the page.
func (p *person) until(what, expression string) {
	p.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) { // asked again, not hoped for
		holds, err := chromedp.Run(p.tab, chromedp.Evaluate[bool](expression))
		if err == nil && holds {
			return
		}
		if time.Now().After(end) {
			p.Fatalf("in vain: %s (%v)\n%s", what, err, p.text("body"))
		}
	}
}

// calm wants that the browser had nothing to complain about: no script failed, no
// policy was violated, no dialog opened.
func (p *person) calm() {
	p.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.faults) > 0 || p.dialogs > 0 {
		p.Errorf("the browser complains: %q, %d dialogs", p.faults, p.dialogs)
	}
}

// look sets theme and width.
func (p *person) look(theme string, width, height int64) {
	p.Helper()
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
	})
	p.do(chromedp.EmulateViewport(width, height))
}

// shoot keeps a picture of the whole page where CONSIGN_SCREENSHOTS names a folder.
func (p *person) shoot(name string) {
	p.Helper()
	dir := os.Getenv("CONSIGN_SCREENSHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(p.tab, chromedp.FullScreenshot(100))
	if err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
		p.Fatal(err)
	}
}
