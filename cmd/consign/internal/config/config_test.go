package config

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign"
)

const secretText = "c2VjcmV0LXRoYXQtaXMtbmV2ZXItcHJpbnRlZC1hbnl3aGVyZQ=="

func load(t *testing.T, text string, change func(s *Source)) (*Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "consign.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := Source{File: file, Secrets: true}
	if change != nil {
		change(&s)
	}
	c, err := Load(s)
	if err != nil {
		err = fmt.Errorf("%s", strings.ReplaceAll(err.Error(), file, "consign.toml"))
	}
	return c, err
}

func TestWholeConfigurationIsRead(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("whsec_"+secretText+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TEST_BEARER", "token")
	t.Setenv("TEST_URL", "https://hooks.example/T0/B0")
	c, err := load(t, `
db = "postgres://db.example/app"
listen = "127.0.0.1:9000"
workers = 8
grace = "5s"
handler_grace = "1h"
migrate = false
retention = "90d"
[trace]
endpoint = "http://127.0.0.1:4318"
sample = 0.5
[channels.crm]
url = "https://crm.example:8443/hook"
idempotent = true
attempts = 5
waits = ["1s", "1m"]
timeout = "20s"
lease = "2m"
max_age = "3d"
rejections = 2
payload_limit = 1000
secret_file = "`+key+`"
bearer_env = "TEST_BEARER"
headers = { X-Team = "a" }
overrides = { 500 = "refused" }
[channels.chat]
url_env = "TEST_URL"
retry = "process"
[channels.any]
any_url = true
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.DB != "postgres://db.example/app" || c.Listen != "127.0.0.1:9000" || c.Workers != 8 || c.Grace != 5*time.Second ||
		c.HandlerGrace != time.Hour || c.Retention != 90*24*time.Hour || c.Migrate || c.Trace != (Trace{"http://127.0.0.1:4318", 0.5}) {
		t.Errorf("%+v", c)
	}
	if len(c.Channels) != 3 {
		t.Fatalf("%d channels", len(c.Channels))
	}
	crm := c.Channels[2]
	if crm.Name != "crm" || !crm.Idempotent || crm.MaxAttempts != 5 || crm.Waits[1] != time.Minute || crm.Timeout != 20*time.Second ||
		crm.Lease != 2*time.Minute || crm.MaxAge != 72*time.Hour || crm.Rejections != 2 || crm.PayloadLimit != 1000 ||
		crm.Retry != consign.OnSchedule || !crm.Signed || !crm.HasURL || crm.Deliver == nil {
		t.Errorf("%+v", crm)
	}
	if chat := c.Channels[1]; chat.Retry != consign.InProcess || chat.Signed || !chat.HasURL {
		t.Errorf("%+v", chat)
	}
	if c.Channels[0].HasURL {
		t.Error("a URL came from nowhere")
	}
}

func TestFlagsGoOverTheFile(t *testing.T) {
	no := false
	c, err := load(t, "db = \"sqlite:a.db\"\nlisten = \"127.0.0.1:1\"\n[channels.crm]\nurl = \"https://crm.example/\"\n", func(s *Source) {
		s.DB, s.Listen, s.Migrate, s.Endpoint = "sqlite:b.db", "127.0.0.1:2", &no, "http://[::1]:4318"
		s.Webhooks = []string{"hr=https://hr.example/x?y=1,idempotent,retry=process,waits=1s+2s,ports=443+8443", "any=*"}
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.DB != "sqlite:b.db" || c.Listen != "127.0.0.1:2" || c.Migrate || c.Trace.Endpoint != "http://[::1]:4318" || len(c.Channels) != 3 {
		t.Errorf("%+v", c)
	}
	if hr := c.Channels[1]; hr.Name != "hr" || !hr.Idempotent || hr.Retry != consign.InProcess || len(hr.Waits) != 2 {
		t.Errorf("%+v", hr)
	}
}

// TestEveryFaultIsListedWithItsLine: all that is wrong, at once, in the order of the
// file.
func TestEveryFaultIsListedWithItsLine(t *testing.T) {
	_, err := load(t, `db = 5
wrokers = 3
workers = 100001
grace = "soon"

[channels.crm]
url = "http://crm.example/"
idempotent = "yes"
bearer_env = "TEST_NOT_SET"

[channels.hr]
url = "https://hr.example/"
lease = "20s"
attempts = 2000
colour = "red"

[channels.mail]
retry = "never"
overrides = { abc = "refused", 500 = "maybe" }
allow = ["10.0.0.1"]
secret = "`+secretText+`"
`, func(s *Source) {
		s.Webhooks = []string{"nonsense", "hr=https://x.example/", "new=ftp://x.example/,timeout=1h"}
	})
	if err == nil {
		t.Fatal("it was accepted")
	}
	want := `--webhook: is not NAME=URL, or NAME=* for the URL of each message
--webhook hr: declares a channel that is declared already
--webhook new: lease:
--webhook new: url: is not an https URL
consign.toml:1: db: is no text
consign.toml:2: wrokers: is no key here; known are
consign.toml:3: workers: 100001, limit 1 to 100000
consign.toml:4: grace: is no duration
consign.toml:8: channels.crm.idempotent: is no true or false
consign.toml:9: channels.crm.bearer_env: the environment variable TEST_NOT_SET is not set
consign.toml:14: channels.hr.attempts: 2000, limit 1 to 1000
consign.toml:13: channels.hr.lease:
consign.toml:15: channels.hr.colour: is no key here
consign.toml:18: channels.mail.retry: is neither "process" nor "schedule"
consign.toml:19: channels.mail.overrides.500: is none of
consign.toml:19: channels.mail.overrides.abc: is no HTTP status
consign.toml:20: channels.mail.allow: is no list of networks
consign.toml:21: channels.mail.secret: is a secret and does not belong into a configuration
consign.toml:17: channels.mail.url: is missing`
	for line := range strings.SplitSeq(want, "\n") {
		if !strings.Contains(err.Error(), "  "+line) {
			t.Errorf("missing: %s", line)
		}
	}
	if strings.Contains(err.Error(), secretText) {
		t.Error("a secret is shown")
	}
	if t.Failed() {
		t.Log(err)
	}
}

func TestSyntaxIsAFaultWithItsLine(t *testing.T) {
	_, err := load(t, "db = \"sqlite:a.db\"\n[channels.crm\n", nil)
	if err == nil || !strings.Contains(err.Error(), "consign.toml:2: is not TOML") {
		t.Error(err)
	}
	_, err = Load(Source{File: filepath.Join(t.TempDir(), "missing.toml")})
	if err == nil || !strings.Contains(err.Error(), "missing.toml: cannot be read: no such file or directory") {
		t.Error(err)
	}
}

// TestNoFaultShowsASecret gives a secret in every place in which one could be given
// by mistake, or be faulty.
func TestNoFaultShowsASecret(t *testing.T) {
	raw, _ := base64.StdEncoding.DecodeString(secretText)
	secret := string(raw)
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TEST_SECRET", secret)
	t.Setenv("TEST_SPACED", secret+" "+secret)
	t.Setenv("TEST_BAD_URL", "http://user:"+secret+"@x.example/"+secret)
	for name, text := range map[string]string{
		"password in the file": `db = "postgres://app:` + secret + `@db.example/app"`,
		"password as a field":  `db = "postgres://db.example/app?password=` + secret + `"`,
		"keyword password":     `db = "host=db.example password=` + secret + `"`,
		"key in the file":      "[channels.a]\nany_url = true\nsecret = \"" + secret + "\"",
		"bearer in the file":   "[channels.a]\nany_url = true\nbearer = \"" + secret + "\"",
		"proof in the file":    "[channels.a]\nany_url = true\nproof = [\"" + secret + "\"]",
		"no key":               "[channels.a]\nany_url = true\nsecret_env = \"TEST_SECRET\"",
		"no key in a file":     "[channels.a]\nany_url = true\nsecret_file = \"" + file + "\"",
		"bearer with a space":  "[channels.a]\nany_url = true\nbearer_env = \"TEST_SPACED\"",
		"URL":                  "[channels.a]\nurl_env = \"TEST_BAD_URL\"",
		"proxy":                "[channels.a]\nany_url = true\nproxy = \"http://u:" + secret + "@p.example\"",
		"wrong type":           "[channels.a]\nany_url = true\nsecret_env = { x = \"" + secret + "\" }",
		"not TOML":             "[channels.a]\nsecret = " + secret,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, text, nil)
			if err == nil {
				t.Fatal("it was accepted")
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the secret is shown: %v", err)
			}
		})
	}
	_, err := load(t, "", func(s *Source) { s.DB, s.FlagDB = "postgres://app:"+secret+"@db.example/app", true })
	if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "--db: holds a password") {
		t.Error(err)
	}
}

func TestWithoutSendingNoSecretIsNeeded(t *testing.T) {
	text := "[channels.a]\nany_url = true\nsecret_env = \"TEST_NOT_SET\"\n[channels.b]\nurl_file = \"/nowhere\"\nheaders_env = { X-Key = \"TEST_NOT_SET\" }\n"
	if c, err := load(t, text, func(s *Source) { s.Secrets = false }); err != nil || len(c.Channels) != 2 || c.Channels[0].Deliver != nil {
		t.Error(err)
	}
	if _, err := load(t, text, nil); err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Error(err)
	}
}

// TestFaultsNameTheKeyThatWasGiven: the library calls some fields otherwise, and a
// secret may stand in a file or in a variable.
func TestFaultsNameTheKeyThatWasGiven(t *testing.T) {
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("whsec_AAAA"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TEST_HEADER", "a\nb")
	_, err := load(t, `
[channels.crm]
url = "https://crm.example/hook"
secret_file = "`+short+`"
headers = { "a b" = "x" }
[channels.desk]
url = "https://desk.example/hook"
headers_env = { X-Key = "TEST_HEADER" }
`, nil)
	want := []string{
		"consign.toml:4: channels.crm.secret_file: is no key",
		"consign.toml:5: channels.crm.headers: ",
		"consign.toml:8: channels.desk.headers_env.X-Key: ",
	}
	for _, w := range want {
		if err == nil || !strings.Contains(err.Error(), "  "+w) {
			t.Errorf("no fault %q in:\n%v", w, err)
		}
	}
}

// TestNamesKeepFaultsOnTheirLine: a key may be any text, a list has one fault a line.
func TestNamesKeepFaultsOnTheirLine(t *testing.T) {
	_, err := load(t, "[channels.\"a\\nb\\u001b[31m\"]\nurl = \"https://crm.example/hook\"\n", func(s *Source) {
		s.Webhooks = []string{"c\nd=https://crm.example/hook"}
	})
	if err == nil || strings.Contains(err.Error(), "\x1b") {
		t.Fatalf("%q", err)
	}
	lines := strings.Split(err.Error(), "\n")
	for _, l := range lines[1:] {
		if !strings.HasPrefix(l, "  consign.toml:1: channels.") && !strings.HasPrefix(l, "  --webhook c") {
			t.Errorf("a line that is no fault: %q", l)
		}
	}
}

// TestOptionsAreGivenOnce: the second of two would take the place of the first.
func TestOptionsAreGivenOnce(t *testing.T) {
	_, err := load(t, "", func(s *Source) {
		s.Webhooks = []string{"crm=https://crm.example/hook,attempts=2,attempts=3", "desk=https://crm.example/hook,url=https://other.example/"}
	})
	for _, w := range []string{"--webhook crm: attempts: is given twice", "--webhook desk: url: is given twice"} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("no fault %q in: %v", w, err)
		}
	}
}

// Every fault of the console's users is told, each at its line, beside those of
// everything else.
func TestFaultsOfConsoleUsersAreAllTold(t *testing.T) {
	name := filepath.Join(t.TempDir(), "consign.toml")
	text := "workers = \"x\"\n[console.users.vera]\nrole = \"boss\"\n[console.users.ann]\nrole = \"viewer\"\n" +
		"[console.users.eva]\nrole = \"admin\"\npassword_hash_env = \"EVA_HASH\"\n"
	t.Setenv("EVA_HASH", "correct horse battery")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(Source{File: name, Secrets: true})
	if err == nil {
		t.Fatal("accepted")
	}
	if strings.Contains(err.Error(), "horse") {
		t.Errorf("a secret is in %s", err)
	}
	for _, want := range []string{":8: console.users.eva.password_hash_env: what it names is not what \"consign hash-password\" printed", ":1: workers", ":3: console.users.vera.role", "console.users.vera.password_hash_file", "console.users.ann.password_hash_file"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in\n%s", want, err)
		}
	}
}
