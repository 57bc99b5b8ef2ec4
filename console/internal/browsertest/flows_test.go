package browsertest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/console"
	"github.com/consign-go/consign/internal/scene"
)

func optionsOf(title string) console.Options {
	return console.Options{Title: title, Proofs: receiver{}}
}

// TestQueueIsWorkedWithKeys: evidence first, one at a time, and keys only while they
// are wanted.
func TestQueueIsWorkedWithKeys(t *testing.T) {
	t.Parallel()
	d := open(t, console.Options{})
	first, second := d.Unknown(d.Message("mail", scene.Once)), d.Unknown(d.Message("chat", scene.Once))
	otto := d.person("otto")
	otto.open("/review")
	otto.see("mail", "outcome unknown", "connection refused", first.String())
	otto.until("the script has run", `!document.querySelector(".keys").hidden`)
	key := func(k string) {
		t.Helper()
		for _, typ := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} { // as the keyboard does it: a text comes with the key
			call(otto, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: typ, Key: k, Text: k})
		}
	}
	key("n")
	otto.until("the next", `document.body.innerText.includes("`+second.String()+`") && !document.querySelector(".keys").hidden`)
	key("f")
	otto.until("the first", `document.body.innerText.includes("`+first.String()+`") && !document.querySelector(".keys").hidden`)
	key("2")
	key("e")
	otto.do(chromedp.KeyEvent("their log has no 1 such key")) // letters and digits are text in here
	if got := value[string](otto, `document.querySelector("[name=outcome]:checked").value + ": " + document.querySelector("#evidence").value`); got != "not-delivered: their log has no 1 such key" {
		t.Errorf("the form says %q", got)
	}
	if _, err := chromedp.RunResponse(otto.tab, chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(chromedp.ModifierCtrl))); err != nil {
		t.Fatal(err)
	}
	otto.see("Your finding is recorded", second.String())
	otto.do(chromedp.Click(chromedp.CSS("#keys-on")))
	key("1")
	if value[bool](otto, `document.querySelector("[name=outcome]:checked") !== null`) {
		t.Error("keys work though they are turned off")
	}
	if got := d.audited(); !slices.Equal(got, []string{"otto resolve"}) {
		t.Errorf("audited %v", got)
	}
	otto.calm()
}

// TestTwoPeopleAtOnce: one wins, the other is told and loses nothing of what they
// wrote.
func TestTwoPeopleAtOnce(t *testing.T) {
	t.Parallel()
	d := open(t, console.Options{})
	ref := d.Unknown(d.Message("mail", scene.Once))
	both := []*person{d.person("otto"), d.person("olga")}
	for i, p := range both {
		p.open("/intents/" + ref.String())
		p.do(chromedp.Click(chromedp.CSS(`[name=outcome][value=not-delivered]`)))
		p.write("#evidence", fmt.Sprintf("evidence of %d", i))
		p.write("#why-resolve", "looked")
	}
	for _, p := range both {
		p.click(`form[action$="/resolve"] button`)
	}
	both[0].see("Your finding is recorded", "found not delivered by otto")
	both[1].see("Somebody else was first", "found not delivered by otto")
	if got := value[string](both[1], `document.querySelector("#evidence").value`); got != "evidence of 1" {
		t.Errorf("what was written is %q", got)
	}
	if got := d.audited(); !slices.Equal(got, []string{"otto resolve"}) {
		t.Errorf("audited %v", got)
	}
	both[0].calm()
	both[1].calm()
}

// signature is all that its receiver has signed.
const signature = "v1,qMpxQ9RuOpuAXS9Ag9VsBUulhXf/w4rCW4W+Yb1Q0Zg="

type receiver struct{}

func (receiver) CheckProof(_ context.Context, _ string, p consign.Proof) (string, error) {
	if p.Text != signature {
		return "", errors.New("nothing in it is signed by one of the receiver's keys")
	}
	return signature, nil
}

// TestProofIsHandedInByTwoPeopleAtOnce: one wins, the other is told who and keeps what
// they wrote; before that, one that does not hold changes nothing.
func TestProofIsHandedInByTwoPeopleAtOnce(t *testing.T) {
	t.Parallel()
	d := open(t, console.Options{Proofs: receiver{}})
	ref := d.Unknown(d.Message("mail", scene.Once))
	both := []*person{d.person("otto"), d.person("olga")}
	both[0].open("/intents/" + ref.String())
	both[0].write("#proof", "v1,AAAA")
	both[0].write("#why-prove", "asked them")
	both[0].click(`form[action$="/prove"] button`)
	both[0].see("the proof is not accepted", "Nothing was written")
	if got := value[string](both[0], `document.querySelector("#proof").value + " " + document.querySelector("#why-prove").value`); got != "v1,AAAA asked them" {
		t.Errorf("what was written is %q", got)
	}
	if got := d.audited(); len(got) != 0 {
		t.Errorf("audited %v", got)
	}
	for _, p := range both {
		p.open("/intents/" + ref.String())
		p.write("#proof", signature)
		p.write("#why-prove", "asked them")
	}
	for _, p := range both {
		p.click(`form[action$="/prove"] button`)
	}
	both[0].see("The proof holds and is recorded as the finding", "found delivered by otto", "finding from proof")
	both[1].see("Somebody else was first", "found delivered by otto")
	if got := value[string](both[1], `document.querySelector("#proof").value`); got != signature {
		t.Errorf("what was written is %q", got)
	}
	if got := d.audited(); !slices.Equal(got, []string{"otto resolve"}) {
		t.Errorf("audited %v", got)
	}
	both[0].calm()
	both[1].calm()
}

// TestSessionThatHasEnded: a look leads to the sign-in page and back; an action does
// nothing and says so.
func TestSessionThatHasEnded(t *testing.T) {
	t.Parallel()
	d := open(t, console.Options{Idle: 2 * time.Second})
	ref := d.Unknown(d.Message("mail", scene.Once))
	otto := d.person("otto")
	otto.open("/intents/" + ref.String())
	otto.do(chromedp.Click(chromedp.CSS(`[name=outcome][value=delivered]`)))
	otto.write("#evidence", "they have it")
	otto.write("#why-resolve", "looked")
	otto.until("the page notices", `document.getElementById("live").innerText.includes("You are signed out")`)
	otto.click(`form[action$="/resolve"] button`)
	otto.see("Your session has ended, so nothing was done")
	if got := d.audited(); len(got) != 0 {
		t.Errorf("audited %v", got)
	}
	otto.signIn("otto", "/intents/"+ref.String())
	otto.see("Intent " + ref.String())
	otto.calm()
}

// TestOtherSitesCannotAct with the cookies of somebody who is signed in.
func TestOtherSitesCannotAct(t *testing.T) {
	t.Parallel()
	d := open(t, console.Options{})
	ref := d.Unknown(d.Message("mail", scene.Once))
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<form method="post" action="%s/intents/%s/resolve"><input name="outcome" value="delivered"><input name="evidence" value="x">
			<input name="why" value="x"><input name="token" value="x"><button>Win a prize</button></form><iframe src="%s/"></iframe>`, d.base, ref, d.base)
	}))
	defer other.Close()
	otto := d.person("otto")
	otto.do(chromedp.Navigate(other.URL))
	if got := value[string](otto, `(() => { try { return document.querySelector("iframe").contentDocument ? "empty" : "closed" } catch (e) { return "closed" } })()`); got != "closed" {
		t.Errorf("the frame is %s", got)
	}
	otto.click("button")
	otto.see("not one of yours")
	if got := d.audited(); len(got) != 0 {
		t.Errorf("audited %v", got)
	}
}

// TestStoredTextDoesNothing in a browser, whatever it says, on every page.
func TestStoredTextDoesNothing(t *testing.T) {
	t.Parallel()
	d := open(t, console.Options{})
	const attack = `"><script>window.hacked=1;alert(1)</script><img src=x onerror="window.hacked=2;alert(2)"><svg onload=alert(3)>` +
		`</textarea></title></pre><a href="javascript:alert(4)">x</a>{{.}}` + "\u202e"
	d.Text, d.Error, d.Subject, d.Program = attack[:100], attack, attack[:100], attack[:100]
	refs := d.furnish(`"><script>alert(5)</script>`, `'><img src=x onerror=alert(6)>`)
	id := d.approval(proposal(attack))
	anna := d.person("anna")
	paths := []string{"/", "/intents", "/review", "/review/all", "/kinds", "/audit", "/approvals", "/approvals/" + id.String(),
		"/intents?kind=" + `%22%3E%3Cscript%3Ealert(1)%3C/script%3E`, "/sign-in?next=javascript:alert(1)"}
	for _, ref := range refs {
		paths = append(paths, "/intents/"+ref.String())
	}
	for _, path := range paths {
		anna.open(path)
		if value[bool](anna, `window.hacked !== undefined || document.querySelector("main img, main script, a[href^=javascript]") !== null`) {
			t.Errorf("%s does what a text says", path)
		}
	}
	anna.open("/intents/" + refs[0].String())
	anna.write("#why-content", "to see")
	anna.click(`form[action*="/content"] button`)
	anna.see("window.hacked=1")
	if value[bool](anna, `window.hacked !== undefined`) {
		t.Error("the content does what it says")
	}
	anna.calm()
}

// TestLongAndRightToLeftTexts: an error of 10,000 characters is folded and fits on a
// phone; Arabic and Hebrew run their own way, without turning what is around them.
func TestLongAndRightToLeftTexts(t *testing.T) {
	t.Parallel()
	d := open(t, console.Options{})
	d.Text, d.Error, d.Program = "مرحبا بالعالم", "خطأ في الاتصال: timeout 504", "עובד"
	rtl := d.Unknown(d.Message("mail", scene.Once))
	d.Error = "short"
	long := d.Unknown(d.Message("mail", scene.Once))
	d.exec("UPDATE consign_delivery SET last_error = ? WHERE ref = ?", strings.Repeat("x", 9_995)+"<end>", long.ID[:])
	anna := d.person("anna")
	anna.look("light", 360, 800)
	anna.open("/intents/" + rtl.String())
	if got := value[string](anna, `getComputedStyle([...document.querySelectorAll(".stored")].find(e => e.innerText.includes("504"))).direction`); got != "rtl" {
		t.Errorf("it runs %s", got)
	}
	if got := value[string](anna, `getComputedStyle(document.querySelector("main")).direction`); got != "ltr" {
		t.Errorf("the page runs %s", got)
	}
	anna.fits("right-to-left", true)
	anna.open("/intents/" + long.String())
	anna.see("all 10000 characters")
	anna.unseen("<end>")
	anna.fits("long", true)
	anna.do(chromedp.Click(chromedp.CSS("details.long summary")))
	anna.see("<end>")
	anna.fits("long-open", true)
	anna.calm()
}

// TestWorksWithoutScript: sign in, look, decide, pause, send again in bulk.
func TestWorksWithoutScript(t *testing.T) {
	t.Parallel()
	d := open(t, console.Options{})
	ref := d.Unknown(d.Message("mail", scene.Once))
	d.Rejected(d.Message("chat", scene.Once))
	d.ServeMessage("chat", scene.Once)
	anna := d.somebody()
	call(anna, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	anna.signIn("anna", "/")
	anna.see("Waiting for a person: 1")
	anna.click(`a[href$="/review"]`)
	anna.see(ref.String())
	anna.unseen("Use single keys")
	anna.do(chromedp.Click(chromedp.CSS(`[name=outcome][value=delivered]`)))
	anna.write("#evidence", "they have it")
	anna.click(`form[action$="/resolve"] button[value=open]`)
	anna.see("Your finding is recorded", "found delivered by anna")
	anna.open("/kinds")
	anna.do(chromedp.Click(chromedp.CSS("details.act summary")))
	anna.write("details.act [name=why]", "far side is down")
	anna.click("details.act button")
	anna.see("It is paused", "far side is down")
	anna.open("/intents?status=failed&kind=chat")
	anna.do(chromedp.Click(chromedp.CSS("[name=ref][type=checkbox]")))
	anna.click(`button[form=bulk]`)
	anna.see("Nothing was done yet", "Possible: 1")
	anna.write("#why", "far side is back")
	anna.click("main form button.primary")
	anna.see("What became of each", "new intent")
	if got := d.audited(); !slices.Equal(got, []string{"anna resolve", "anna pause", "anna redeliver"}) {
		t.Errorf("audited %v", got)
	}
	anna.calm()
}

// TestNumbersStayFresh while a page is open.
func TestNumbersStayFresh(t *testing.T) {
	t.Parallel()
	d := open(t, console.Options{})
	d.Message("mail", scene.Once)
	vera := d.person("vera")
	vera.see("pending 1")
	d.Message("mail", scene.Once)
	d.Unknown(d.Work("triaged", scene.Once))
	vera.until("the count rises", `document.querySelector('[data-text="n:message:mail:pending"]').innerText === "2"`)
	vera.until("the badge rises", `document.querySelector('.count[data-text="review"]').innerText === "1"`)
	vera.calm()
}

// TestRolesSeeWhatTheyMay: a viewer no forms, an operator no content, an admin all.
func TestRolesSeeWhatTheyMay(t *testing.T) {
	t.Parallel()
	d := open(t, console.Options{})
	d.Text = "the secret text"
	ref := d.Late(d.Unknown(d.Message("mail", scene.Once)))
	id := d.approval(proposal("refund it"))
	for name, want := range map[string][]string{
		"vera": {"sign-out"},
		"otto": {"accept", "resolve", "sign-out"},
		"anna": {"accept", "content", "resolve", "sign-out"},
	} {
		p := d.person(name)
		p.open("/intents/" + ref.String())
		forms := value[[]string](p, `[...document.querySelectorAll("form[method=post]")].map(f => f.getAttribute("action").split("#")[0].split("/").pop()).sort()`)
		if !slices.Equal(forms, want) {
			t.Errorf("%s has the forms %v, want %v", name, forms, want)
		}
		p.unseen("the secret text")
		p.calm()
	}
	anna := d.person("anna")
	anna.open("/intents/" + ref.String())
	anna.write("#why-content", "the customer asked")
	anna.click(`form[action*="/content"] button`)
	anna.see("the secret text")
	anna.open("/approvals/" + id.String())
	anna.unseen("refund it\"")
	anna.click(`form[action*="/input"] button`)
	anna.see("refund it")
	anna.click(`button[formaction$="/confirm"]`)
	anna.see("The approval is confirmed")
	if got := d.audited(); !slices.Contains(got, "anna read") {
		t.Errorf("audited %v", got)
	}
	anna.calm()
}

// TestLinkSignsIn a browser, once.
func TestLinkSignsIn(t *testing.T) {
	t.Parallel()
	d := open(t, console.Options{})
	link, err := d.console.SignInLink(d.base, console.Identity{Name: "local", Role: console.Admin})
	if err != nil {
		t.Fatal(err)
	}
	one, other := d.somebody(), d.somebody()
	one.do(chromedp.Navigate(link))
	other.do(chromedp.Navigate(link))
	one.click("form.narrow button")
	one.see("Overview", "local, admin")
	other.click("form.narrow button")
	other.see("used already")
	one.calm()
}
