package drivertest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/consign-go/consign/internal/driver"
)

func deskRecent[TX any](b *bench[TX]) {
	b.ended(3)
	b.shift(time.Hour)
	b.ended(2)
	b.inReview()
	b.insert(b.message("mail"))
	now, err := b.desk().Now(b.ctx)
	b.ok("now", err)
	count := func(parts, limit int) string {
		r := driver.RecentRequest{From: now.Add(-95 * time.Minute), Part: 30 * time.Minute, Parts: parts, Limit: limit}
		list, err := b.desk().Recent(b.ctx, r)
		b.ok("recent", err)
		var lines []string
		for _, e := range list {
			lines = append(lines, fmt.Sprintf("%s %s %d %d", e.Profile, e.Status, e.Place, e.N))
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	for _, c := range []struct {
		parts, limit int
		want         string
	}{
		{4, 100, "message succeeded 1 3\nmessage succeeded 3 2\nwork reconciliation_required 3 1"},
		{3, 100, "message succeeded 1 3"},
		{1, 100, ""},
		{2, 1, "message succeeded 1 2"},
		{2, 2, "message succeeded 1 3"},
	} {
		got := count(c.parts, c.limit)
		b.that(got == c.want, "%d parts to %d: counted\n%s\nwant\n%s", c.parts, c.limit, got, c.want)
	}
}
