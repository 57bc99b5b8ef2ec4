//go:build unix

package dispatchtest

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A fence stops writes and recalls no bytes. A process is stopped after its last
// check and before its first byte, its transport does not heed the end of the
// effect's context, and another process settles meanwhile. When it resumes, its
// request arrives all the same, under a generation that is over. What it writes down
// is refused byte for byte, and kept as late evidence.
func TestRequestOfAPausedProcessStillArrivesAndItsWriteDoesNot(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		t.Parallel()
		far := newReceiver(t)
		kinds := slices.DeleteFunc(grid(12*time.Second, 4*time.Second), kind.process) // those nobody takes over
		p := program{Address: d.address, Name: "paused", Receiver: far.place(), Kinds: kinds, Policy: brief, Deaf: true, Replay: true}
		p.Trouble = trouble{Point: atCalled, Refs: map[string]int{}, Sig: syscall.SIGSTOP}
		for _, k := range kinds {
			p.Trouble.Refs[name(d.enqueue(t, k, 1)[0])] = 1
		}
		paused := p.start(t)
		paused.stopped()
		p.Name, p.Trouble = "other", trouble{Refs: p.Trouble.Refs}
		other := p.start(t)
		until(t, "the other one has settled everything", func() bool {
			n, err := d.unsettled(t.Context())
			return err == nil && n == 0
		})
		other.end()
		before, rows := far.all(), map[string]string{}
		for ref := range p.Trouble.Refs {
			rows[ref] = d.mustBytes(t, ref)
		}
		if slices.ContainsFunc(before, func(a arrival) bool { return strings.HasPrefix(a.worker, "paused") }) {
			t.Error("a request came from a process that stands still before its first byte")
		}

		paused.resume()
		out := paused.end()
		after := map[string]int{}
		for _, a := range far.all()[len(before):] {
			if after[a.key]++; !strings.HasPrefix(a.worker, "paused") || a.generation != 1 || !a.whole {
				t.Errorf("there came %+v", a)
			}
		}
		found, err := d.read(t.Context(), far.all())
		if err != nil {
			t.Fatal(err)
		}
		for ref, row := range rows {
			if after[ref] != 1 {
				t.Errorf("%d requests came from the resumed process, want 1: nothing can recall it", after[ref])
			}
			if is := d.mustBytes(t, ref); is != row {
				t.Errorf("the row of %s changed\nfrom %s\nto   %s", ref, row, is)
			}
			late := slices.DeleteFunc(found[ref].log, func(l logged) bool { return !l.late })
			if len(late) != 1 || late[0].generation != 1 || late[0].outcome != outcomeAccepted {
				t.Errorf("late evidence %+v\n%s", late, found[ref].story())
			}
		}
		if out.Held != 0 || out.Fences != len(kinds) {
			t.Errorf("%d writes made once more held, %d were fenced, want 0 and %d", out.Held, out.Fences, len(kinds))
		}
	})
}
