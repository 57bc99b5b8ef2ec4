//go:build unix

package dispatchtest

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/consign-go/consign/internal/dispatch"
)

// Work and messages, whoever owns their retries, are delivered by one engine in the
// same steps: the tables see the same changes, the program is told the same, and
// the far side gets one request between the start and the outcome.
func TestWorkAndMessagesTakeTheSameSteps(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		far := newReceiver(t)
		p := program{Address: d.address, Name: "one", Receiver: far.place(), Policy: steady, Kinds: grid(2*time.Minute, time.Minute), Patience: time.Minute}
		told := map[string][]string{}
		current := ""
		e := dispatch.New(p.config(d.Driver, func(o dispatch.Observation) { told[current] = append(told[current], o.Event) }))
		refs := map[string]kind{}
		for _, k := range p.Kinds {
			current = k.Name
			ref := d.enqueue(t, k, 1)[0]
			refs[name(ref)] = k
			if r, found, err := e.Visit(t.Context(), ref); err != nil || !found || r.Status.String() != "succeeded" {
				t.Fatalf("%s: %+v, %v", k.Name, r, err)
			}
		}
		found := d.audit(t, far.all())
		for ref, k := range refs {
			f := found[ref]
			var steps []string
			for _, s := range f.steps {
				steps = append(steps, fmt.Sprintf("%d to %d, in flight %v", s.was.status, s.is.status, s.is.inFlight))
			}
			if want := []string{"0 to 1, in flight false", "1 to 2, in flight true", "2 to 3, in flight false"}; !slices.Equal(steps, want) {
				t.Errorf("%s took the steps %q, want %q", k.Name, steps, want)
				continue
			}
			if want := []string{"claim", "start", "settle"}; !slices.Equal(told[k.Name], want) {
				t.Errorf("%s: told %q, want %q", k.Name, told[k.Name], want)
			}
			if len(f.came) != 1 || f.came[0].at.UnixMicro()+clockStep < f.steps[1].at || f.came[0].at.UnixMicro()-clockStep > f.steps[2].at {
				t.Errorf("%s: the request did not come between its start and its outcome\n%s", k.Name, f.story())
			}
		}
	})
}

// A program that serves is in the tables with its name, each kind with version and
// fingerprint, each channel, and a fresh sign of life. Its orderly end removes it.
func TestServingProgramIsRecordedWithAllThatItServes(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		far := newReceiver(t)
		p := program{Address: d.address, Name: "billing 7", Receiver: far.place(), Policy: steady, Kinds: grid(20*time.Second, 2*time.Second)}
		s := d.register(t, p, func(c *dispatch.Config) {
			c.Served[len(c.Served)-1].Upgrades = []string{"0"}
		})
		var want, got []string
		for _, k := range p.Kinds {
			version, fingerprint := "", ""
			if f := k.fingerprint(); k.Profile == isWork {
				version, fingerprint = "1", hex.EncodeToString(f[:])
			}
			want = append(want, fmt.Sprintf("billing 7: %d %s %q %s 0", k.Profile, k.Name, version, fingerprint))
		}
		last := p.Kinds[len(p.Kinds)-1]
		want = append(want, fmt.Sprintf("billing 7: %d %s %q  1", last.Profile, last.Name, "0"))
		var program, kind, version, fingerprint string
		var profile, upgrades int
		var silent int64
		query := "SELECT p.name, r.profile, r.kind, r.version, " + d.hex("r.fingerprint") + ", " + d.truth("r.upgrades") + ", " +
			d.clock() + " - " + d.micros("p.heartbeat_at") + " FROM " + d.prefix + "program p JOIN " + d.prefix + "program_route r ON r.program_id = p.id"
		if err := d.each(t.Context(), query, nil, []any{&program, &profile, &kind, &version, &fingerprint, &upgrades, &silent}, func() {
			got = append(got, fmt.Sprintf("%s: %d %s %q %s %d", program, profile, kind, version, fingerprint, upgrades))
			if age := time.Duration(silent) * time.Microsecond; age < 0 || age > time.Minute {
				t.Errorf("its last sign of life is %s old", age)
			}
		}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("recorded is\n%q, want\n%q", got, want)
		}
		s.stop()
		if n, err := d.one(context.Background(), "SELECT count(*) FROM "+d.prefix+"program"); err != nil || n != 0 {
			t.Errorf("%d programs are recorded after the end, %v", n, err)
		}
	})
}
