package lifecycle_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/consign-go/consign/internal/lifecycle"
)

// table holds the answers of one section: a dense array over the dimensions that
// still matter. A cell that cannot be has no answer.
type table struct {
	dims    []int   // which dimension each axis is
	values  [][]int // which of its values each axis holds
	answers []int   // index into texts, or -1
	texts   []string
}

// section asks Apply about every possible cell of one part of the grid, and shows
// each answer to those who look on.
func section(p part, look ...func(*lifecycle.State, *lifecycle.Event, lifecycle.Transition)) *table {
	t := &table{}
	size := 1
	for d := range dimensions {
		t.dims = append(t.dims, d)
		t.values = append(t.values, p.asked(d))
		size *= len(t.values[d])
	}
	t.answers = make([]int, size)
	known := map[string]int{}
	for i := range t.answers {
		c := t.cell(i)
		t.answers[i] = -1
		if !p.possible(&c) {
			continue
		}
		st := c.state(p.erased)
		e := c.event(p.event, &st)
		answer := lifecycle.DefaultPolicy.Apply(st, e)
		for _, f := range look {
			f(&st, &e, answer)
		}
		text := printed(&st, &e, answer)
		n, ok := known[text]
		if !ok {
			n = len(t.texts)
			known[text] = n
			t.texts = append(t.texts, text)
		}
		t.answers[i] = n
	}
	return t
}

// cell undoes the mixed radix of an index.
func (t *table) cell(i int) (c cell) {
	for axis := len(t.dims) - 1; axis >= 0; axis-- {
		n := len(t.values[axis])
		c[t.dims[axis]] = t.values[axis][i%n]
		i /= n
	}
	return c
}

// lines prints the table as sets of cells with one answer each.
func (t *table) lines() []string {
	for axis := len(t.dims) - 1; axis >= 0; axis-- {
		t.project(axis)
	}
	if len(t.dims) == 0 {
		if t.answers[0] < 0 {
			return nil
		}
		return []string{"  => " + t.texts[t.answers[0]]}
	}
	best, least := 0, -1
	for axis := range t.dims {
		if n := t.mixed(axis); least < 0 || n < least {
			best, least = axis, n
		}
	}
	return t.split(best)
}

// slice is the table at one value of an axis.
func (t *table) slice(axis, v int) *table {
	n, stride := len(t.values[axis]), t.stride(axis)
	sub := &table{texts: t.texts}
	sub.dims = slices.Delete(slices.Clone(t.dims), axis, axis+1)
	sub.values = slices.Delete(slices.Clone(t.values), axis, axis+1)
	sub.answers = make([]int, 0, len(t.answers)/n)
	for base, a := range t.answers {
		if base/stride%n == v {
			sub.answers = append(sub.answers, a)
		}
	}
	return sub
}

// mixed is how many different answers are left, in sum, after a split by an axis
// whose like values are taken together. The axis that tells most leaves fewest.
func (t *table) mixed(axis int) int {
	sum := 0
	var met [][]int
	for v := range t.values[axis] {
		answers := t.slice(axis, v).answers
		if slices.ContainsFunc(met, func(m []int) bool { return slices.Equal(m, answers) }) {
			continue
		}
		met = append(met, answers)
		distinct := map[int]bool{}
		for _, a := range answers {
			if a >= 0 {
				distinct[a] = true
			}
		}
		sum += len(distinct)
	}
	return sum
}

// stride is the distance between neighbours along an axis.
func (t *table) stride(axis int) int {
	stride := 1
	for _, v := range t.values[axis+1:] {
		stride *= len(v)
	}
	return stride
}

// project drops an axis along which no answer changes.
func (t *table) project(axis int) {
	n, stride := len(t.values[axis]), t.stride(axis)
	merged := make([]int, 0, len(t.answers)/n)
	for base := range t.answers {
		if base/stride%n != 0 {
			continue
		}
		answer := -1
		for v := range n {
			switch a := t.answers[base+v*stride]; {
			case a < 0:
			case answer >= 0 && a != answer:
				return
			default:
				answer = a
			}
		}
		merged = append(merged, answer)
	}
	t.answers = merged
	t.dims = slices.Delete(slices.Clone(t.dims), axis, axis+1)
	t.values = slices.Delete(slices.Clone(t.values), axis, axis+1)
}

// split prints one group of lines for each set of values of an axis that are
// answered alike.
func (t *table) split(axis int) []string {
	type group struct {
		names []string
		lines []string
	}
	var groups []group
	d := grid[t.dims[axis]]
	for v := range t.values[axis] {
		lines := t.slice(axis, v).lines()
		if len(lines) == 0 {
			continue
		}
		name := d.values[t.values[axis][v]]
		at := slices.IndexFunc(groups, func(g group) bool { return slices.Equal(g.lines, lines) })
		if at < 0 {
			groups = append(groups, group{lines: lines})
			at = len(groups) - 1
		}
		groups[at].names = append(groups[at].names, name)
	}
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(len(a.lines), len(b.lines)) })
	var all []string
	for _, g := range groups {
		condition := fmt.Sprintf("  %s=%s", d.name, strings.Join(g.names, "|"))
		if d.name == "code(given)" && len(g.names) > len(d.values)/2 {
			condition = "  code(given)=any other"
		}
		for _, l := range g.lines {
			all = append(all, condition+l)
		}
	}
	return all
}

// printed is an answer in one line: what changes, in the order of the columns.
func printed(s *lifecycle.State, e *lifecycle.Event, t lifecycle.Transition) string {
	if t.Answer != lifecycle.Apply {
		text := t.Answer.String()
		switch {
		case t.Answer == lifecycle.Refuse && t.Code == lifecycle.Fenced:
		case t.Code != "" || t.Answer == lifecycle.Refuse:
			text += ", reports " + string(t.Code)
		}
		if t.Log != nil {
			text += " " + printedLog(s, e, &t)
		}
		return text
	}
	var parts []string
	add := func(when bool, format string, args ...any) {
		if when {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	set := &t.Set
	add(true, "-> %v", set.Status)
	add(set.Code != s.Code, "%s", given(set.Code, e))
	add(set.Code != s.Code && t.Code != set.Code, "reports %s", t.Code)
	add(set.Generation != s.Generation, "gen%+d", set.Generation-s.Generation)
	add(set.Owner != s.Owner, "owner=%s", map[lifecycle.Token]string{{}: "none", eventOwner: "event"}[set.Owner])
	add(set.InFlight && !s.InFlight, "in_flight")
	add(!set.InFlight && s.InFlight, "not_in_flight")
	add(set.Started, "started")
	add(set.Erased, "erased")
	add(set.Attempts != s.Attempts, "attempts%+d", set.Attempts-s.Attempts)
	add(set.Crashes == 0 && (s.Crashes > 0 || set.Started), "crashes=0")
	add(set.Crashes > s.Crashes, "crashes%+d", set.Crashes-s.Crashes)
	add(set.Uncertain && !s.Uncertain, "uncertain")
	add(!set.Uncertain && s.Uncertain, "certain")
	add(set.Started && set.Digest == e.Digest, "digest=event")
	add(!set.Started && set.Digest != s.Digest || set.Started && set.Digest != e.Digest, "digest=wrong")
	for _, c := range []struct {
		name string
		to   lifecycle.Change
	}{{"due", set.Due}, {"lease", set.Lease}, {"review", set.Review}} {
		add(c.to != lifecycle.Keep, "%s=%s", c.name, moment(c.to))
	}
	add(set.SetError && set.Error == "", "error=-")
	add(set.SetError && set.Error != "", "error=given")
	add(set.SetContract, "contract=given")
	add(t.Require != lifecycle.Require{}, "%s", needed(t.Require))
	add(t.Log != nil, "%s", printedLog(s, e, &t))
	return strings.Join(parts, " ")
}

func needed(r lifecycle.Require) string {
	var parts []string
	switch {
	case r.LeaseLeft == 1:
		parts = append(parts, "lease")
	case r.LeaseLeft > 0:
		parts = append(parts, fmt.Sprintf("lease>=%v", r.LeaseLeft))
	}
	if r.DeadlineLeft {
		parts = append(parts, "deadline")
	}
	return "needs(" + strings.Join(parts, ", ") + ")"
}

func given(c lifecycle.Code, e *lifecycle.Event) string {
	if c == e.Code {
		return "given"
	}
	return string(c)
}

func moment(c lifecycle.Change) string {
	switch c {
	case lifecycle.Clear:
		return "-"
	case lifecycle.AtLeaseEnd:
		return "lease_end"
	case 0:
		return "now"
	}
	return time.Duration(c).String()
}

func printedLog(s *lifecycle.State, e *lifecycle.Event, t *lifecycle.Transition) string {
	l := t.Log
	if l == nil {
		return ""
	}
	text := "log(" + l.Outcome.String()
	switch {
	case l.Late:
		text += " #given late"
	case l.Number == t.Set.Attempts:
		text += " #this"
	case l.Number == t.Set.Attempts+1:
		text += " #next"
	default:
		text += fmt.Sprintf(" #%d", l.Number)
	}
	if l.Code != "" && !l.Late {
		text += " " + given(l.Code, e)
	}
	if l.Wait > 0 {
		text += " wait"
	}
	if l.Error != "" {
		text += " error"
	}
	if l.Generation != s.Generation {
		text += fmt.Sprintf(" gen=%d", l.Generation)
	}
	return text + ")"
}
