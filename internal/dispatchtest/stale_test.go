//go:build unix

package dispatchtest

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/effort"
)

// A worker process is stopped between its claim and its start, or between its
// start and its settle, past its lease; another process settles; the first
// resumes, and makes each of its writes once more. All of them are refused: the
// row stays the same byte for byte, and what the first saw is appended once.
func TestStaleOwnerChangesNoByteAndItsEvidenceIsKeptOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		t.Parallel()
		fences, writes, owners := 0, 0, 0
		for round := range effort.Of(2, 40) {
			point := []string{atStarting, atActed}[round%2]
			kinds := grid(12*time.Second, 4*time.Second)
			kinds = slices.DeleteFunc(kinds, func(k kind) bool { return k.process() && point == atActed })
			t.Run(point, func(t *testing.T) {
				out := d.staleOwners(t, point, round, kinds)
				owners += staleEach * len(kinds)
				fences += out.Fences
				writes += out.Replayed
			})
		}
		effort.Note(t, "%d stale owners; %d fences seen, %d writes made once more", owners, fences, writes)
		if fences < owners/3 || writes < owners || owners < effort.Of(25, 500) {
			t.Errorf("%d stale owners, %d fences seen, %d writes made once more: this has shown too little", owners, fences, writes)
		}
	})
}

// staleEach is how many deliveries of each kind stand still at once.
const staleEach = 3

// staleOwners lets one process stand still at a point with some deliveries of each
// kind, and another one go on with them.
func (d *database) staleOwners(t *testing.T, point string, round int, kinds []kind) told {
	far := newReceiver(t)
	p := program{Address: d.address, Name: "first", Receiver: far.place(), Policy: brief, Replay: true}
	p.Trouble = trouble{Point: point, Refs: map[string]int{}, Sig: syscall.SIGSTOP}
	for _, k := range kinds {
		k = k.named(fmt.Sprint(strings.ReplaceAll(k.Name, ",", ""), " ", point, " ", round))
		p.Kinds = append(p.Kinds, k)
		for _, ref := range d.enqueue(t, k, staleEach) {
			p.Trouble.Refs[name(ref)] = 1
		}
	}
	first := p.start(t)
	first.stopped()
	other := p
	other.Name, other.Trouble = "other", trouble{}
	second := other.start(t)
	until(t, "the other one has settled everything", func() bool {
		n, err := d.unsettled(t.Context())
		return err == nil && n == 0
	})
	before := map[string]string{}
	for ref := range p.Trouble.Refs {
		before[ref] = d.mustBytes(t, ref)
	}
	steps, err := d.one(t.Context(), "SELECT count(*) FROM audit_step")
	if err != nil {
		t.Fatal(err)
	}
	first.resume()
	out := first.end()
	if got := second.end(); got.Held != 0 {
		t.Errorf("%d writes of the other one held twice", got.Held)
	}
	if out.Held != 0 || out.Replayed < len(kinds) || point == atActed && out.Fences < len(kinds) {
		t.Errorf("of %d writes made once more %d held; %d fences", out.Replayed, out.Held, out.Fences)
	}
	for ref, was := range before {
		if is := d.mustBytes(t, ref); is != was {
			t.Errorf("the row of %s changed\nfrom %s\nto   %s", ref, was, is)
		}
	}
	if n, err := d.one(t.Context(), "SELECT count(*) FROM audit_step"); err != nil || n != steps {
		t.Errorf("%d changes of deliveries after the first one resumed, %v", n-steps, err)
	}
	came := far.all()
	found := d.auditOf(t, came, p.Trouble.Refs)
	for ref := range before {
		found[ref].late(t, point)
	}
	return out
}

// late checks where a delivery stands that two owners had, and its late evidence.
func (f *finding) late(t *testing.T, point string) {
	late, first := 0, 0
	for _, l := range f.log {
		if l.late {
			late++
			if l.outcome != outcomeAccepted || l.generation != 1 {
				t.Errorf("late evidence %+v", l)
			}
		}
	}
	for _, a := range f.came {
		if strings.HasPrefix(a.worker, "first") {
			first++
		}
	}
	want := struct{ late, first, came, status int }{1, 1, 2, isSucceeded}
	switch {
	case point == atStarting:
		want.late, want.first, want.came = 0, 0, 1
	case !f.idempotent && f.profile == isWork:
		want.came, want.status = 1, isReview
	case !f.idempotent:
		want.came, want.status = 1, isFailed
	}
	if late != want.late || first != want.first || len(f.came) != want.came || f.now.status != want.status {
		t.Errorf("%d rows of late evidence, %d requests, %d of them from the first, status %d; want %+v\n%s",
			late, len(f.came), first, f.now.status, want, f.story())
	}
}

func (d *database) mustBytes(t *testing.T, ref string) string {
	t.Helper()
	row, err := d.bytes(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return row
}
