package main

import (
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/consign-go/consign/webhook"
	"github.com/consign-go/consign/webhook/receive"
)

// notary is a receiver that executes what it gets, hangs up instead of answering, and
// signs later what it has executed.
type notary struct {
	*testing.T
	url  string
	key  string // as the configuration has it
	mu   sync.Mutex
	seen map[string][32]byte
}

func newNotary(t *testing.T) *notary {
	t.Helper()
	n := &notary{T: t, seen: map[string][32]byte{}, key: "whsec_" + base64.StdEncoding.EncodeToString([]byte("the-proof-key-of-this-receiver-1"))}
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.seen[r.Header.Get("Webhook-Id")] = sha256.Sum256(body); err != nil {
			n.Error(err)
		}
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(srv.Close)
	n.url = srv.URL
	return n
}

// signs is what its endpoint says about a delivery key.
func (n *notary) signs(key string) string {
	n.Helper()
	k, err := webhook.ParseKey(n.key)
	if err != nil {
		n.Fatal(err)
	}
	v, err := receive.NewVerifier(receive.Options{Keys: []receive.Key{k}, Proofs: []receive.Key{k}})
	if err != nil {
		n.Fatal(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, there := n.seen[key]; !there {
		n.Fatalf("%s did not reach it", key)
	}
	return v.Proof(receive.Delivery{Key: key, Digest: n.seen[key]})
}

func (n *notary) channel(more string) string {
	return "[channels.crm]\nurl = \"" + n.url + "\"\nplaintext = true\nallow = [\"127.0.0.0/8\"]\nattempts = 1\n" + more
}

// TestProofIsHandedInByTheCommand: checked by the keys of the configuration, refused
// where it does not hold, and recorded as what it is where it does.
func TestProofIsHandedInByTheCommand(t *testing.T) {
	onEach(t, func(t *testing.T, p *place) {
		n := newNotary(t)
		p.env = append(p.env, "CRM_PROOF="+n.key)
		p.config(t, n.channel(""))
		a, b := p.enqueue(t, `{"n":1}`, "--channel", "crm"), p.enqueue(t, `{"n":2}`, "--channel", "crm")
		p.must(t, "drain")
		refused := func(what, says string, code int, args ...string) {
			t.Helper()
			r := p.run(t, "", append([]string{"resolve", a, "--by", "ann"}, args...)...)
			if r.code != code || r.out != "" || !strings.Contains(r.err, says) || strings.Count(r.err, "\n") != 2 {
				t.Errorf("%s: exit code %d\n%s%s", what, r.code, r.out, r.err)
			}
		}
		refused("no keys", "no keys are known", 3, "--proof", n.signs(a))
		p.config(t, n.channel("proof_env = \"CRM_PROOF\"\n"))
		refused("of another message", "is signed by one of the receiver's keys", 3, "--proof", n.signs(b))
		refused("typed in", "is signed by one of the receiver's keys", 3, "--proof", "it is there, they say")
		refused("nothing", "proof 0 bytes", 2, "--proof", "")
		refused("with a finding", "--proof says itself", 2, "--proof", n.signs(a), "--outcome", "not-delivered")
		refused("late evidence with a finding", "--accept-evidence says itself", 2, "--accept-evidence", "--outcome", "not-delivered", "--evidence", "x")
		refused("with the late evidence", "--proof says itself", 2, "--proof", n.signs(a), "--accept-evidence")
		if out := p.must(t, "show", a, "--json"); !strings.Contains(out, `"resolutions":[]`) {
			t.Errorf("it left something: %s", out)
		}
		if out := p.must(t, "resolve", a, "--proof", n.signs(a), "--by", "ann"); !strings.HasSuffix(out, "  delivered\n") {
			t.Errorf("it printed %s", out)
		}
		v := p.status(t, a)
		found := v["resolutions"].([]any)[0].(map[string]any)
		if v["status"] != "failed" || v["uncertain"] != true || found["source"] != "proof" || !strings.HasSuffix(found["evidence"].(string), n.signs(a)) {
			t.Errorf("afterwards it is %v", v)
		}
		refused("once more", "has found", 3, "--proof", n.signs(a))
		if out := p.must(t, "show", b); !strings.Contains(out, "possible      resolve --proof\n") {
			t.Errorf("the other one: %s", out)
		}
		p.must(t, "resolve", b, "--outcome", "not-delivered", "--evidence", "no\nfinding       delivered  proof  ann\u202e", "--by", "bob")
		id := p.status(t, b)["resolutions"].([]any)[0].(map[string]any)["id"].(string)
		if out := p.must(t, "show", b); strings.Count(out, "\nfinding ") != 1 || !strings.Contains(out, id) || strings.Contains(out, "\u202e") {
			t.Errorf("evidence that looks like a proof: %s", out)
		}
		if r := p.run(t, "", "resolve", "0198c5f0-1f7e-7cc3-98c4-000000000000", "--proof", "v1,x", "--by", "ann"); r.code != 4 {
			t.Errorf("an unknown ref: exit code %d, %s", r.code, r.err)
		}
	})
}

// TestProofIsHandedInAtTheDaemonsConsole: by the keys of the configuration in use, also
// after a reload.
func TestProofIsHandedInAtTheDaemonsConsole(t *testing.T) {
	t.Parallel()
	p, n := newPlace(t), newNotary(t)
	const password = "correct horse battery"
	made := p.run(t, password+"\n", "hash-password")
	p.env = append(p.env, "VERA_HASH="+strings.TrimSpace(made.out), "CRM_PROOF="+n.key)
	console := "[console.users.vera]\nrole = \"operator\"\npassword_hash_env = \"VERA_HASH\"\n"
	p.config(t, n.channel("")+console)
	p.must(t, "migrate", "up")
	d := p.serve(t)
	defer d.stop()
	ref := p.enqueue(t, `{"n":1}`, "--channel", "crm")
	p.becomes(t, ref, "failed")
	client, read := visitor(t)
	token := func(page string) string {
		t.Helper()
		found := tokenOf.FindStringSubmatch(page)
		if found == nil {
			t.Fatalf("no form: %s", page)
		}
		return found[1]
	}
	read(client.PostForm(d.address+"/console/sign-in", url.Values{
		"token": {token(read(client.Get(d.address + "/console/")))}, "next": {"/"}, "name": {"vera"}, "password": {password},
	}))
	page := d.address + "/console/intents/" + ref
	hand := func(want string) {
		t.Helper()
		form := url.Values{"token": {token(read(client.Get(page)))}, "proof": {n.signs(ref)}, "why": {"they were asked"}}
		if said := read(client.PostForm(page+"/prove", form)); !strings.Contains(said, want) {
			t.Errorf("want %q: %s", want, said)
		}
	}
	hand("no keys are known")
	p.config(t, n.channel("proof_env = \"CRM_PROOF\"\n")+console)
	d.signal(syscall.SIGHUP)
	d.await("reloaded")
	hand("The proof holds and is recorded as the finding")

	// The users are read again, too; a faulty one changes nothing.
	p.config(t, strings.ReplaceAll(n.channel("")+console, `"operator"`, `"queen"`))
	d.signal(syscall.SIGHUP)
	d.await("the configuration was not reloaded")
	if said := read(client.Get(page)); !strings.Contains(said, "found delivered") {
		t.Errorf("after a faulty configuration: %s", said)
	}
	p.config(t, n.channel("")+strings.ReplaceAll(console, "VERA_HASH", "CRM_PROOF"))
	d.signal(syscall.SIGHUP)
	eventually(t, "the fault at its line", func() bool {
		return strings.Contains(d.text(), "consign.toml:9: console.users.vera.password_hash_env: what it names is not what")
	})
	if said := read(client.Get(page)); !strings.Contains(said, "found delivered") {
		t.Errorf("after what is no hash: %s", said)
	}
	p.config(t, n.channel("")+strings.ReplaceAll(console, "vera", "nora")+"[console]\ntitle = \"other\"\n")
	d.signal(syscall.SIGHUP)
	d.await("of the console only the users are reloaded")
	eventually(t, "who is gone from the configuration is signed in no more", func() bool {
		return strings.Contains(read(client.Get(page)), `name="password"`)
	})
	p.config(t, n.channel(""))
	d.signal(syscall.SIGHUP)
	d.await("nobody can sign in to the console: the configuration names no users and no proxy")
}
