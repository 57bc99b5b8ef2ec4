//go:build unix

package dispatchtest

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/effort"
)

// clockVariable says how the wall clock of a process is wrong. Only a binary that
// was built with the time package of internal/seeded heeds it.
const clockVariable = "CONSIGN_CLOCK"

// wrongs are the ways in which a wall clock is wrong.
var wrongs = []string{"ahead", "behind", "frozen", "backwards", "jumping"}

// Worker processes whose wall clocks are three hours off, frozen, running backwards
// or jumping deliver together. The database's clock alone counts: nothing is lost,
// nothing that is not idempotent is sent twice, no lease is taken before its time.
//
// Built as usual, with clocks that are right, this shows the workers only;
// internal/seeded builds it with clocks that can be wrong.
func TestWorkersWithWrongClocksLoseNothingAndRepeatNothing(t *testing.T) {
	t.Parallel()
	d := migrated(t, databases[0].make(t))
	far := newReceiver(t)
	far.takes = 10 * time.Millisecond
	p := program{Address: d.address, Receiver: far.place(), Policy: brief, Kinds: grid(briefLease, briefTimeout)}
	for i := range p.Kinds {
		p.Kinds[i].Contract.MaxAge = time.Hour // which a clock that is three hours off is beyond
	}
	bent := os.Getenv("CONSIGN_CLOCKS_BENT") != ""
	var fleet []*process
	for _, wrong := range wrongs {
		p.Name, p.Clock = wrong, wrong
		fleet = append(fleet, p.start(t))
	}
	stop := d.pour(t, p.Kinds)
	far.more(t, 40*len(wrongs))
	until(t, "each of them has sent something", func() bool { // also one that was slow to start
		sent := map[string]bool{}
		for _, a := range far.all() {
			name, _, _ := strings.Cut(a.worker, " ")
			sent[name] = true
		}
		return len(sent) == len(wrongs)
	})
	// One dies with what it has in hand, which the others take when its lease is over.
	if err := fleet[0].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	fleet[0].died()
	far.more(t, 40)
	total := stop()
	until(t, "everything has come to an end", func() bool {
		n, err := d.unsettled(t.Context())
		return err == nil && n == 0
	})
	off := 0
	for _, c := range fleet[1:] {
		const rounding = 10 * time.Millisecond
		asked := time.Now()
		wall := time.UnixMilli(c.end().Wall)
		if wall.Before(asked.Add(-rounding)) || wall.After(time.Now().Add(rounding)) {
			off++
		}
	}
	if bent && off < len(wrongs)-2 || !bent && off > 0 { // one that jumps may be right at the moment
		t.Errorf("the clocks of %d workers were wrong in the end", off)
	}
	sent := map[string]int{}
	for _, a := range far.all() {
		sent[a.worker]++
	}
	if len(sent) != len(wrongs) {
		t.Errorf("only %v have sent anything", sent)
	}
	found := d.audit(t, far.all())
	delivered := 0
	for _, f := range found {
		if f.now.status == isSucceeded {
			delivered++
		}
	}
	if len(found) != total || delivered < total*9/10 {
		t.Errorf("%d intents of %d are there, %d were delivered", len(found), total, delivered)
	}
	if bent {
		effort.Note(t, "%d of %d intents were delivered by workers whose clocks are %q", delivered, total, wrongs)
	}
}
