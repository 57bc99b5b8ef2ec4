package console

import (
	"strconv"
	"strings"
	"time"

	"github.com/consign-go/consign/operator"
)

// sparkline is a small chart with its meaning in words, for those who do not see it.
type sparkline struct {
	Name   string
	Class  string
	Words  string
	Points string // of a polyline, in a box of 120 by 24
	Total  string
}

const sparkWide, sparkHigh = 120, 24

// sparklines are how what was created lately has ended.
func (s *snapshot) sparklines() (out []sparkline) {
	for _, r := range s.Recent {
		total, most, capped := 0, 0, false
		for i, n := range r.N {
			total, most, capped = total+n, max(most, n), capped || r.Capped[i]
		}
		out = append(out, sparkline{
			Name: string(r.Profile) + ", " + statusText(r.Status), Class: standingOf(operator.Summary{Status: r.Status}).Class,
			Words: counted(total, capped) + " of those created within " + span(r.Part*time.Duration(len(r.N))) +
				"; " + counted(r.N[len(r.N)-1], r.Capped[len(r.N)-1]) + " of the last " + span(r.Part) + ", " + counted(most, capped) + " of the busiest",
			Points: points(r.N, most), Total: counted(total, capped),
		})
	}
	return out
}

// points draws numbers from left to right.
func points(numbers []int, most int) string {
	var b strings.Builder
	for i, n := range numbers {
		if i > 0 {
			b.WriteByte(' ')
		}
		x := float64(i) * (sparkWide - 2) / float64(max(len(numbers)-1, 1))
		y := float64(sparkHigh-2) * (1 - float64(n)/float64(max(most, 1)))
		b.WriteString(strconv.FormatFloat(x+1, 'f', 1, 64) + "," + strconv.FormatFloat(y+1, 'f', 1, 64))
	}
	return b.String()
}
