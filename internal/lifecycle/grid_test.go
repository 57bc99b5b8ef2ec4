package lifecycle_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/lifecycle"
)

const gridFile = "testdata/grid.txt"

// gridHead stands at the top of the golden file.
const gridHead = `What Apply answers, for every status and every event. Generated: go test ./internal/lifecycle -run Grid -update

How to read it. Each section is one status and one event. Each line is a set of cells and their one answer:
the conditions before "=>" hold together, "|" between values means any of them, and what a line does not
mention makes no difference there. Every cell of a section is in exactly one line. What is erased has sections
of its own, at the end, for all statuses together.

Conditions
  contract   work; messages by who owns their retries: sched (the schedule), loop (the process), hand (claimed by
             hand), new (not known yet). "+": idempotent. 3 attempts, by hand no limit; timeout 30s, lease 60s
  holder     event: the claim that the event names; other: another one; nobody; somebody: an event that names none
  phase      in_flight: an attempt may be on the wire; waiting: between two attempts of a process-owned loop
  lease      what is left of it; the settle margin is 10s, so a start needs 40s. none: no lease
  deadline   left (1us), passed (0)
  attempts   counted so far, of 3. Work counts as an attempt starts, a message as it ends
  crashes    owners in a row that vanished before the start; the budget is 5
  names      the attempt that an outcome names: this (the one in flight) or other
  digest     unbound; same: as the event's; other
  code       (stored) what the row holds, (given) what the event brings
Answers
  unchanged  nothing to do, and no fault
  refuse     fenced or not allowed: nothing changes, FENCED is reported
  too_late   the lease has no room for the effect: nothing changes
  -> x       written: the new status, its code (reported too), and every other column that changes
  gen+1, attempts+1, crashes+1; owner=event (the event's), owner=none; digest=event: bound, or still the same; due,
  lease, review set to so long from now, to the end of the lease, or cleared (-); needs(...): what the write asks
  the database clock again;
  log(...): the row of the attempt log, #this the attempt that just ended or crashed, #next the one not started,
  #given the one the event names; late: kept beside, as evidence; "given" is the event's own code or contract.
`

// A dimension is one question about a cell. Its first value stands for "any"
// where a section does not ask.
type dimension struct {
	name   string
	values []string
}

// The dimensions, in the order in which lines mention them.
const (
	dStatus = iota
	dContract
	dHolder
	dPhase
	dNames
	dStored
	dGiven
	dRetryable
	dHandIdem
	dTold
	dDigest
	dGate
	dDue
	dLease
	dDeadline
	dAttempts
	dUncertain
	dCrashes
	dimensions
)

var grid = [dimensions]dimension{
	dStatus:    {"status", statusNames()},
	dContract:  {"contract", []string{"work", "work+", "sched", "sched+", "loop", "loop+", "hand", "new"}},
	dHolder:    {"holder", []string{"event", "other", "somebody", "nobody"}},
	dPhase:     {"phase", []string{"in_flight", "waiting", "none"}},
	dNames:     {"names", []string{"this", "other"}},
	dStored:    {"code(stored)", []string{"none", "set"}},
	dGiven:     {"code(given)", codeNames()},
	dRetryable: {"retryable", []string{"no", "yes"}},
	dHandIdem:  {"event_idempotent", []string{"no", "yes"}},
	dTold:      {"told", []string{"nothing", "not_sent", "refused", "rejected", "unknown"}},
	dDigest:    {"digest", []string{"same", "unbound", "other"}},
	dGate:      {"gate", []string{"open", "closed"}},
	dDue:       {"due", []string{"now", "later"}},
	dLease: {"lease", []string{
		"40s", "40s-1us", "1us", "over_0", "over_10s-1us", "over_10s", "none",
	}},
	dDeadline:  {"deadline", []string{"left", "passed"}},
	dAttempts:  {"attempts", []string{"1", "2", "3"}},
	dUncertain: {"uncertain", []string{"no", "yes"}},
	dCrashes:   {"crashes", []string{"0", "3", "4"}},
}

var leaseLeft = []time.Duration{
	40 * time.Second, 40*time.Second - time.Microsecond, time.Microsecond, 0,
	-10*time.Second + time.Microsecond, -10 * time.Second, time.Hour, // meaningless without a lease
}

func statusNames() []string {
	names := make([]string, len(lifecycle.Statuses))
	for i, s := range lifecycle.Statuses {
		names[i] = s.String()
	}
	return names
}

func codeNames() []string {
	names := make([]string, len(lifecycle.Codes))
	for i, c := range lifecycle.Codes {
		names[i] = string(c)
	}
	return names
}

// cell is one value for each dimension.
type cell [dimensions]int

func (c *cell) is(d int, value string) bool { return grid[d].values[c[d]] == value }

func (c *cell) isWork() bool { return c[dContract] < 2 }

func (c *cell) isLoop() bool {
	return c.is(dContract, "loop") || c.is(dContract, "loop+") || c.is(dContract, "hand")
}

func (c *cell) status() lifecycle.Status { return lifecycle.Statuses[c[dStatus]] }

// part is what one section is about: one status and event, or one event and
// everything that is erased.
type part struct {
	status lifecycle.Status
	event  lifecycle.EventKind
	erased bool
}

func (p part) String() string {
	if p.erased {
		return fmt.Sprintf("erased x %v", p.event)
	}
	return fmt.Sprintf("%v x %v", p.status, p.event)
}

// parts lists every section.
func parts() []part {
	var all []part
	for _, s := range lifecycle.Statuses {
		for _, k := range lifecycle.EventKinds() {
			all = append(all, part{status: s, event: k})
		}
	}
	for _, k := range lifecycle.EventKinds() {
		all = append(all, part{event: k, erased: true})
	}
	return all
}

// asked lists the values of a dimension that a section asks about: the first one
// alone where the question cannot matter or cannot arise.
func (p part) asked(d int) []int {
	all := make([]int, len(grid[d].values))
	for i := range all {
		all[i] = i
	}
	k, s := p.event, p.status
	ask := true
	switch d {
	case dStatus:
		if !p.erased {
			return []int{slices.Index(lifecycle.Statuses, s)}
		}
	case dPhase:
		if p.erased || s != lifecycle.Delivering {
			return all[2:]
		}
		return all[:2]
	case dLease:
		if p.erased || s != lifecycle.Leased && s != lifecycle.Delivering {
			return all[len(all)-1:]
		}
	case dNames:
		ask = tellsOutcome(k) && !byHand(k)
	case dStored:
		ask = s == lifecycle.Succeeded
	case dGiven:
		ask = takesCode(k)
	case dRetryable:
		ask = k == lifecycle.EvRejected
	case dHandIdem:
		ask = k == lifecycle.EvHandClaim
	case dTold:
		ask = k == lifecycle.EvHandAttempt || k == lifecycle.EvHandFailed
	case dDigest:
		ask = starts(k) && !p.erased
	case dGate:
		ask = claims(k) && !p.erased
	case dDue:
		ask = (claims(k) || k == lifecycle.EvUnserved) && !p.erased
	case dDeadline, dAttempts:
		ask = !s.Terminal() && !p.erased
	case dUncertain:
		ask = !p.erased
	case dCrashes:
		ask = s <= lifecycle.Leased && !p.erased
	}
	if !ask {
		return all[:1]
	}
	return all
}

func takesCode(k lifecycle.EventKind) bool {
	return k == lifecycle.EvStopped || k == lifecycle.EvUnserved
}

// possible reports whether a store could hold such a row and be asked about it.
func (p part) possible(c *cell) bool {
	s, nobody := c.status(), c.is(dHolder, "nobody")
	byHandHere, unknown := c.is(dContract, "hand"), c.is(dContract, "new")
	switch {
	case c.isWork() && s == lifecycle.Failed,
		!c.isWork() && (s == lifecycle.Cancelled || s == lifecycle.ReconciliationRequired),
		c.is(dUncertain, "yes") && (s == lifecycle.Succeeded || s == lifecycle.Cancelled),
		unknown && s != lifecycle.Pending && s != lifecycle.Failed,
		byHandHere && s < lifecycle.Delivering:
		return false // no such row
	case p.erased:
		return nobody
	case byOwner(p.event) && c.is(dHolder, "somebody"), !byOwner(p.event) && c[dHolder] < 2:
		return false // an event names a claim, or it does not
	case s == lifecycle.Pending:
		return nobody
	case s == lifecycle.Leased:
		return !nobody && !c.is(dLease, "none")
	case s != lifecycle.Delivering:
		return true
	case c.is(dDigest, "unbound"), nobody != c.is(dLease, "none"):
		return false
	case nobody:
		return c.isLoop() && c.is(dPhase, "waiting") // stranded, then resolved
	case c.is(dPhase, "waiting"):
		return c.isLoop() && !byHandHere
	}
	return c.isWork() || byHandHere || !c.is(dAttempts, "3") // a message counts its third as it ends
}

var (
	eventOwner = lifecycle.Token{1}
	otherOwner = lifecycle.Token{2}
)

// state builds the row that a cell describes.
func (c *cell) state(erased bool) lifecycle.State {
	st := lifecycle.State{
		Profile: lifecycle.Work, Status: c.status(), Generation: 7, Revision: 21,
		Contract: lifecycle.Contract{
			Retry: lifecycle.Schedule, Idempotent: strings.HasSuffix(grid[dContract].values[c[dContract]], "+"),
			MaxAttempts: 3, Lease: time.Minute, Timeout: 30 * time.Second, MaxAge: time.Hour,
		},
		InFlight: c.is(dPhase, "in_flight"), Attempts: c[dAttempts] + 1, Uncertain: c.is(dUncertain, "yes"),
		Crashes: []int{0, 3, 4}[c[dCrashes]], Erased: erased,
		GateOpen: c.is(dGate, "open"), LeaseLeft: leaseLeft[c[dLease]], DeadlineLeft: time.Microsecond,
		Digest: digestOf('x'),
	}
	if !c.isWork() {
		st.Profile = lifecycle.Message
	}
	if c.isLoop() {
		st.Contract.Retry = lifecycle.Process
	}
	switch {
	case c.is(dContract, "hand"):
		st.Contract.MaxAttempts = 0
	case c.is(dContract, "new"):
		st.Contract = lifecycle.Contract{}
	}
	switch {
	case c.is(dHolder, "event"):
		st.Owner = eventOwner
	case !c.is(dHolder, "nobody"):
		st.Owner = otherOwner
	}
	switch {
	case c.is(dDigest, "unbound"):
		st.Digest = lifecycle.Digest{}
	case c.is(dDigest, "other"):
		st.Digest = digestOf('z')
	}
	if c.is(dStored, "set") {
		st.Code = lifecycle.PostEffectCallbackFailed
	}
	if c.is(dDue, "later") {
		st.DueIn = time.Microsecond
	}
	if c.is(dDeadline, "passed") {
		st.DeadlineLeft = 0
	}
	return st
}

// event builds the event that a cell describes.
func (c *cell) event(k lifecycle.EventKind, st *lifecycle.State) lifecycle.Event {
	e := lifecycle.Event{
		Kind: k, Owner: eventOwner, Generation: 7, Digest: digestOf('x'), Wait: 5 * time.Second, Error: "why",
		Retryable: c.is(dRetryable, "yes"), Told: lifecycle.Outcome(c[dTold]),
		Contract: lifecycle.Contract{
			Retry: lifecycle.Process, Idempotent: c.is(dHandIdem, "yes"), Lease: 90 * time.Second, MaxAge: time.Hour,
		},
	}
	if takesCode(k) {
		e.Code = lifecycle.Codes[c[dGiven]]
	}
	if tellsOutcome(k) {
		e.Attempt = st.Attempts
		if st.Profile == lifecycle.Message && st.Status != lifecycle.Succeeded {
			e.Attempt++
		}
		if c.is(dNames, "other") {
			e.Attempt += 10
		}
	}
	return e
}

// TestGridOfEveryStatusAndEventIsAsReviewed prints what Apply answers for every
// status, event, lease boundary and contract, and compares it with the file that
// a person has read.
func TestGridOfEveryStatusAndEventIsAsReviewed(t *testing.T) {
	var out strings.Builder
	out.WriteString(gridHead)
	for _, p := range parts() {
		fmt.Fprintf(&out, "\n## %v\n", p)
		for _, line := range section(p).lines() {
			out.WriteString(line + "\n")
		}
	}
	got := out.String()
	if *update {
		if err := os.WriteFile(gridFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(gridFile)
	if err != nil {
		t.Fatal(err)
	}
	if line, g, w := firstDifference(got, string(want)); line > 0 {
		t.Errorf("%s:%d\n got: %s\nwant: %s\nRun with -update and review the difference.", gridFile, line, g, w)
	}
}

// TestGridAnswersEveryStatusAndEvent reads the file itself: no pair is missing,
// and each has an answer.
func TestGridAnswersEveryStatusAndEvent(t *testing.T) {
	text, err := os.ReadFile(gridFile)
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]int{}
	heading, section := regexp.MustCompile(`^## (\w+) x (\w+)$`), ""
	for line := range strings.Lines(string(text)) {
		if m := heading.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			section = m[1] + " x " + m[2]
			answers[section] = 0
		} else if strings.Contains(line, "=> ") && section != "" {
			answers[section]++
		}
	}
	for _, p := range parts() {
		if answers[p.String()] == 0 {
			t.Errorf("the grid has no answer for %v", p)
		}
		delete(answers, p.String())
	}
	if len(answers) > 0 {
		t.Errorf("the grid answers what does not exist: %v", answers)
	}
}
