package main

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

var tokenOf = regexp.MustCompile(`name="token" value="([^"]+)"`)

// visitor is a browser that keeps its cookies, and what reads its answers.
func visitor(t *testing.T) (*http.Client, func(resp *http.Response, err error) string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar}, func(resp *http.Response, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
}

// TestConsoleOfTheDaemon: it is there, closed to whoever has no account, and opens to
// a user of the configuration.
func TestConsoleOfTheDaemon(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const password = "correct horse battery"
	made := p.run(t, password+"\n", "hash-password")
	if made.code != 0 || strings.Contains(made.out, password) {
		t.Fatalf("exit code %d: %s%s", made.code, made.out, made.err)
	}
	p.env = append(p.env, "VERA_HASH="+strings.TrimSpace(made.out))
	p.config(t, "[console]\ntitle = \"here\"\n[console.users.vera]\nrole = \"operator\"\npassword_hash_env = \"VERA_HASH\"\n")
	p.must(t, "migrate", "up")
	d := p.serve(t)
	defer d.stop()
	client, read := visitor(t)
	closed := read(client.Get(d.address + "/"))
	token := tokenOf.FindStringSubmatch(closed)
	if token == nil || !strings.Contains(closed, "Sign in") || !strings.Contains(closed, "here") {
		t.Fatalf("without an account: %s", closed)
	}
	signIn := func(with string) string {
		return read(client.PostForm(d.address+"/console/sign-in", url.Values{"token": {token[1]}, "next": {"/"}, "name": {"vera"}, "password": {with}}))
	}
	if page := signIn("another horse battery"); !strings.Contains(page, "Sign in") {
		t.Errorf("with a wrong password: %s", page)
	}
	if page := signIn(password); strings.Contains(page, `name="password"`) || !strings.Contains(page, "vera") {
		t.Errorf("with the password: %s", page)
	}
	if strings.Contains(d.text(), password) || strings.Contains(d.text(), strings.TrimSpace(made.out)) {
		t.Error("the log has a secret")
	}
}

// TestConsoleIsNotThere where it is not wanted.
func TestConsoleIsNotThere(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.config(t, "[console]\nenabled = false\n")
	p.must(t, "migrate", "up")
	d := p.serve(t)
	defer d.stop()
	if code, _ := d.get("/console/"); code != http.StatusNotFound {
		t.Errorf("it answers %d", code)
	}
}

// TestPasswordsAreNotArguments: and an empty or a short one is refused.
func TestPasswordsAreNotArguments(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for input, args := range map[string][]string{"": {"hash-password"}, "short\n": {"hash-password"}, "x": {"hash-password", "correct horse battery"}} {
		if r := p.run(t, input, args...); r.code != 2 {
			t.Errorf("%q: exit code %d", input, r.code)
		}
	}
}
