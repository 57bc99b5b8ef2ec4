package metrics

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign"
)

// scrape returns what a scrape shows.
func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func want(t *testing.T, text string, samples ...string) {
	t.Helper()
	for _, s := range samples {
		if !strings.Contains(text, "\n"+s+"\n") {
			t.Errorf("no %s", s)
		}
	}
}

// full are metrics after everything has happened once.
func full() *Metrics {
	m := New("v1")
	m.Declare([]string{"crm"})
	for _, o := range []consign.Observation{
		{Event: "claim", Count: 3, Duration: time.Millisecond},
		{Event: "start", Kind: "crm", Attempt: 1, Write: time.Millisecond},
		{Event: "start", Kind: "crm", Attempt: 2, Write: time.Millisecond},
		{Event: "settle", Kind: "crm", Outcome: "unknown", Status: consign.StatusPending, Duration: time.Second, Write: time.Millisecond},
		{Event: "settle", Kind: "crm", Outcome: "succeeded", Status: consign.StatusDelivered, Duration: time.Second, Write: time.Millisecond},
		{Event: "settle", Kind: "crm", Outcome: "stopped", Status: consign.StatusFailed},
		{Event: "fence", Kind: "crm"},
		{Event: "sweep", Count: 2},
		{Event: "error", Err: errors.New("x")},
		{Event: "listen"},
	} {
		m.Observe(o)
	}
	m.Reloaded(true)
	m.Reloaded(false)
	m.SetDepth(&Depth{Groups: []Group{{"message", "crm", "pending", 5, true}}, OldestDue: time.Minute, Review: 1, OldestReview: time.Hour})
	return m
}

func TestEveryEventIsCounted(t *testing.T) {
	text := scrape(t, full())
	want(t, text,
		`consign_claims_total 1`, `consign_claimed_total 3`, `consign_starts_total{kind="crm"} 2`, `consign_retries_total{kind="crm"} 1`,
		`consign_outcomes_total{kind="crm",outcome="unknown"} 1`, `consign_outcomes_total{kind="crm",outcome="succeeded"} 1`,
		`consign_ended_total{kind="crm",status="delivered"} 1`, `consign_ended_total{kind="crm",status="failed"} 1`,
		`consign_effect_duration_seconds_count{kind="crm"} 2`, `consign_settle_duration_seconds_count 2`, `consign_start_duration_seconds_count 2`,
		`consign_fenced_total{kind="crm"} 1`, `consign_swept_total 2`, `consign_store_errors_total 1`, `consign_hints_heard 1`,
		`consign_reloads_total{result="done"} 1`, `consign_reloads_total{result="refused"} 1`,
		`consign_intents{kind="crm",profile="message",status="pending"} 5`, `consign_intents_capped{kind="crm",profile="message",status="pending"} 1`,
		`consign_oldest_due_age_seconds 60`, `consign_review 1`, `consign_oldest_review_age_seconds 3600`)
	if strings.Contains(text, `status="pending"} 1`) && strings.Contains(text, `consign_ended_total{kind="crm",status="pending"}`) {
		t.Error("what goes on counts as ended")
	}
	m := full()
	m.Observe(consign.Observation{Event: "listen", Err: errors.New("deaf")})
	m.SetDepth(nil)
	text = scrape(t, m)
	want(t, text, `consign_hints_heard 0`)
	if strings.Contains(text, "\nconsign_intents{") {
		t.Error("an old look at the database is still shown")
	}
}

// TestLabelsAreBounded: whatever kinds come along, or lie in the database, there are
// only so many time series.
func TestLabelsAreBounded(t *testing.T) {
	m := New("v1")
	m.Declare([]string{"crm"})
	var groups []Group
	for i := range 5000 {
		kind := fmt.Sprintf("made-up-%d", i)
		m.Observe(consign.Observation{Event: "settle", Kind: kind, Outcome: "refused", Status: consign.StatusPending, Write: time.Second})
		m.Observe(consign.Observation{Event: "start", Kind: kind, Attempt: 2})
		m.Observe(consign.Observation{Event: "fence", Kind: kind})
		groups = append(groups, Group{Profile: "message", Kind: kind, Status: "pending", N: 1}, Group{Profile: "message", Kind: kind, Status: "failed", N: 1, Capped: i == 4999})
	}
	m.SetDepth(&Depth{Groups: groups})
	text := scrape(t, m)
	want(t, text, `consign_outcomes_total{kind="other",outcome="refused"} 5000`, `consign_retries_total{kind="other"} 5000`,
		`consign_intents{kind="other",profile="message",status="pending"} 4900`, `consign_intents_capped{kind="other",profile="message",status="failed"} 1`)
	if n := strings.Count(text, "\nconsign_"); n > 600 {
		t.Errorf("%d time series", n)
	}
}

var metricName = regexp.MustCompile(`\bconsign_[a-z_]+\b`)

// TestDeployedQueriesNameMetricsThatExist reads the dashboard and the alert rules.
func TestDeployedQueriesNameMetricsThatExist(t *testing.T) {
	known := map[string]bool{}
	for line := range strings.Lines(scrape(t, full())) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(strings.TrimSpace(name), " ")
			known[name] = true
			if kind == "histogram" {
				known[name+"_bucket"], known[name+"_count"], known[name+"_sum"] = true, true, true
			}
		}
	}
	root := filepath.Join("..", "..", "..", "..")
	for _, file := range []string{"deploy/grafana/consign.json", "deploy/prometheus/consign.rules.yml", "docs/daemon.md"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		names := metricName.FindAllString(string(text), -1)
		for _, name := range names {
			if !known[name] {
				t.Errorf("%s names %s, which does not exist", file, name)
			}
		}
		if len(names) < 5 {
			t.Errorf("%s names %d metrics", file, len(names))
		}
	}
	if doc, _ := os.ReadFile(filepath.Join(root, "docs/daemon.md")); doc != nil {
		for name := range known {
			base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count"), "_sum")
			if strings.HasPrefix(base, "consign_") && !strings.Contains(string(doc), base) {
				t.Errorf("docs/daemon.md does not name %s", base)
			}
		}
	}
}
