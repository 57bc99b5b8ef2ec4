//go:build unix

package dispatchtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/lifecycle"
)

// place is where a message stands in its task.
type place struct {
	task  string
	index int
}

// messages is the part of grid that is of messages.
func messages(lease, timeout time.Duration) []kind {
	return slices.DeleteFunc(grid(lease, timeout), func(k kind) bool { return k.Profile != lifecycle.Message })
}

// Several worker processes deliver tasks whose messages were committed in any order,
// while the far side refuses at random and workers are killed in the middle of it.
// Within each task no request for a lower index comes after one for a higher: the
// lower one has ended, or is stranded, before the next is started.
func TestTasksAreDeliveredInOrderUnderRetriesAndCrashes(t *testing.T) {
	const tasks, length = 6, 6
	onBoth(t, func(t *testing.T, d *database) {
		t.Parallel() // both wait for leases most of the time
		far := newReceiver(t)
		far.takes = 10 * time.Millisecond
		p := program{Address: d.address, Receiver: far.place(), Policy: brief, Kinds: messages(briefLease, briefTimeout)}
		hire := func(n int) *process {
			p.Name = fmt.Sprintf("worker %d", n)
			return p.start(t)
		}
		workers := []*process{hire(0), hire(1), hire(2), hire(3)}
		until(t, "all are at work", func() bool { // before there is any
			return !slices.ContainsFunc(workers, func(w *process) bool { return !w.said(toldUp) })
		})
		places := map[string]place{}
		for _, k := range p.Kinds {
			rows := k.rows(tasks * length)
			for i := range rows {
				at := place{fmt.Sprintf("%s %d", k.Name, i/length), i % length}
				rows[i].Task, rows[i].Index = at.task, at.index
				places[name(rows[i].Ref)] = at
				d.expect(name(rows[i].Ref), rows[i].Payload)
				far.refuses(name(rows[i].Ref), rand.IntN(4)) // of 5 attempts
			}
			rand.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
			if err := d.commit(t.Context(), rows); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 2 {
			far.more(t, 40)
			workers[i].cmd.Process.Kill()
			if !workers[i].died() {
				t.Fatal("a worker survived")
			}
			workers[i] = hire(len(workers) + i)
		}
		until(t, "everything has come to an end", func() bool {
			n, err := d.unsettled(t.Context())
			return err == nil && n == 0
		})
		for _, w := range workers {
			w.end()
		}
		came := far.all()
		found := d.audit(t, came)
		highest, from := map[string]int{}, map[string]bool{}
		for _, a := range came {
			at := places[a.key]
			if at.index < highest[at.task] {
				t.Errorf("%s: index %d came after %d\n%s", at.task, at.index, highest[at.task], found[a.key].story())
			}
			highest[at.task] = max(highest[at.task], at.index)
			from[a.worker] = true
		}
		if len(found) != len(places) || len(highest) != 3*tasks || len(from) < 4 {
			t.Errorf("%d of %d messages in %d tasks, sent by %d workers", len(found), len(places), len(highest), len(from))
		}
		delivered := 0
		for _, f := range found {
			if f.now.status == isSucceeded {
				delivered++
			}
		}
		t.Logf("%d requests for %d messages, %d of them delivered", len(came), len(places), delivered)
		if delivered < len(places)/2 {
			t.Errorf("only %d of %d were delivered", delivered, len(places))
		}
	})
}
