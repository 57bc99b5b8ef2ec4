package lifecycle_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/lifecycle"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// TestStoriesAreToldExactly runs every story in testdata/stories: prose, then
// commands that start with ">", each followed by its exact output, indented.
// The judge of SPEC section 12 watches each of them. Run with -update to
// rewrite the outputs, then read the difference.
func TestStoriesAreToldExactly(t *testing.T) {
	paths, err := filepath.Glob("testdata/stories/*.txt")
	if err != nil || len(paths) < 15 {
		t.Fatalf("found %d stories: %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := tell(t, string(want))
			if *update && !t.Failed() {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if line, g, w := firstDifference(got, string(want)); line > 0 {
				t.Errorf("%s:%d\n got: %s\nwant: %s", path, line, g, w)
			}
		})
	}
}

// tell runs a script and returns it with its outputs as they are.
func tell(t *testing.T, script string) string {
	var out strings.Builder
	var tale *story
	output := false
	for n, line := range strings.Split(strings.TrimSuffix(script, "\n"), "\n") {
		command, isCommand := strings.CutPrefix(line, "> ")
		if output && strings.HasPrefix(line, "  ") {
			continue // what was printed the last time
		}
		out.WriteString(line + "\n")
		output = isCommand
		if !isCommand {
			continue
		}
		words, err := splitWords(command)
		if err != nil {
			t.Fatalf("line %d: %v", n+1, err)
		}
		if words[0] == "new" {
			tale, err = newStory(words[1:])
		} else if tale == nil {
			t.Fatalf("line %d: a story begins with new", n+1)
		}
		var lines []string
		if err == nil {
			lines, err = tale.run(words)
		}
		if err != nil {
			t.Errorf("line %d: %s: %v", n+1, command, err)
		}
		for _, l := range lines {
			out.WriteString("  " + l + "\n")
		}
	}
	return out.String()
}

// story is one intent on the little store, told command by command.
type story struct {
	world    world
	log      []lifecycle.Attempt
	hold     *decided
	contract lifecycle.Contract // what a claim brings where the intent has none
}

// newStory makes an intent from words such as: work idempotent attempts=3.
func newStory(words []string) (*story, error) {
	s := &story{contract: lifecycle.Contract{
		Retry: lifecycle.Schedule, MaxAttempts: 3, Lease: time.Minute, Timeout: 30 * time.Second,
	}}
	s.world.store = store{
		policy: lifecycle.DefaultPolicy,
		row:    row{profile: lifecycle.Work, gateOpen: true, lease: none, deadline: none, review: none},
	}
	r, c := &s.world.store.row, &s.contract
	unclaimed := false
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		var err error
		switch key {
		case "work":
			r.profile = lifecycle.Work
		case "message":
			r.profile = lifecycle.Message
		case "schedule":
			c.Retry = lifecycle.Schedule
		case "process":
			c.Retry = lifecycle.Process
		case "unclaimed":
			unclaimed = true
		case "idempotent":
			c.Idempotent = true
		case "uncertain":
			r.uncertain = true
		case "gate-closed":
			r.gateOpen = false
		case "digest":
			r.digest = digestOf(value[0])
		case "attempts":
			c.MaxAttempts, err = strconv.Atoi(value)
		case "lease":
			c.Lease, err = time.ParseDuration(value)
		case "timeout":
			c.Timeout, err = time.ParseDuration(value)
		case "age":
			c.MaxAge, err = time.ParseDuration(value)
		case "due":
			r.due, err = time.ParseDuration(value)
		default:
			err = fmt.Errorf("what is %q", w)
		}
		if err != nil {
			return nil, err
		}
	}
	if !unclaimed {
		r.contract = s.contract
		if c.MaxAge > 0 {
			r.deadline = r.due + c.MaxAge
		}
	}
	s.world.judge = birth(r)
	return s, nil
}

var storyEvents = map[string]lifecycle.EventKind{
	"claim": lifecycle.EvClaim, "start": lifecycle.EvStart, "stop": lifecycle.EvStopped,
	"undecided": lifecycle.EvUndecided, "panic": lifecycle.EvPanicked, "release": lifecycle.EvReleased,
	"callback-failed": lifecycle.EvCallbackFailed, "interrupt": lifecycle.EvInterrupted, "sweep": lifecycle.EvSweep,
	"unserved": lifecycle.EvUnserved, "cancel": lifecycle.EvCancel, "resolve": lifecycle.EvResolved,
	"erase": lifecycle.EvErase, "hand-claim": lifecycle.EvHandClaim, "hand-attempt": lifecycle.EvHandAttempt,
	"hand-delivered": lifecycle.EvHandDelivered, "hand-failed": lifecycle.EvHandFailed,
	"succeeded": lifecycle.EvSucceeded, "not_sent": lifecycle.EvNotSent, "refused": lifecycle.EvRefused,
	"rejected": lifecycle.EvRejected, "unknown": lifecycle.EvUnknown,
}

// storyTold are the words of a mark by hand about its failure.
var storyTold = map[string]lifecycle.Outcome{
	"was-not-sent": lifecycle.NotSent, "was-refused": lifecycle.Refused, "was-rejected": lifecycle.Rejected, "was-unknown": lifecycle.Unknown,
}

// run carries out one command.
func (s *story) run(words []string) ([]string, error) {
	switch words[0] {
	case "new":
		return []string{s.line()}, s.world.judge.look(&s.world.store)
	case "after":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			return nil, err
		}
		_, _, err = s.world.do(action{after: d})
		return []string{s.line()}, err
	case "gate-open":
		s.world.store.row.gateOpen = true
		return []string{s.line()}, nil
	case "log":
		var lines []string
		for _, l := range s.log {
			lines = append(lines, logLine(&l))
		}
		return lines, nil
	case "land": // the write that hold kept back arrives
		return s.land(s.hold)
	case "hold": // decide now, write at land
		a, err := s.action(words[1:])
		if err != nil {
			return nil, err
		}
		d := s.world.decide(a)
		s.hold = &d
		return []string{fmt.Sprintf("decided: %v", d.t.Answer)}, nil
	}
	a, err := s.action(words)
	if err != nil {
		return nil, err
	}
	d := s.world.decide(a)
	return s.land(&d)
}

// land writes and prints what came of it.
func (s *story) land(d *decided) ([]string, error) {
	held, broken := s.world.land(d, false)
	t := &d.t
	if t.Log != nil && (held || t.Answer == lifecycle.Refuse) {
		s.append(t.Log)
	}
	switch {
	case held && t.Code != "":
		return []string{"reports " + string(t.Code), s.line()}, broken
	case held:
		return []string{s.line()}, broken
	case t.Answer == lifecycle.Apply:
		return []string{"not held: nothing changed"}, broken
	case t.Log != nil:
		return []string{fmt.Sprintf("%v %s, kept as evidence: %s", t.Answer, t.Code, logLine(t.Log))}, broken
	}
	return []string{strings.TrimSpace(fmt.Sprintf("%v %s", t.Answer, t.Code))}, broken
}

// append keeps a row of the attempt log, once per generation and number: what its
// owner wrote, and beside it the first that arrived late.
func (s *story) append(l *lifecycle.Attempt) {
	if !slices.ContainsFunc(s.log, func(o lifecycle.Attempt) bool {
		return o.Generation == l.Generation && o.Number == l.Number && o.Late == l.Late
	}) {
		s.log = append(s.log, *l)
	}
}

// action reads a command such as: settle a refused wait=30s error="503".
func (s *story) action(words []string) (action, error) {
	a := action{digest: 'x', contract: s.contract}
	for i, w := range words {
		key, value, pair := strings.Cut(w, "=")
		var err error
		switch {
		case i == 0 && w == "settle":
		case a.kind == 0 && storyEvents[w] != 0:
			a.kind = storyEvents[w]
		case len(w) == 1 && w >= "a" && w <= "c":
			a.who = int(w[0] - 'a')
		case slices.Contains(lifecycle.Codes, lifecycle.Code(w)):
			a.code = lifecycle.Code(w)
		case w == "retryable":
			a.retryable = true
		case w == "signed":
			a.proof = "v1,c2lnbmVk"
		case a.kind != 0 && storyTold[w] != 0:
			a.told = storyTold[w]
		case w == "once":
			a.contract.Idempotent = false
		case !pair:
			err = fmt.Errorf("what is %q", w)
		case key == "digest":
			a.digest = value[0]
		case key == "wait":
			a.wait, err = time.ParseDuration(value)
		case key == "lease":
			a.contract.Lease, err = time.ParseDuration(value)
		case key == "attempt":
			a.attempt, err = strconv.Atoi(value)
		case key == "http":
			a.http, err = strconv.Atoi(value)
		case key == "error":
			a.err = value
		default:
			err = fmt.Errorf("what is %q", w)
		}
		if err != nil {
			return a, err
		}
	}
	if a.kind == 0 {
		return a, fmt.Errorf("no event in %q", words)
	}
	return a, nil
}

// line prints the row: the status first, then whatever is not at its zero, with
// times relative to the database's now.
func (s *story) line() string {
	r := &s.world.store.row
	var b strings.Builder
	b.WriteString(r.status.String())
	if public := r.status.Public(r.profile); public != r.status.String() {
		b.WriteString(" (shown as " + public + ")")
	}
	add := func(when bool, format string, args ...any) {
		if when {
			fmt.Fprintf(&b, " "+format, args...)
		}
	}
	moment := func(name string, m at) {
		if m != none {
			add(true, "%s%s", name, relative(m-s.world.store.now))
		}
	}
	add(r.code != "", "%s", r.code)
	add(r.uncertain, "uncertain")
	add(r.erased, "erased")
	add(!r.gateOpen, "gate-closed")
	add(r.generation > 0, "gen=%d", r.generation)
	add(r.owner != lifecycle.Token{}, "owner=%c", r.owner[0])
	add(r.inFlight, "in-flight")
	add(r.attempts > 0, "attempts=%d", r.attempts)
	add(r.crashes > 0, "crashes=%d", r.crashes)
	add(r.digest != lifecycle.Digest{}, "digest=%c", r.digest[0])
	moment("lease", r.lease)
	moment("due", r.due)
	moment("deadline", r.deadline)
	moment("review", r.review)
	add(r.lastError != "", "error=%q", r.lastError)
	return b.String()
}

// relative prints a moment as seen from now: +30s is to come, -5s is past.
func relative(d time.Duration) string {
	if d == 0 {
		return "=now"
	}
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	if d > 0 {
		return "=+" + text
	}
	return "=" + text
}

func logLine(l *lifecycle.Attempt) string {
	text := fmt.Sprintf("gen=%d attempt=%d %v", l.Generation, l.Number, l.Outcome)
	if l.Code != "" {
		text += " " + string(l.Code)
	}
	if l.HTTPStatus != 0 {
		text += fmt.Sprintf(" http=%d", l.HTTPStatus)
	}
	if l.Wait != 0 {
		text += fmt.Sprintf(" wait=%v", l.Wait)
	}
	if l.Error != "" {
		text += fmt.Sprintf(" error=%q", l.Error)
	}
	if l.Late {
		text += " late"
	}
	return text
}

// splitWords splits at spaces, except within double quotes, which it drops.
func splitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	quoted := false
	for _, c := range line + " " {
		switch {
		case c == '"':
			quoted = !quoted
		case c == ' ' && !quoted:
			if word.Len() > 0 {
				words = append(words, word.String())
			}
			word.Reset()
		default:
			word.WriteRune(c)
		}
	}
	if quoted || len(words) == 0 {
		return nil, fmt.Errorf("cannot read %q", line)
	}
	return words, nil
}

// firstDifference returns the number of the first line that differs, from 1, and
// both lines; 0 if none does.
func firstDifference(got, want string) (line int, g, w string) {
	gs, ws := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(gs), len(ws)) {
		g, w = "(end)", "(end)"
		if i < len(gs) {
			g = gs[i]
		}
		if i < len(ws) {
			w = ws[i]
		}
		if g != w {
			return i + 1, g, w
		}
	}
	return 0, "", ""
}
