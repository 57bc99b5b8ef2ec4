package main

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNothingPrintsASecret gives the daemon one secret of each kind, has it deliver,
// be refused and be reloaded at the most talkative level, asks everything else that
// prints, and looks for each of them.
func TestNothingPrintsASecret(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	key := base64.StdEncoding.EncodeToString([]byte("a-key-that-must-never-be-shown-1"))
	secrets := map[string]string{
		"signing key": key, "bearer token": "bearer-token-never-shown", "header": "header-never-shown",
		"token in a URL": "url-token-never-shown", "proof key": base64.StdEncoding.EncodeToString([]byte("a-proof-key-never-to-be-shown-12")),
		"payload": "payload-never-shown", "recipient": "recipient-never-shown", "subject": "subject-never-shown",
	}
	p := newPlace(t, "CRM_BEARER="+secrets["bearer token"], "CRM_HEADER="+secrets["header"],
		"CRM_URL="+r.url+"?token="+secrets["token in a URL"], "CRM_PROOF=whsec_"+secrets["proof key"],
		"BAD_URL=http://127.0.0.1:1/?token="+secrets["token in a URL"])
	if err := os.WriteFile(filepath.Join(p.dir, "key"), []byte("whsec_"+key), 0o600); err != nil {
		t.Fatal(err)
	}
	p.config(t, `[channels.crm]
url_env = "CRM_URL"
plaintext = true
allow = ["127.0.0.0/8"]
secret_file = "key"
bearer_env = "CRM_BEARER"
proof_env = "CRM_PROOF"
headers_env = { X-Api-Key = "CRM_HEADER" }
[channels.bad]
url_env = "BAD_URL"
plaintext = true
allow = ["127.0.0.0/8"]
attempts = 1
[channels.any]
any_url = true
attempts = 1
`)
	d := p.serve(t)
	payload := `{"text":"` + secrets["payload"] + `"}`
	a := p.enqueue(t, payload, "--channel", "crm", "--session", secrets["subject"])
	b := p.enqueue(t, payload, "--channel", "bad")
	c := p.enqueue(t, payload, "--channel", "any", "--to", "https://"+secrets["recipient"]+".invalid/")
	p.becomes(t, a, "delivered")
	p.becomes(t, b, "failed")
	p.becomes(t, c, "failed")
	got := r.requests()
	if len(got) != 1 || got[0].Header.Get("Authorization") != "Bearer "+secrets["bearer token"] ||
		got[0].Header.Get("X-Api-Key") != secrets["header"] || got[0].Header.Get("Webhook-Signature") == "" {
		t.Fatalf("the secrets were not used: %v", got)
	}
	var said strings.Builder
	_, metrics := d.get("/metrics")
	said.WriteString(metrics)
	for _, args := range [][]string{
		{"doctor"}, {"doctor", "--json"}, {"show", a}, {"show", b, "--json"}, {"show", c, "--json"}, {"scan"}, {"drain"}, {"migrate", "status"},
		{"visit", a}, {"serve", "--webhook", "x=" + r.url + "?token=" + secrets["token in a URL"] + ",bearer=" + secrets["bearer token"]},
		{"enqueue", "--channel", "crm", "--payload", "key"}, {"enqueue", "--channel", secrets["recipient"] + "\n", "--payload", "consign.toml"},
	} {
		q := p.run(t, "", args...)
		said.WriteString(q.out + q.err)
	}
	d.stop()
	said.WriteString(d.text())
	for what, secret := range secrets {
		if i := strings.Index(said.String(), secret); i >= 0 {
			t.Errorf("the %s is shown: …%s", what, said.String()[max(0, i-200):i+len(secret)])
		}
	}
	if !strings.Contains(said.String(), "outcome") {
		t.Error("the log is not what it should be")
	}
}

// TestPasswordOfTheDatabaseIsNeverPrinted: not where it is refused, not where the
// server cannot be reached.
func TestPasswordOfTheDatabaseIsNeverPrinted(t *testing.T) {
	t.Parallel()
	const password = "password-never-shown"
	url := "postgres://app:" + password + "@127.0.0.1:1/app?connect_timeout=2"
	for name, c := range map[string]struct {
		env  []string
		args []string
		code int
		want string
	}{
		"on the command line":  {nil, []string{"migrate", "status", "--db", url}, 2, "CONSIGN_DB"},
		"a server that is off": {[]string{"CONSIGN_DB=" + url}, []string{"migrate", "status"}, 1, "connection refused"},
		"the daemon":           {[]string{"CONSIGN_DB=" + url}, []string{"serve", "--listen", "off"}, 1, "connection refused"},
		"doctor":               {[]string{"CONSIGN_DB=" + url}, []string{"doctor"}, 1, "connection refused"},
		"no URL":               {[]string{"CONSIGN_DB=postgres://app:" + password + "@[bad/app"}, []string{"migrate", "status"}, 2, "no URL"},
		"another scheme":       {[]string{"CONSIGN_DB=mysql://app:" + password + "@db/app"}, []string{"migrate", "status"}, 2, "no URL"},
	} {
		r := newPlace(t, c.env...).run(t, "", c.args...)
		if r.code != c.code || !strings.Contains(r.out+r.err, c.want) || strings.Contains(r.out+r.err, password) {
			t.Errorf("%s: exit code %d, want %d with %q and no password: %s%s", name, r.code, c.code, c.want, r.out, r.err)
		}
	}
}
