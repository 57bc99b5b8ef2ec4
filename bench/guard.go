package bench

import (
	"errors"
	"fmt"
	"io"
	"math"
)

// Speed is the measure of the guard: small drains, whose ratios are compared with
// those on record.
const Speed = "speed"

// guarded are the comparisons of the guard. Ratios, bytes of log and allocations
// depend little on the machine, and times do.
var guarded = []comparison{
	{measure: Speed, what: "work drained, to River", of: perSecond, ours: Work, theirs: River},
	{measure: Speed, what: "work by processor time, to River", of: perCPUSecond, ours: Work, theirs: River},
	{measure: Speed, what: "work drained, to the floor", of: perSecond, ours: Work, theirs: Floor},
	{measure: Speed, what: "work by processor time, to the floor", of: perCPUSecond, ours: Work, theirs: Floor},
	{measure: Speed, what: "messages drained, to River", of: perSecond, ours: Messages, theirs: River},
	{measure: Speed, what: "messages by processor time, to River", of: perCPUSecond, ours: Messages, theirs: River},
	{measure: Speed, what: "WAL of work", of: walEach, ours: Work, unit: "B", less: true},
	{measure: Speed, what: "WAL of a message", of: walEach, ours: Messages, unit: "B", less: true},
	{measure: Speed, what: "allocations in the drain of work", of: allocated, ours: Work, unit: "each", less: true},
	{measure: Speed, what: "allocations in the drain of a message", of: allocated, ours: Messages, unit: "each", less: true},
	{measure: Speed, what: "memory allocated in the drain of work", of: allocBytes, ours: Work, unit: "B", less: true},
	{measure: Speed, what: "memory allocated in the drain of a message", of: allocBytes, ours: Messages, unit: "B", less: true},
}

// Verdict is what the guard says of one figure.
type Verdict string

// What it may say. Only differences that the noise of rounds does not explain are
// better or worse.
const (
	Better Verdict = "better"
	Same   Verdict = "same"
	Worse  Verdict = "worse"
)

// Judged is one figure of the guard.
type Judged struct {
	Recorded, Now Line
	Change        float64 // of the figure, in percent
	Verdict       Verdict
}

// noticed is the least change, in percent, that is called one: less is within what
// two builds of the same program differ by.
const noticed = 3

// Judge compares what is measured now with what is on record. It is an error where
// the record has no figures of the guard, or lacks some.
func Judge(record *Record, now []Sample) ([]Judged, error) {
	recorded, lines := record.Lines(Speed), Compare(now, []string{Speed})
	if len(recorded) != len(guarded) {
		return nil, fmt.Errorf("the record has %d of %d figures of the guard: measure them, with -page or -out and -measures %s",
			len(recorded), len(guarded), Speed)
	}
	if len(lines) != len(guarded) {
		return nil, errors.New("not every figure of the guard was measured")
	}
	out := make([]Judged, len(lines))
	for i := range out {
		out[i] = judge(recorded[i], lines[i])
	}
	return out, nil
}

// judge calls it a change where no round now is within the range of the rounds on
// record, and the other way round.
func judge(recorded, now Line) Judged {
	j := Judged{Recorded: recorded, Now: now, Change: (now.Ratio/recorded.Ratio - 1) * 100, Verdict: Same}
	apart := now.Low > recorded.High || now.High < recorded.Low
	if !apart || math.Abs(j.Change) < noticed {
		return j
	}
	j.Verdict = Better
	if (j.Change > 0) == now.Less {
		j.Verdict = Worse
	}
	return j
}

// PrintJudged writes a table, and returns how many figures are worse.
func PrintJudged(w io.Writer, run *Results, all []Judged) (worse int) {
	m, c := &run.Machine, &run.Config
	fmt.Fprintf(w, "\ncompared with what was recorded on %s (%s, %d CPUs): %d rounds of %d\n\n", m.At.Format("2006-01-02"), m.Go, m.CPUs,
		c.Runs, c.N)
	fmt.Fprintf(w, "%-44s %9s  %-16s %9s  %-16s %8s\n", "", "recorded", "rounds", "now", "rounds", "change")
	for _, j := range all {
		says := string(j.Verdict)
		if j.Verdict != Same {
			says += " than the noise of rounds allows"
		}
		if j.Verdict == Worse {
			worse++
		}
		fmt.Fprintf(w, "%-44s %9s  %-16s %9s  %-16s %+7.1f%%  %s\n", j.Now.What, Short(j.Recorded.Ratio),
			Short(j.Recorded.Low)+" to "+Short(j.Recorded.High), Short(j.Now.Ratio), Short(j.Now.Low)+" to "+Short(j.Now.High), j.Change, says)
	}
	fmt.Fprintf(w, "\n%d of %d figures are worse. Repeat it before believing it: another machine and another load change ratios too.\n",
		worse, len(all))
	return worse
}
