package main

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/consign-go/consign/internal/pgtest"
)

// finding is a line of doctor --json.
type finding struct{ Check, Result, Finding, Fix string }

// doctor runs doctor and returns what it found, without what is in order.
func (p *place) doctor(t *testing.T, args ...string) (found []finding, code int) {
	t.Helper()
	r := p.run(t, "", append([]string{"doctor", "--json"}, args...)...)
	for line := range strings.Lines(r.out) {
		var f finding
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if f.Result == "ok" && (f.Finding != "" || f.Fix != "") || f.Result != "ok" && (f.Finding == "" || f.Fix == "") {
			t.Errorf("%+v is no line of doctor's", f)
		}
		if f.Result != "ok" {
			found = append(found, f)
		}
	}
	return found, r.code
}

// wantFinding wants exactly one finding, with its words.
func wantFinding(t *testing.T, found []finding, code int, check, result, words string) {
	t.Helper()
	wantCode := map[string]int{"fault": 1, "warning": 0}[result]
	if len(found) != 1 || found[0].Check != check || found[0].Result != result || !strings.Contains(found[0].Finding, words) || code != wantCode {
		t.Errorf("exit code %d, %+v; want a %s of %s with %q", code, found, result, check, words)
	}
}

// healthy is a channel about which there is nothing to say.
func healthy(t *testing.T, p *place) string {
	t.Helper()
	p.env = append(p.env, "TEST_KEY=whsec_c2VjcmV0LXRoYXQtaXMtbmV2ZXItcHJpbnRlZA==")
	return newReceiver(t).webhook("crm", ",secret_env=TEST_KEY")
}

// TestDoctorFindsEachMisconfiguration misconfigures one thing at a time, on a
// database and with a channel about which there is nothing else to say.
func TestDoctorFindsEachMisconfiguration(t *testing.T) {
	t.Run("nothing", func(t *testing.T) {
		onEach(t, func(t *testing.T, p *place) {
			if found, code := p.doctor(t, "--webhook", healthy(t, p)); len(found) > 0 || code != 0 {
				t.Errorf("exit code %d, %+v", code, found)
			}
		})
	})
	t.Run("tables are missing", func(t *testing.T) {
		onEach(t, func(t *testing.T, p *place) {
			p.must(t, "migrate", "down", "--yes")
			found, code := p.doctor(t, "--webhook", healthy(t, p))
			wantFinding(t, found, code, "schema", "fault", "the tables are missing")
		})
	})
	t.Run("tables are newer", func(t *testing.T) {
		onEach(t, func(t *testing.T, p *place) {
			p.exec(t, `INSERT INTO {s}migration (version, name, checksum, oldest, applied_at) VALUES (2, 'next', 'x', 2, 1)`,
				`INSERT INTO {s}migration (version, name, checksum, oldest, applied_at) VALUES (2, 'next', 'x', 2, now())`)
			found, code := p.doctor(t, "--webhook", healthy(t, p))
			wantFinding(t, found, code, "schema", "fault", "migrated by a newer program")
		})
	})
	t.Run("a migration was edited", func(t *testing.T) {
		onEach(t, func(t *testing.T, p *place) {
			change := `UPDATE {s}migration SET checksum = 'x'`
			p.exec(t, change, change)
			found, code := p.doctor(t, "--webhook", healthy(t, p))
			wantFinding(t, found, code, "schema", "fault", "is not the one that this program has")
		})
	})
	t.Run("nobody serves it", func(t *testing.T) {
		onEach(t, func(t *testing.T, p *place) {
			ref := p.enqueue(t, `{}`, "--channel", "typo")
			if found, code := p.doctor(t, "--webhook", healthy(t, p)); len(found) > 0 || code != 0 {
				t.Errorf("at once: exit code %d, %+v", code, found)
			}
			p.overdue(t, ref)
			found, code := p.doctor(t, "--webhook", healthy(t, p))
			wantFinding(t, found, code, "served", "fault", "message typo is due since ")
		})
	})
	t.Run("paused", func(t *testing.T) {
		onEach(t, func(t *testing.T, p *place) {
			p.must(t, "pause", "crm", "--by", "ann")
			found, code := p.doctor(t, "--webhook", healthy(t, p))
			wantFinding(t, found, code, "served", "warning", "message crm is paused since ")
		})
	})
	for what, c := range map[string]struct{ query, words string }{
		"not WAL":          {"?journal_mode=delete", "journal_mode is delete"},
		"not synchronous":  {"?synchronous=normal", "synchronous is 1"},
		"no patience":      {"?busy_timeout=0", "busy_timeout is 0"},
		"not known at all": {"?cache=shared", ""},
	} {
		t.Run("sqlite/"+what, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.must(t, "migrate", "up")
			p.env = append(p.env, "CONSIGN_DB=sqlite:consign.db"+c.query)
			found, code := p.doctor(t, "--webhook", healthy(t, p))
			if c.words == "" {
				if code != 2 || found != nil {
					t.Errorf("exit code %d, %v", code, found)
				}
				return
			}
			wantFinding(t, found, code, "settings", "fault", c.words)
		})
	}
	for what, c := range map[string]struct{ query, check, result, words string }{
		"asynchronous commit": {"&options=-c%20synchronous_commit%3Doff", "settings", "fault", "synchronous_commit is off"},
		"read only":           {"&options=-c%20default_transaction_read_only%3Don", "settings", "fault", "default_transaction_read_only is on"},
		"small pool":          {"&pool_max_conns=2", "settings", "fault", "the pool has 2 connections"},
		"pooler":              {"", "hints", "warning", "LISTEN hears nothing"},
	} {
		t.Run("postgres/"+what, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, "CONSIGN_DB="+pgtest.URL(t))
			p.config(t, "schema = \""+pgtest.Schema(t)+"\"\n")
			p.must(t, "migrate", "up")
			url := pgtest.URL(t) + c.query
			if what == "pooler" {
				url = pgtest.Bouncer(t, 2) + "&default_query_exec_mode=exec"
			}
			p.env = append(p.env, "CONSIGN_DB="+url)
			found, code := p.doctor(t, "--webhook", healthy(t, p))
			wantFinding(t, found, code, c.check, c.result, c.words)
		})
	}
}

// TestDoctorFindsFaultyChannels does the same to the channels.
func TestDoctorFindsFaultyChannels(t *testing.T) {
	t.Parallel()
	tls := httptest.NewTLSServer(nil)
	t.Cleanup(tls.Close)
	up := newReceiver(t)
	for what, c := range map[string]struct{ webhook, check, result, words string }{
		"secret missing":   {up.webhook("crm", ",secret_env=TEST_NOT_SET"), "configuration", "fault", "TEST_NOT_SET is not set"},
		"lease too short":  {up.webhook("crm", ",secret_env=TEST_KEY,timeout=1m"), "configuration", "fault", "lease: 1m0s is not longer"},
		"unsigned":         {up.webhook("crm", ""), "channels", "warning", "channel crm sends unsigned"},
		"nobody listens":   {"crm=http://127.0.0.1:1/,plaintext,allow=127.0.0.0/8,secret_env=TEST_KEY", "receivers", "fault", "connection refused"},
		"private address":  {"crm=http://localhost:1/,plaintext,secret_env=TEST_KEY", "receivers", "fault", "policy"},
		"no such name":     {"crm=https://receiver.invalid/,secret_env=TEST_KEY", "receivers", "fault", "resolve"},
		"untrusted":        {"crm=" + strings.Replace(tls.URL, "127.0.0.1", "localhost", 1) + ",allow=127.0.0.0/8+::1/128,secret_env=TEST_KEY", "receivers", "fault", "certificate"},
		"nothing declared": {"", "channels", "warning", "no channel is declared"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.must(t, "migrate", "up")
			healthy(t, p)
			var args []string
			if c.webhook != "" {
				args = []string{"--webhook", c.webhook}
			}
			found, code := p.doctor(t, args...)
			wantFinding(t, found, code, c.check, c.result, c.words)
		})
	}
}
