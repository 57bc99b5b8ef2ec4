package webhook

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var guideRow = regexp.MustCompile("^\\| (other )?([\\d–, ]+?)( with `Retry-After`)? \\| (accepted|refused|rejected|unknown|not sent) \\|")

// guide is the table of docs/webhooks.md: verdicts by status, without and with
// Retry-After.
func guide(t *testing.T) map[string]string {
	text, err := os.ReadFile("../docs/webhooks.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.SplitSeq(string(text), "\n") {
		row := guideRow.FindStringSubmatch(line)
		if row == nil {
			continue
		}
		for one := range strings.SplitSeq(row[2], ", ") {
			from, to, isRange := strings.Cut(one, "–")
			if !isRange {
				to = from
			}
			first, err1 := strconv.Atoi(from)
			last, err2 := strconv.Atoi(to)
			if err1 != nil || err2 != nil {
				t.Fatalf("%q cannot be read", line)
			}
			for status := first; status <= last; status++ {
				plain, asked := fmt.Sprint(status), fmt.Sprint(status, " asks")
				switch {
				case row[3] != "":
					out[asked] = row[4]
				case row[1] != "":
					if out[plain] == "" {
						out[plain] = row[4]
					}
				default:
					out[plain] = row[4]
				}
			}
		}
	}
	return out
}

func TestGuideSaysWhatTheTableDoes(t *testing.T) {
	said := guide(t)
	for status := 200; status <= 599; status++ {
		rule := find(rules, status)
		plain := said[fmt.Sprint(status)]
		asked := said[fmt.Sprint(status, " asks")]
		if asked == "" {
			asked = plain
		}
		if plain != rule.Verdict.String() || asked != rule.Waiting.String() {
			t.Errorf("%d: the guide says %q and %q, the table %q and %q", status, plain, asked, rule.Verdict, rule.Waiting)
		}
	}
}
