package console

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/approval"
	"github.com/consign-go/consign/internal/scene"
	"github.com/consign-go/consign/operator"
)

// ask sends one request past the network.
func (d *desk) ask(peer, host, path string, change func(r *http.Request)) *httptest.ResponseRecorder {
	d.Helper()
	r := httptest.NewRequestWithContext(d.Context(), "GET", path, nil)
	r.RemoteAddr, r.Host = peer, host
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	d.console.ServeHTTP(w, r)
	return w
}

// TestOnlyThisMachineIsLetInUnlessTold: neither other machines nor pages whose name
// was pointed at this one.
func TestOnlyThisMachineIsLetInUnlessTold(t *testing.T) {
	private := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, c := range []struct {
		name       string
		o          Options
		peer, host string
		open       bool
	}{
		{"loopback", Options{}, "127.0.0.1:5", "127.0.0.1:8484", true},
		{"loopback by name", Options{}, "127.0.0.1:5", "localhost:8484", true},
		{"loopback of IPv6", Options{}, "[::1]:5", "[::1]:8484", true},
		{"loopback mapped", Options{}, "[::ffff:127.0.0.1]:5", "localhost", true},
		{"another machine", Options{}, "10.1.2.3:5", "localhost", false},
		{"a name pointed here", Options{}, "127.0.0.1:5", "evil.example.org", false},
		{"no address", Options{}, "@", "localhost", false},
		{"a network that is allowed", Options{Networks: private}, "10.1.2.3:5", "console.example.org", true},
		{"a network that is not", Options{Networks: private}, "192.0.2.1:5", "console.example.org", false},
		{"loopback is no network that was named", Options{Networks: private}, "127.0.0.1:5", "localhost", false},
		{"a host that is allowed", Options{Hosts: []string{"console.example.org"}}, "127.0.0.1:5", "Console.Example.org:443", true},
		{"a host that is not", Options{Hosts: []string{"console.example.org"}}, "127.0.0.1:5", "localhost", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Users = people()
			console, err := New(storeOf(t), &c.o)
			if err != nil {
				t.Fatal(err)
			}
			w := (&desk{T: t, console: console}).ask(c.peer, c.host, "/sign-in", nil)
			if got := w.Code == http.StatusOK; got != c.open || !got && w.Code != http.StatusForbidden {
				t.Errorf("answered %d", w.Code)
			}
		})
	}
	d := open(t, Options{})
	w := d.ask("@", "localhost", "/sign-in", func(r *http.Request) {
		*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.UnixAddr{Net: "unix"}))
	})
	if w.Code != http.StatusOK {
		t.Errorf("a Unix socket is answered %d", w.Code)
	}
}

// TestEveryAnswerHasTheHeaders: pages, refusals, assets and errors.
func TestEveryAnswerHasTheHeaders(t *testing.T) {
	d := open(t, Options{})
	for _, path := range []string{"/", "/sign-in", "/nowhere", "/assets/" + assetName("console.css"), "/live", "/a//b"} {
		for _, peer := range []string{"127.0.0.1:5", "192.0.2.1:5"} {
			h := d.ask(peer, "localhost", path, nil).Header()
			policy := h.Get("Content-Security-Policy")
			for _, part := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'"} {
				if !strings.Contains(policy, part) {
					t.Errorf("%s: %q has no %q", path, policy, part)
				}
			}
			if strings.Contains(policy, "unsafe") {
				t.Errorf("%s: %q", path, policy)
			}
			for name, want := range map[string]string{
				"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin",
				"Referrer-Policy": "same-origin",
			} {
				if h.Get(name) != want {
					t.Errorf("%s: %s is %q", path, name, h.Get(name))
				}
			}
		}
	}
	if h := d.ask("127.0.0.1:5", "localhost", "/", nil).Header(); h.Get("Cache-Control") != "no-store" {
		t.Error("a page may be kept")
	}
}

// TestNobodyIsSignedInByDefault: no page and no action without a session.
func TestNobodyIsSignedInByDefault(t *testing.T) {
	d := open(t, Options{})
	ref := d.Unknown(d.Message("mail", scene.Once))
	p := d.somebody()
	for _, path := range []string{"/", "/review", "/intents", "/intents/" + ref.String(), "/kinds", "/audit", "/approvals", "/review/all"} {
		a := p.get(path)
		if !strings.HasPrefix(a.path, "/sign-in?next=") || strings.Contains(a.body, "mail") {
			t.Errorf("%s leads to %s", path, a.path)
		}
	}
	for _, path := range []string{"/intents/" + ref.String() + "/resolve", "/kinds/pause", "/bulk/confirm"} {
		d.want(p.post(path, url.Values{"outcome": {"delivered"}, "evidence": {"x"}, "why": {"x"}}), 401, "nothing was done")
	}
	d.want(p.get("/live"), 401)
	if len(d.audited()) != 0 {
		t.Error("something was done")
	}
}

// TestLargeFormsAreRefusedAsThat: and not as somebody else's.
func TestLargeFormsAreRefusedAsThat(t *testing.T) {
	d := open(t, Options{})
	page, otto := "/intents/"+d.Unknown(d.Message("mail", scene.Once)).String(), d.person("otto")
	d.want(otto.act(page, page+"/prove", url.Values{"proof": {strings.Repeat("x", maxForm)}}), 413, "too large", "nothing was done")
	d.want(d.somebody().post(page+"/prove", url.Values{"proof": {strings.Repeat("x", maxForm)}}), 401)
}

// TestForeignFormsAreRefused: without the token, with another's, and from another
// site.
func TestForeignFormsAreRefused(t *testing.T) {
	d := open(t, Options{})
	ref := d.Unknown(d.Message("mail", scene.Once))
	path := "/intents/" + ref.String()
	otto, olga := d.person("otto"), d.person("olga")
	form := func(token string) url.Values {
		return url.Values{"token": {token}, "outcome": {"delivered"}, "evidence": {"x"}, "why": {"x"}}
	}
	own := tokenIn(otto.get(path).body)
	for name, send := range map[string]func() answer{
		"no token":      func() answer { return otto.post(path+"/resolve", form("")) },
		"another's":     func() answer { return otto.post(path+"/resolve", form(tokenIn(olga.get(path).body))) },
		"of a sign-in":  func() answer { return otto.post(path+"/resolve", form(tokenIn(d.somebody().get("/sign-in").body))) },
		"in the query":  func() answer { return otto.post(path+"/resolve?token="+own, form("")) },
		"another site":  func() answer { return otto.with("Sec-Fetch-Site", "cross-site").post(path+"/resolve", form(own)) },
		"another host":  func() answer { return otto.with("Origin", "https://evil.example.org").post(path+"/resolve", form(own)) },
		"null origin":   func() answer { return otto.with("Origin", "null").post(path+"/resolve", form(own)) },
		"same-site":     func() answer { return otto.with("Sec-Fetch-Site", "same-site").post(path+"/resolve", form(own)) },
		"sign-out form": func() answer { return otto.post("/sign-out", url.Values{}) },
	} {
		d.want(send(), 403)
		if len(d.audited()) != 0 {
			t.Fatalf("%s: something was done", name)
		}
	}
	d.want(otto.with("Sec-Fetch-Site", "same-origin").post(path+"/resolve", form(own)), 200, "Your finding is recorded")
	if a := otto.do("GET", path+"/resolve?outcome=delivered", nil); a.status != 404 && a.status != 405 {
		t.Errorf("an action by GET is answered %d", a.status)
	}
}

// with is the same person with a header more.
func (p *person) with(name, value string) *person {
	h := p.header.Clone()
	h.Set(name, value)
	return &person{p.desk, p.client, h}
}

// TestSessionsEnd: when they are idle, when they are old, when they are ended. A page
// that keeps itself fresh does not keep its session.
func TestSessionsEnd(t *testing.T) {
	d := open(t, Options{Idle: 30 * time.Minute, Absolute: 2 * time.Hour})
	otto := d.person("otto")
	for range 3 {
		d.clock.pass(29 * time.Minute)
		d.want(otto.get("/"), 200, "Overview")
	}
	d.clock.pass(29 * time.Minute)
	d.want(otto.get("/live"), 200)
	d.clock.pass(2 * time.Minute)
	if a := otto.get("/"); a.path != "/sign-in?next=%2F" {
		t.Errorf("an idle session leads to %s", a.path)
	}
	otto = d.person("otto")
	for range 4 {
		d.clock.pass(29 * time.Minute)
		otto.get("/")
	}
	d.clock.pass(5 * time.Minute)
	if a := otto.get("/review"); a.path != "/sign-in?next=%2Freview" {
		t.Errorf("an old session leads to %s", a.path)
	}
	otto = d.person("otto")
	stolen := otto.client.Jar.Cookies(mustParse(d.base + "/"))
	d.want(otto.act("/", "/sign-out", url.Values{}), 200, "Sign in")
	thief := d.somebody()
	thief.client.Jar.SetCookies(mustParse(d.base+"/"), stolen)
	if a := thief.get("/"); !strings.HasPrefix(a.path, "/sign-in") {
		t.Error("a session that was ended goes on")
	}
}

func mustParse(s string) *url.URL {
	u, err := url.Parse(s)
	if err != nil {
		panic(err)
	}
	return u
}

// TestSessionCookieIsGuarded: not for script, not for other sites, only below the
// console, and through TLS only where there is TLS. Each sign-in makes another.
func TestSessionCookieIsGuarded(t *testing.T) {
	for _, tls := range []bool{false, true} {
		d := open(t, Options{TLS: tls})
		w := d.ask("127.0.0.1:5", "localhost", "/sign-in", nil)
		tied := w.Result().Cookies()[0]
		form := url.Values{"token": {tokenIn(w.Body.String())}, "name": {"otto"}, "password": {password}, "next": {"//evil.example.org"}}
		r := httptest.NewRequest("POST", "/sign-in", strings.NewReader(form.Encode()))
		r.RemoteAddr, r.Host = "127.0.0.1:5", "localhost"
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.AddCookie(tied)
		r.AddCookie(&http.Cookie{Name: tied.Name[:len(tied.Name)-len(formCookie)] + sessionCookie, Value: "chosen by somebody else"})
		w = httptest.NewRecorder()
		d.console.ServeHTTP(w, r)
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/" {
			t.Fatalf("answered %d to %s", w.Code, w.Header().Get("Location"))
		}
		c := w.Result().Cookies()[0]
		if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Secure != tls || c.Path != "/" || c.MaxAge != 0 || c.Value == "chosen by somebody else" || len(c.Value) < 40 {
			t.Errorf("the cookie is %+v", c)
		}
		if strings.HasPrefix(c.Name, "__Secure-") != tls {
			t.Errorf("the cookie is named %s", c.Name)
		}
	}
}

// TestSignInIsLimited by name and by address, and says no more than that something is
// wrong.
func TestSignInIsLimited(t *testing.T) {
	d := open(t, Options{})
	p := d.somebody()
	wrong := p.signIn("otto", "a wrong password")
	unknown := p.signIn("nobody", "a wrong password")
	d.want(wrong, 401, "Name or password is wrong")
	if got, want := token.ReplaceAllString(inner(unknown.body), ""), token.ReplaceAllString(inner(wrong.body), ""); got != want {
		t.Errorf("a name that does not exist is told:\n%s\n%s", got, want)
	}
	for range d.console.names.most - 1 {
		d.console.names.take("name\x00otto")
	}
	a := p.signIn("otto", password)
	d.want(a, 429, "Too many attempts")
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	d.want(p.signIn("olga", password), 200)
	d.clock.pass(6 * time.Minute)
	d.want(p.act("/", "/sign-out", url.Values{}), 200)
	d.want(p.signIn("otto", password), 200, "Overview")
	for range d.console.peers.most {
		d.console.peers.take("peer\x00127.0.0.1")
	}
	d.want(d.somebody().signIn("vera", password), 429)
	d.want(d.somebody().post("/sign-in", url.Values{"name": {"otto"}, "password": {password}}), 403)
}

// TestLimiterStaysSmall whoever tries what.
func TestLimiterStaysSmall(t *testing.T) {
	c := clock{time: time.Now()}
	l := limiter{most: 1, window: time.Minute, now: c.now, counts: map[string]*failures{}}
	for i := range mostKeys + 50 {
		l.take(strings.Repeat("x", i%7) + time.Duration(i).String())
	}
	if len(l.counts) > mostKeys {
		t.Errorf("%d are remembered", len(l.counts))
	}
}

// TestLinkSignsInOnce: not when it is merely looked at, not twice, not late.
func TestLinkSignsInOnce(t *testing.T) {
	d := open(t, Options{})
	make := func() string {
		link, err := d.console.SignInLink(d.base, Identity{Name: "local", Role: Admin})
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimPrefix(link, d.base)
	}
	follow := func(p *person, link string) answer {
		page := p.get(link)
		_, token, _ := strings.Cut(link, "token=")
		return p.post("/link", url.Values{"token": {tokenIn(page.body)}, "link": {token}})
	}
	link := make()
	d.want(d.somebody().get(link), 200, "This link signs you in once")
	p := d.somebody()
	d.want(follow(p, link), 200, "Overview", "local")
	d.want(follow(d.somebody(), link), 401, "used already")
	old, link := make(), make()
	d.want(follow(d.somebody(), old), 401, "replaced by a newer one")
	d.clock.pass(linkTime)
	d.want(follow(d.somebody(), link), 401, "too old")
	d.want(follow(d.somebody(), "/link?token=guess"), 401)
	for _, base := range []string{"", "127.0.0.1:8484", "javascript:alert(1)", "http://x?y"} {
		if _, err := d.console.SignInLink(base, Identity{Name: "local", Role: Admin}); err == nil {
			t.Errorf("%q is a base", base)
		}
	}
}

// TestProxyIsTrustedOnlyFromItsNetwork and only where its headers are unambiguous.
func TestProxyIsTrustedOnlyFromItsNetwork(t *testing.T) {
	d := open(t, Options{
		Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Proxy: &Proxy{
			Networks: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}, Name: "X-Forwarded-User", Role: "X-Role",
			Roles: map[string]Role{"boss": Admin},
		},
	})
	for _, c := range []struct {
		name, peer string
		header     http.Header
		want       int
		text       string
	}{
		{"from the proxy", "10.9.0.1:5", http.Header{"X-Forwarded-User": {"otto"}, "X-Role": {"operator"}}, 200, "otto</bdi>, operator"},
		{"its own role", "10.9.0.1:5", http.Header{"X-Forwarded-User": {"boss"}, "X-Role": {"viewer"}}, 200, "boss</bdi>, admin"},
		{"from elsewhere", "10.8.0.1:5", http.Header{"X-Forwarded-User": {"otto"}, "X-Role": {"admin"}}, 303, ""},
		{"no name", "10.9.0.1:5", http.Header{"X-Role": {"admin"}}, 303, ""},
		{"two names", "10.9.0.1:5", http.Header{"X-Forwarded-User": {"otto", "boss"}, "X-Role": {"admin"}}, 303, ""},
		{"two roles", "10.9.0.1:5", http.Header{"X-Forwarded-User": {"otto"}, "X-Role": {"viewer", "admin"}}, 303, ""},
		{"no role", "10.9.0.1:5", http.Header{"X-Forwarded-User": {"otto"}}, 303, ""},
		{"an unknown role", "10.9.0.1:5", http.Header{"X-Forwarded-User": {"otto"}, "X-Role": {"root"}}, 303, ""},
	} {
		w := d.ask(c.peer, "console.example.org", "/", func(r *http.Request) { r.Header = c.header })
		if w.Code != c.want || !strings.Contains(w.Body.String(), c.text) {
			t.Errorf("%s: answered %d\n%s", c.name, w.Code, inner(w.Body.String()))
		}
	}
}

// TestHostSaysWhoAndWhatTheyMay: its answer counts besides the role.
func TestHostSaysWhoAndWhatTheyMay(t *testing.T) {
	d := open(t, Options{
		Host: func(r *http.Request) (Identity, bool) {
			name := r.Header.Get("X-Test")
			return Identity{Name: name, Role: Operator}, name != ""
		},
		May:         func(_ context.Context, who Identity, p Permission) bool { return who.Name != "guest" || p != Cancel },
		Permissions: map[Permission]Role{Pause: Admin},
	})
	ref := d.Message("mail", scene.Once)
	guest, otto := d.somebody().with("X-Test", "guest"), d.somebody().with("X-Test", "otto")
	page := "/intents/" + ref.String()
	d.want(guest.act(page, page+"/cancel", url.Values{}), 403)
	d.want(otto.act("/kinds", "/kinds/pause", url.Values{"profile": {"message"}, "kind": {"mail"}}), 403)
	a := otto.post(page+"/cancel", url.Values{"token": {tokenIn(guest.get(page).body)}, "why": {"x"}})
	d.want(a, 403, "not one of yours")
	d.want(otto.act(page, page+"/cancel", url.Values{}), 200, "It is stopped")
}

// TestEachRoleMayWhatItMay: every action against every role.
func TestEachRoleMayWhatItMay(t *testing.T) {
	d := open(t, Options{})
	ref := d.Unknown(d.Message("mail", scene.Once))
	page := "/intents/" + ref.String()
	people := map[Role]*person{Viewer: d.person("vera"), Operator: d.person("otto"), Admin: d.person("anna")}
	for action, least := range map[string]Role{
		page + "/resolve": Operator, page + "/accept": Operator, page + "/prove": Operator, page + "/redeliver": Operator, page + "/reissue": Operator,
		page + "/cancel": Operator, page + "/content": Admin, "/bulk/preview": Admin, "/bulk/confirm": Admin,
		"/kinds/pause": Operator, "/kinds/resume": Operator,
		"/approvals/" + ref.String() + "/confirm": Operator, "/approvals/" + ref.String() + "/dismiss": Operator,
		"/approvals/" + ref.String() + "/input": Operator,
	} {
		for role, p := range people {
			a := p.act("/", action, url.Values{"why": {""}}) // not valid, so that nothing is done
			if got := a.status != http.StatusForbidden; got != role.reaches(least) {
				t.Errorf("%s by %s is answered %d", action, role, a.status)
			}
		}
	}
	if got := d.audited(); len(got) != 0 {
		t.Errorf("done: %v", got)
	}
}

const attack = `"><script>alert('x')</script><img src=x onerror=alert(1)>{{.}}</textarea>'`

// TestStoredTextIsNeverMarkup: what programs and people store is shown as it is
// written, on every page, whatever it looks like.
func TestStoredTextIsNeverMarkup(t *testing.T) {
	d := open(t, Options{Title: attack[:60]})
	d.Text, d.Error, d.Subject, d.Program = attack, attack+strings.Repeat("e", 900), attack, attack
	channel := `"><script>alert(1)</script>`
	d.ServeMessage(channel, scene.Once)
	d.ServeWork(channel, scene.Once)
	by := operator.By{Who: attack, Why: attack}
	refs := []consign.Ref{
		d.Late(d.Unknown(d.Message(channel, scene.Once))), d.Unknown(d.Work(channel, scene.Once)), d.Rejected(d.Message(channel, scene.Once)),
	}
	for _, err := range []error{
		d.operator.Pause(t.Context(), by, consign.ProfileMessage, channel),
		second(d.operator.Resolve(t.Context(), by, refs[1], operator.Finding{Outcome: operator.FoundNotDelivered, Evidence: attack})),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	entity := consign.Entity{Type: "<b>", ID: attack}
	id := d.propose(approval.Proposal{Proposer: entity, Reason: attack, Admission: consign.Admission{
		Operation: consign.Operation{Name: channel, Approval: consign.AnyConfirmer}, Actor: entity, Tenant: entity, Target: entity,
		Input: map[string]any{"text": attack},
	}})
	anna := d.person("anna")
	pages := []string{"/", "/intents", "/intents?kind=" + query(channel), "/intents?subject=" + query(attack), "/review", "/review/all", "/kinds", "/audit",
		"/approvals", "/approvals/" + id.String(), "/intents?ref=" + query(attack), "/audit?ref=" + query(attack), "/intents?code=" + query(attack)}
	for _, ref := range refs {
		pages = append(pages, "/intents/"+ref.String())
	}
	check := func(name string, a answer) {
		t.Helper()
		for _, bad := range []string{"<script>alert", "<img src=x", "<b>:"} {
			if strings.Contains(a.body, bad) {
				t.Errorf("%s has %s", name, bad)
			}
		}
	}
	seen := 0
	for _, page := range pages {
		a := anna.get(page)
		check(page, a)
		seen += strings.Count(a.body, "&lt;script&gt;alert")
	}
	page := "/intents/" + refs[0].String()
	a := anna.act(page, page+"/content", url.Values{"why": {"x"}})
	d.want(a, 200, "&lt;script&gt;alert")
	check("content", a)
	check("a form that was refused", anna.act(page, page+"/resolve", url.Values{"outcome": {attack}, "evidence": {attack}, "why": {attack}}))
	check("a proof that was refused", anna.act(page, page+"/prove", url.Values{"proof": {attack}, "why": {attack}}))
	check("input", anna.act("/", "/approvals/"+id.String()+"/input", url.Values{}))
	check("sign-in", d.somebody().signIn(attack, attack))
	check("next", d.somebody().get("/sign-in?next="+query("/"+attack)))
	check("live", anna.get("/live"))
	if seen < 20 {
		t.Errorf("the texts were seen %d times only", seen)
	}
}

func second[T any](_ T, err error) error { return err }

// TestMountsAtAnyPath: links lead below where it is mounted, and nowhere else.
func TestMountsAtAnyPath(t *testing.T) {
	host := func(*http.Request) (Identity, bool) { return Identity{Name: "otto", Role: Operator}, true }
	plain, told := open(t, Options{Host: host}), open(t, Options{Host: host, Path: "/ops"})
	for name, c := range map[string]struct {
		handler    http.Handler
		path, base string
	}{
		"at the root":           {plain.console, "/intents", ""},
		"below a prefix":        {http.StripPrefix("/a/b", plain.console), "/a/b/intents", "/a/b"},
		"told":                  {told.console, "/ops/intents", "/ops"},
		"told, and stripped":    {told.console, "/intents", "/ops"},
		"below one with spaces": {http.StripPrefix("/a b", plain.console), "/a%20b/intents", "/a%20b"},
	} {
		r := httptest.NewRequest("GET", c.path, nil)
		r.RemoteAddr, r.Host = "127.0.0.1:5", "localhost"
		w := httptest.NewRecorder()
		c.handler.ServeHTTP(w, r)
		for _, link := range []string{`href="` + c.base + `/review"`, `action="` + c.base + `/intents"`, `src="` + c.base + `/assets/`} {
			if w.Code != 200 || !strings.Contains(w.Body.String(), link) {
				t.Errorf("%s: answered %d without %s", name, w.Code, link)
			}
		}
	}
	r := httptest.NewRequest("GET", "/ops", nil)
	r.RemoteAddr, r.Host = "127.0.0.1:5", "localhost"
	w := httptest.NewRecorder()
	http.StripPrefix("/ops", plain.console).ServeHTTP(w, r)
	if w.Code != http.StatusPermanentRedirect || w.Header().Get("Location") != "/ops/" {
		t.Errorf("without a slash: %d to %s", w.Code, w.Header().Get("Location"))
	}
	for _, s := range []string{"//evil", "https://evil", `/\evil`, "javascript:alert(1)", "evil", "/\tevil", "", "/%2f/evil"} {
		if got := local(s); strings.HasPrefix(got, "//") || !strings.HasPrefix(got, "/") || strings.ContainsAny(got, "\\\t") {
			t.Errorf("%q leads to %q", s, got)
		}
	}
	if got := local("/intents?kind=a%20b"); got != "/intents?kind=a%20b" {
		t.Errorf("a page leads to %q", got)
	}
}

// TestOptionsAreChecked: everything that is wrong is told at once.
func TestOptionsAreChecked(t *testing.T) {
	_, err := New(storeOf(t), &Options{
		Users: []User{{Identity{Name: "", Role: "root"}, "secret"}, {Identity{Name: "a", Role: Viewer}, hash()}, {Identity{Name: "a", Role: Viewer}, hash()}},
		Proxy: &Proxy{Name: "X User"}, Permissions: map[Permission]Role{"fly": "bird"}, Path: "ops/", Idle: -1, Key: []byte("short"),
		Networks: []netip.Prefix{{}}, Title: strings.Repeat("x", 65),
	})
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, part := range []string{"users[0].name", "users[0].role", "users[0].password", "users[2].name is there twice", "proxy.networks", "proxy.name",
		"permissions", "path", "idle", "key", "networks", "title"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v\nhas no %s", err, part)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Error("the error has a password in it")
	}
}

// TestPasswordsAreHashed: each with a salt of its own, and only the right one fits.
func TestPasswordsAreHashed(t *testing.T) {
	other, err := HashPassword(password)
	if err != nil || other == hash() || strings.Contains(other, password) {
		t.Errorf("%s, %v", other, err)
	}
	h, err := readHash(other)
	if err != nil || !h.fits(password) || h.fits(password+"x") || h.fits("") {
		t.Errorf("%v", err)
	}
	for _, bad := range []string{"short", strings.Repeat("x", 1025), "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"} {
		if _, err := HashPassword(bad); err == nil || strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, bad := range []string{"", "$2b$10$abc", "$pbkdf2-sha512$1000$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA", "$pbkdf2-sha512$210000$!$!"} {
		if _, err := readHash(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

// TestUsersAreReplaced: who has changed or is gone is out at once, who stays stays in.
func TestUsersAreReplaced(t *testing.T) {
	d := open(t, Options{})
	otto, vera, olga := d.person("otto"), d.person("vera"), d.person("olga")
	for _, p := range []*person{otto, vera, olga} {
		d.want(p.get("/review"), 200, "Nothing waits")
	}
	stay := []User{{Identity{Name: "otto", Role: Operator}, hash()}}
	if err := d.console.SetUsers(append(stay, User{Identity{Name: "vera", Role: "queen"}, "x"})); !errors.Is(err, consign.ErrInvalid) {
		t.Errorf("a faulty user: %v", err)
	}
	d.want(vera.get("/review"), 200, "Nothing waits")
	if err := d.console.SetUsers(append(stay, User{Identity{Name: "vera", Role: Admin}, hash()})); err != nil {
		t.Fatal(err)
	}
	d.want(otto.get("/review"), 200, "Nothing waits")
	for _, p := range []*person{vera, olga} {
		if a := p.get("/review"); !strings.HasPrefix(a.path, "/sign-in") {
			t.Errorf("still in: %s", a.path)
		}
	}
	d.want(d.somebody().signIn("olga", password), 401)
	d.want(d.somebody().signIn("vera", password), 200, "vera")
	d.want(d.person("vera").get("/kinds"), 200)
}
