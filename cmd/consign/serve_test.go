package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestEnqueuedByCommandDeliveredByTheDaemon: what one process commits another one
// delivers, the very bytes, under the ref as its key, and stops gracefully.
func TestEnqueuedByCommandDeliveredByTheDaemon(t *testing.T) {
	onEach(t, func(t *testing.T, p *place) {
		r := newReceiver(t)
		d := p.serve(t, "--webhook", r.webhook("crm", ",idempotent"))
		ref := p.enqueue(t, `{ "b": 1, "a": "ä" }`, "--channel", "crm")
		p.becomes(t, ref, "delivered")
		got := r.requests()
		if len(got) != 1 || got[0].Key != ref || got[0].Body != `{"a":"ä","b":1}` {
			t.Errorf("received %+v", got)
		}
		v := p.status(t, ref)
		if v["profile"] != "message" || v["kind"] != "crm" || v["attempts"] != 1.0 || v["uncertain"] != false || v["delivery_key"] != ref {
			t.Errorf("%v", v)
		}
		d.stop()
	})
}

// TestSigtermLetsARunningEffectEnd: after SIGTERM nothing new is claimed, and what
// runs ends and is written down.
func TestSigtermLetsARunningEffectEnd(t *testing.T) {
	onEach(t, func(t *testing.T, p *place) {
		r := newReceiver(t)
		r.holding()
		d := p.serve(t, "--webhook", r.webhook("crm", ""))
		running := p.enqueue(t, `{}`, "--channel", "crm")
		eventually(t, "the request arrives", func() bool { return r.times(running) == 1 })
		d.signal(syscall.SIGTERM)
		d.await("stopping")
		if code, _ := d.get("/readyz"); code != http.StatusServiceUnavailable {
			t.Errorf("while it drains it is ready: %d", code)
		}
		late := p.enqueue(t, `{}`, "--channel", "crm")
		r.release()
		if s := d.end(); !s.Exited() || s.ExitStatus() != 0 {
			t.Errorf("it ended with %v", s)
		}
		if v := p.status(t, running); v["status"] != "delivered" {
			t.Errorf("what ran is %v", v)
		}
		if v := p.status(t, late); v["status"] != "pending" || v["generation"] != 0.0 || r.times(late) != 0 {
			t.Errorf("what came later is %v", v)
		}
	})
}

// TestSecondSignalStopsAtOnce: the first one waits for the effect, the second does
// not.
func TestSecondSignalStopsAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := newReceiver(t)
	r.holding()
	d := p.serve(t, "--webhook", r.webhook("crm", ""))
	ref := p.enqueue(t, `{}`, "--channel", "crm")
	eventually(t, "the request arrives", func() bool { return r.times(ref) == 1 })
	asked := time.Now()
	d.signal(syscall.SIGTERM)
	d.await("stopping")
	d.signal(syscall.SIGTERM) // at once: some senders signal a process and its group
	eventually(t, "a second signal ends it", func() bool {
		if time.Since(asked) < 200*time.Millisecond {
			select {
			case <-d.ended:
				t.Fatal("one signal that came twice ended it at once")
			default:
				return false
			}
		}
		d.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-d.ended:
			return true
		default:
			return false
		}
	})
	if s := d.end(); !s.Signaled() || s.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v", s)
	}
}

// TestSecondInterruptStopsWhatAShellPutInTheBackground: a shell without job control
// starts it with interrupts ignored, and what was ignored is not to be restored.
func TestSecondInterruptStopsWhatAShellPutInTheBackground(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := newReceiver(t)
	r.holding()
	d := p.serveBy(t, func(c *exec.Cmd) {
		c.Args = append([]string{"sh", "-c", `trap "" INT; exec "$0" "$@"`, c.Path}, c.Args[1:]...)
		c.Path = "/bin/sh"
	}, "--webhook", r.webhook("crm", ""))
	ref := p.enqueue(t, `{}`, "--channel", "crm")
	eventually(t, "the request arrives", func() bool { return r.times(ref) == 1 })
	d.signal(syscall.SIGINT)
	d.await("stopping")
	eventually(t, "a second interrupt ends it", func() bool {
		d.cmd.Process.Signal(syscall.SIGINT)
		select {
		case <-d.ended:
			return true
		default:
			return false
		}
	})
}

// TestKilledDaemonIsTakenOver: a daemon is killed with a request in flight. The next
// one sends it again under the same key with the same bytes once the lease is over
// where the receiver drops repeated keys, and never where it does not.
func TestKilledDaemonIsTakenOver(t *testing.T) {
	onEach(t, func(t *testing.T, p *place) {
		r := newReceiver(t)
		r.holding()
		channels := []string{"--webhook", r.webhook("again", ",idempotent"), "--webhook", r.webhook("once", "")}
		d := p.serve(t, channels...)
		again, once := p.enqueue(t, `{"n":1}`, "--channel", "again"), p.enqueue(t, `{"n":2}`, "--channel", "once")
		eventually(t, "both arrive", func() bool { return r.times(again) == 1 && r.times(once) == 1 })
		d.signal(syscall.SIGKILL)
		d.end()
		r.release()
		waiting := p.enqueue(t, `{"n":3}`, "--channel", "again")
		d = p.serve(t, channels...)
		p.becomes(t, waiting, "delivered")
		if v := p.status(t, again); v["status"] != "delivering" || r.times(again) != 1 {
			t.Errorf("under a running lease it is %v", v)
		}
		p.leasesEnd(t)
		p.becomes(t, again, "delivered")
		p.becomes(t, once, "failed")
		if v := p.status(t, once); v["uncertain"] != true || v["code"] != "OUTCOME_UNKNOWN" || r.times(once) != 1 {
			t.Errorf("what may not be sent twice is %v", v)
		}
		got := map[string][]string{}
		for _, q := range r.requests() {
			got[q.Key] = append(got[q.Key], q.Body)
		}
		if b := got[again]; len(b) != 2 || b[0] != b[1] {
			t.Errorf("received %v", b)
		}
		p.reconciles(t, once)
		d.stop()
	})
}

// reconciles decides about a message whose outcome is unknown, as a person would, by
// the command: it is listed with what to do, cannot be sent again on a guess, and can
// once a finding says that it was not delivered.
func (p *place) reconciles(t *testing.T, ref string) {
	t.Helper()
	if out := p.must(t, "list", "--review", "--json"); !strings.Contains(out, `"ref":"`+ref+`"`) || !strings.Contains(out, `"known":"unknown"`) || !strings.Contains(out, `"do":"Ask the far side`) {
		t.Errorf("in review: %s", out)
	}
	var stats struct {
		Review      int
		UnknownRate float64 `json:"unknown_rate"`
	}
	if err := json.Unmarshal([]byte(p.must(t, "stats", "--json")), &stats); err != nil || stats.Review != 1 || stats.UnknownRate < 0.3 || stats.UnknownRate > 0.34 {
		t.Errorf("stats: %+v, %v; one of three is unknown", stats, err)
	}
	for _, again := range []string{"redeliver", "reissue"} {
		if r := p.run(t, "", again, ref, "--by", "ann"); r.code != 3 {
			t.Errorf("%s on a guess: exit code %d, %s%s", again, r.code, r.out, r.err)
		}
	}
	p.must(t, "resolve", ref, "--outcome", "not-delivered", "--evidence", "no such key in their log", "--by", "ann")
	if r := p.run(t, "", "list", "--review"); r.code != 4 {
		t.Errorf("after the finding: exit code %d, %s", r.code, r.out)
	}
	r := p.run(t, "", "reissue", ref, "--by", "ann", "--json")
	var sent struct {
		Ref     string
		Warning string
	}
	if err := json.Unmarshal([]byte(r.out), &sent); err != nil || r.code != 0 || sent.Warning == "" {
		t.Fatalf("reissue: exit code %d, %s%s; it warns of an owner that may still live", r.code, r.out, r.err)
	}
	p.becomes(t, sent.Ref, "delivered")
	v := p.status(t, ref)
	if v["status"] != "failed" || v["uncertain"] != true || len(v["resolutions"].([]any)) != 1 || len(v["chain"].([]any)) != 2 {
		t.Errorf("the first one is %v", v)
	}
}

// TestHangupReloadsChannels: messages go where the new configuration says; a faulty
// one changes nothing.
func TestHangupReloadsChannels(t *testing.T) {
	onEach(t, func(t *testing.T, p *place) {
		a, b := newReceiver(t), newReceiver(t)
		channel := func(r *receiver) string {
			return "[channels.crm]\nurl = \"" + r.url + "\"\nplaintext = true\nallow = [\"127.0.0.0/8\"]\n"
		}
		p.config(t, channel(a))
		d := p.serve(t)
		first := p.enqueue(t, `{}`, "--channel", "crm")
		p.becomes(t, first, "delivered")
		p.config(t, "[channels.crm]\nurl = 7\nturl = \"x\"\n")
		d.signal(syscall.SIGHUP)
		d.await("the configuration was not reloaded")
		if faults := d.line("the configuration was not reloaded")["faults"].(string); !strings.Contains(faults, "url: is no text") || !strings.Contains(faults, "turl: is no key") {
			t.Errorf("it told %s", faults)
		}
		p.config(t, channel(b))
		second := func() string { return p.enqueue(t, `{}`, "--channel", "crm") }
		d.signal(syscall.SIGHUP)
		d.await("reloaded")
		ref := second()
		p.becomes(t, ref, "delivered")
		if a.times(first) != 1 || a.times(ref) != 0 || b.times(ref) != 1 {
			t.Errorf("the old one got %d and %d, the new one %d", a.times(first), a.times(ref), b.times(ref))
		}
		_, text := d.get("/metrics")
		wantMetric(t, text, `consign_reloads_total{result="done"}`, 1)
		wantMetric(t, text, `consign_reloads_total{result="refused"}`, 1)
		d.stop()
	})
}

// TestFaultyDaemonDoesNotStart: exit code 2 and every fault; an address in use is
// exit code 1.
func TestFaultyDaemonDoesNotStart(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.config(t, "[channels.crm]\nurl = 7\nturl = \"x\"\n")
	r := p.run(t, "", "serve")
	if r.code != 2 || r.out != "" || !strings.Contains(r.err, "consign.toml:3: channels.crm.url: is no text") || !strings.Contains(r.err, "consign.toml:4: channels.crm.turl: is no key") {
		t.Errorf("exit code %d: %s", r.code, r.err)
	}
	if _, err := os.Stat(filepath.Join(p.dir, "consign.db")); err == nil {
		t.Error("it made a database")
	}
	q := newPlace(t)
	d := q.serve(t)
	other := newPlace(t)
	r = other.run(t, "", "serve", "--listen", strings.TrimPrefix(d.address, "http://"))
	if r.code != 1 || !strings.Contains(r.err, "address already in use\nChoose another address by --listen") {
		t.Errorf("exit code %d: %s", r.code, r.err)
	}
}

// TestRetentionRemovesWhatIsOld: at the start and then every hour, by the database's
// clock, and into the audit.
func TestRetentionRemovesWhatIsOld(t *testing.T) {
	onEach(t, func(t *testing.T, p *place) {
		r := newReceiver(t)
		d := p.serve(t, "--webhook", r.webhook("crm", ""))
		old := p.enqueue(t, `{}`, "--channel", "crm")
		p.becomes(t, old, "delivered")
		p.old(t)
		fresh := p.enqueue(t, `{}`, "--channel", "crm")
		p.becomes(t, fresh, "delivered")
		d.stop()
		p.config(t, "retention = \"90d\"\n[channels]\n")
		d = p.serve(t)
		d.await("removed what is old")
		if q := p.run(t, "", "show", old); q.code != 4 {
			t.Errorf("what is old: exit code %d, %s", q.code, q.out)
		}
		if v := p.status(t, fresh); v["status"] != "delivered" {
			t.Errorf("what is not: %v", v)
		}
		d.stop()
	})
}

// TestEnqueuedByPlainSQLDeliveredByTheDaemon: what an application in another language
// has committed with its own change.
func TestEnqueuedByPlainSQLDeliveredByTheDaemon(t *testing.T) {
	onEach(t, func(t *testing.T, p *place) {
		r := newReceiver(t)
		d := p.serve(t, "--webhook", r.webhook("crm", ""))
		const ref = "0198c5f0-1f7e-7cc3-98c4-dc0c0c07398f"
		p.exec(t, `INSERT INTO {s}enqueue_message (contract, channel, payload, id) VALUES (1, 'crm', json_object('b', 1, 'a', 'ä'), '`+ref+`')`,
			`SELECT {s}enqueue_message(1, channel => 'crm', payload => json_build_object('b', 1, 'a', 'ä'), id => '`+ref+`')`)
		p.becomes(t, ref, "delivered")
		if got := r.requests(); len(got) != 1 || got[0].Key != ref || got[0].Body != `{"a":"ä","b":1}` {
			t.Errorf("received %+v", got)
		}
		d.stop()
	})
}

// TestNotReadyWhileWritesAreRefused: a database that answers reads and takes no writes,
// as one on a full disk, is told by /readyz, and so is that it takes them again.
func TestNotReadyWhileWritesAreRefused(t *testing.T) {
	t.Parallel()
	r, p := newReceiver(t), newPlace(t)
	p.config(t, "[channels.crm]\nurl = \""+r.url+"\"\nplaintext = true\nallow = [\"127.0.0.0/8\"]\n")
	p.must(t, "migrate", "up")
	d := p.serve(t)
	defer d.stop()
	ready := func(want int) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			code, text := d.get("/readyz")
			if code == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("/readyz still answers %d: %s", code, text)
			}
		}
	}
	ready(http.StatusOK)
	p.exec(t, `CREATE TRIGGER full BEFORE UPDATE ON {s}delivery BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END`, "")
	ref := p.enqueue(t, `{}`, "--channel", "crm")
	ready(http.StatusServiceUnavailable)
	p.exec(t, `DROP TRIGGER full`, "")
	p.becomes(t, ref, "delivered")
	ready(http.StatusOK)
}
