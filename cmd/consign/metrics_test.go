package main

import (
	"fmt"
	"strings"
	"testing"
)

// metric returns a sample by its name and labels.
func metric(text, sample string) (value string, there bool) {
	for line := range strings.SplitSeq(text, "\n") {
		if v, ok := strings.CutPrefix(line, sample+" "); ok {
			return v, true
		}
	}
	return "", false
}

func wantMetric(t *testing.T, text, sample string, want float64) {
	t.Helper()
	if v, there := metric(text, sample); !there || v != fmt.Sprint(want) {
		t.Errorf("%s is %q, want %v", sample, v, want)
	}
}

// TestMetricsTellWhatTheDaemonDid scrapes a daemon that has delivered, been refused
// and tried again, and that found messages for channels it does not know.
func TestMetricsTellWhatTheDaemonDid(t *testing.T) {
	onEach(t, func(t *testing.T, p *place) {
		r := newReceiver(t)
		odd := p.enqueue(t, `{}`, "--channel", "elsewhere")
		p.overdue(t, odd)
		d := p.serve(t, "--webhook", r.webhook("crm", ",waits=1ms"), "--webhook", "void=http://127.0.0.1:1/,plaintext,allow=127.0.0.0/8,waits=1ms,attempts=2")
		a, b := p.enqueue(t, `{}`, "--channel", "crm"), p.enqueue(t, `{}`, "--channel", "void")
		p.becomes(t, a, "delivered")
		p.becomes(t, b, "failed")
		_, text := d.get("/metrics")
		for sample, want := range map[string]float64{
			`consign_starts_total{kind="crm"}`:                       1,
			`consign_starts_total{kind="void"}`:                      2,
			`consign_retries_total{kind="void"}`:                     1,
			`consign_outcomes_total{kind="crm",outcome="succeeded"}`: 1,
			`consign_outcomes_total{kind="void",outcome="not_sent"}`: 2,
			`consign_ended_total{kind="crm",status="delivered"}`:     1,
			`consign_ended_total{kind="void",status="failed"}`:       1,
			`consign_effect_duration_seconds_count{kind="crm"}`:      1,
			`consign_start_duration_seconds_count`:                   3,
			`consign_settle_duration_seconds_count`:                  3,
			`consign_store_errors_total`:                             0,
			`consign_claimed_total`:                                  3,
		} {
			wantMetric(t, text, sample, want)
		}
		wantMetric(t, text, `consign_intents{kind="elsewhere",profile="message",status="pending"}`, 1)
		wantMetric(t, text, `consign_review`, 0)
		if v, _ := metric(text, `consign_oldest_due_age_seconds`); !strings.HasPrefix(v, "12") {
			t.Errorf("the oldest due is %s seconds old, want about 120", v)
		}
		for path, want := range map[string]int{"/livez": 200, "/readyz": 200, "/nothing": 404} {
			if code, _ := d.get(path); code != want {
				t.Errorf("%s answers %d, want %d", path, code, want)
			}
		}
		d.stop()
	})
}
