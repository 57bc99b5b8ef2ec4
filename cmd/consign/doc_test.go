package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// page reads a page of the documentation.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks are the code blocks of a page in a language.
func blocks(text, language string) (out []string) {
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// TestGuideIsWhatTheCommandUnderstands: each command line of the guide is understood,
// its configuration is accepted, and it names every key that there is.
func TestGuideIsWhatTheCommandUnderstands(t *testing.T) {
	t.Parallel()
	guide := page(t, "docs/daemon.md")
	seen := 0
	for _, block := range append(blocks(guide, "sh"), blocks(page(t, "README.md"), "sh")...) {
		for line := range strings.Lines(block) {
			if i := strings.Index(line, "consign "); i >= 0 && (i == 0 || strings.HasSuffix(line[:i], "| ")) {
				understood(t, "docs/daemon.md", strings.Fields(line[i+len("consign "):]))
				seen++
			}
		}
	}
	if seen < 8 {
		t.Errorf("only %d command lines were seen", seen)
	}
	p := newPlace(t)
	p.config(t, blocks(guide, "toml")[0])
	if r := p.run(t, "", "migrate", "sql"); r.code != 0 {
		t.Errorf("the configuration: exit code %d, %s", r.code, r.err)
	}
	q := newPlace(t)
	q.config(t, "nonsense = 1\n[trace]\nnonsense = 1\n[channels.crm]\nnonsense = 1\n")
	r := q.run(t, "", "migrate", "sql")
	keys := 0
	for _, m := range regexp.MustCompile(`known are (.+)`).FindAllStringSubmatch(r.err, -1) {
		for key := range strings.SplitSeq(m[1], ", ") {
			keys++
			if !strings.Contains(guide, "`"+key+"`") && !strings.Contains(guide, key+" = ") && !strings.Contains(guide, "["+key) {
				t.Errorf("the guide does not name the key %s", key)
			}
		}
	}
	if keys < 40 {
		t.Errorf("only %d keys were seen: %s", keys, r.err)
	}
	commands := regexp.MustCompile(`(?m)^  (\w+)  +\S`).FindAllStringSubmatch(p.must(t, "help"), -1)
	for _, m := range commands {
		if !strings.Contains(guide, "`"+m[1]) && !strings.Contains(guide, "consign "+m[1]) {
			t.Errorf("the guide does not name the command %s", m[1])
		}
	}
	if len(commands) < 20 {
		t.Errorf("only %d commands were seen", len(commands))
	}
}

// TestGuideFromZero follows the first steps of the guide, but for the receiver's
// address.
func TestGuideFromZero(t *testing.T) {
	t.Parallel()
	guide := page(t, "docs/daemon.md")
	steps := blocks(guide, "sh")
	r := newReceiver(t)
	p := newPlace(t)
	p.env = append(p.env, "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
	listed := p.shell(t, steps[1])
	ref := regexp.MustCompile(`(?m)^([0-9a-f-]{36})  crm  pending`).FindStringSubmatch(listed)
	if ref == nil {
		t.Fatalf("the first steps left %s", listed)
	}
	m := regexp.MustCompile(`--webhook (crm=)https://crm.example/hooks(\S+)`).FindStringSubmatch(steps[2])
	key := regexp.MustCompile(`CRM_SECRET=\S+`).FindString(steps[2])
	if m == nil || key == "" {
		t.Fatalf("the guide starts the daemon by %s", steps[2])
	}
	p.env = append(p.env, key)
	d := p.serve(t, "--webhook", m[1]+r.url+m[2]+",plaintext,allow=127.0.0.0/8")
	p.becomes(t, ref[1], "delivered")
	if got := r.requests(); len(got) != 1 || got[0].Body != `{"event":"ticket.triaged","ticket":41}` || !strings.HasPrefix(got[0].Header.Get("Webhook-Signature"), "v1,") {
		t.Errorf("received %+v", got)
	}
	if out := p.must(t, "stats"); !strings.Contains(out, "delivered") {
		t.Errorf("stats: %s", out)
	}
	d.stop()
}
