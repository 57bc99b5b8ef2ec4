package console

import (
	"encoding/hex"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/operator"
)

// standing is where an intent stands, in words that never claim more than is known,
// with a mark, so that it can be read without colour.
type standing struct {
	Mark  string
	Class string
	Text  string
}

// standingOf puts what is unknown before what the status is called: a message that
// was stopped with an unknown outcome has not failed as far as anybody knows.
func standingOf(s operator.Summary) standing {
	switch {
	case s.Uncertain && s.Stranded:
		return standing{"?", "unknown", "outcome unknown, stranded"}
	case s.Known == operator.KnownNothing && isEnd(s.Status):
		return standing{"?", "unknown", "outcome unknown"}
	case s.Stranded:
		return standing{"!", "stop", "stranded, nothing was in flight"}
	}
	text := map[consign.Status]standing{
		consign.StatusPending:                {"○", "open", "pending"},
		consign.StatusLeased:                 {"◔", "open", "claimed"},
		consign.StatusDelivering:             {"◑", "open", "being delivered"},
		consign.StatusDelivered:              {"✓", "good", "delivered"},
		consign.StatusSucceeded:              {"✓", "good", "delivered"},
		consign.StatusFailed:                 {"✕", "stop", "failed, not delivered"},
		consign.StatusCancelled:              {"⊘", "calm", "cancelled, not delivered"},
		consign.StatusReconciliationRequired: {"!", "stop", "stopped, not delivered"},
	}[s.Status]
	if text.Text == "" {
		text = standing{"·", "calm", string(s.Status)}
	}
	if s.Uncertain { // open, with an attempt of which nobody knows how it ended
		text.Text += ", an earlier outcome is unknown"
	}
	return text
}

func isEnd(s consign.Status) bool {
	switch s {
	case consign.StatusPending, consign.StatusLeased, consign.StatusDelivering:
		return false
	}
	return true
}

// statusText is the name of a status where many intents are counted together, whose
// outcomes may or may not be known.
func statusText(s consign.Status) string {
	switch s {
	case consign.StatusFailed:
		return "stopped"
	case consign.StatusSucceeded:
		return "delivered"
	case consign.StatusReconciliationRequired:
		return "needs reconciliation"
	case consign.StatusLeased:
		return "claimed"
	case consign.StatusDelivering:
		return "being delivered"
	}
	return string(s)
}

// outcomeText says how an attempt ended.
func outcomeText(e operator.Evidence) standing {
	switch e.Outcome {
	case "accepted":
		return standing{"✓", "good", "success observed"}
	case "not_sent":
		return standing{"○", "calm", "certainly not sent"}
	case "refused":
		return standing{"✕", "stop", "refused, may be tried again"}
	case "rejected":
		return standing{"✕", "stop", "rejected for good"}
	case "crashed":
		return standing{"!", "stop", "its program was gone before the start"}
	}
	return standing{"?", "unknown", "outcome unknown"}
}

// answered reports whether there is evidence to accept: some that no finding agrees
// with yet.
func answered(e operator.Entry) bool {
	return e.Answer != "" && (e.Current == nil || e.Current.Outcome != e.Answer)
}

// foundText is what a finding says.
func foundText(o operator.Outcome) string {
	switch o {
	case operator.FoundNotDelivered:
		return "found not delivered"
	case operator.FoundAbandoned:
		return "abandoned"
	}
	return "found delivered"
}

// counted is a number that may stand for more.
func counted(n int, capped bool) string {
	if capped {
		return thousands(n) + " or more"
	}
	return thousands(n)
}

func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// span is a length of time, roughly: its largest unit alone, or the two largest
// where that is small.
func span(d time.Duration) string {
	d = d.Abs()
	switch {
	case d < time.Second:
		return strconv.Itoa(int(d.Milliseconds())) + " ms"
	case d < 2*time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + " days"
}

// ago is how far a time lies from now.
func ago(now, t time.Time) string {
	switch d := now.Sub(t); {
	case d < 0 && d > -time.Second, d >= 0 && d < time.Second:
		return "just now"
	case d < 0:
		return "in " + span(d)
	default:
		return span(d) + " ago"
	}
}

// excerpt splits a long text into what is shown at once and whether there is more.
type excerpt struct {
	Head string
	All  string // empty: Head is all
	N    int    // characters in all
}

func excerptOf(s string) excerpt {
	const most = 400
	n := utf8.RuneCountInString(s)
	if n <= most {
		return excerpt{Head: s, N: n}
	}
	i := 0
	for range most {
		_, size := utf8.DecodeRuneInString(s[i:])
		i += size
	}
	return excerpt{Head: s[:i] + "…", All: s, N: n}
}

func digest(d [32]byte) string {
	if d == ([32]byte{}) {
		return ""
	}
	return hex.EncodeToString(d[:])
}

// length is a duration of a contract.
func length(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return strings.TrimSuffix(strings.TrimSuffix(d.String(), "0s"), "0m")
}

// functions are what templates may call.
func (c *Console) functions() template.FuncMap {
	return template.FuncMap{
		"standing": standingOf, "status": statusText, "outcome": outcomeText, "found": foundText, "answered": answered, "counted": counted,
		"excerpt": excerptOf, "digest": digest, "length": length, "advice": operator.Advice,
		"ago":   func(t time.Time) string { return ago(c.o.now(), t) },
		"stamp": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" },
		"rfc":   func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
		"short": func(ref fmt.Stringer) string { s := ref.String(); return s[:8] + "…" + s[len(s)-6:] },
		"sent":  func(o string) bool { return o != "not_sent" && o != "crashed" },
		"dict": func(pairs ...any) map[string]any {
			m := map[string]any{}
			for i := 0; i+1 < len(pairs); i += 2 {
				m[pairs[i].(string)] = pairs[i+1]
			}
			return m
		},
	}
}
