package suite

import (
	sqldriver "database/sql/driver"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
)

// Clock shows that the store's expression for the database's clock tells the same
// time as the machine's, to the millisecond, stands still within a statement, and is
// exact for every millisecond that there will be.
func Clock(t *testing.T, l Library) {
	var expression string
	db := l.OpenHooked(t, filepath.Join(t.TempDir(), "clock.db"), 1, func(query string, _ []sqldriver.NamedValue) error {
		if rest, found := strings.CutPrefix(query, "SELECT "); found && strings.Contains(query, "'now'") {
			expression = rest
		}
		return nil
	})
	b := Migrated(t, db, "").Driver(driver.Key{})
	steps := map[time.Duration]int{}
	last, err := b.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// A slow machine may step over single milliseconds for a while.
	for n, end := 0, time.Now().Add(time.Minute); n < 2000 || steps[time.Millisecond] == 0 && time.Now().Before(end); n++ {
		before := time.Now()
		now, err := b.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if after := time.Now(); now.Before(before.Truncate(time.Millisecond)) || now.After(after) {
			t.Fatalf("the clock shows %s between %s and %s", now, before, after)
		}
		if now != now.Truncate(time.Millisecond) {
			t.Fatalf("the clock shows %s, not a whole millisecond", now)
		}
		if now.Before(last) {
			t.Fatalf("the clock runs back from %s to %s", last, now)
		}
		steps[now.Sub(last)]++
		last = now
	}
	if steps[time.Millisecond] == 0 {
		t.Errorf("the clock never moved by one millisecond: %v", steps)
	}
	var different int
	still := fmt.Sprintf(`WITH RECURSIVE n(i, first) AS (SELECT 1, %[1]s UNION ALL SELECT i + 1, first FROM n WHERE i < 200000)
SELECT count(*) FROM n WHERE first <> %[1]s`, expression)
	if err := db.QueryRow(still).Scan(&different); err != nil || different != 0 {
		t.Errorf("the clock moved within a statement, for %d rows: %v", different, err)
	}
	at := strings.ReplaceAll(expression, "'now'", "?")
	for range 20_000 {
		want := time.UnixMilli(rand.Int64N(time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli())).UTC()
		var got int64
		if err := db.QueryRow("SELECT "+at, want.Format("2006-01-02T15:04:05.000")).Scan(&got); err != nil || got != want.UnixMicro() {
			t.Fatalf("%s is %d, want %d: %v", want, got, want.UnixMicro(), err)
		}
	}
}
