package sqlite

import (
	"slices"
	"testing"

	"github.com/consign-go/consign/internal/lifecycle"
)

// A place is used for what a claim's own token fences, under the schema in which it
// was learned, and for all of a batch or for none.
func TestPlacesAreOnlyForWhatAnOwnerFences(t *testing.T) {
	ts := []lifecycle.Transition{{Ref: [16]byte{1}}, {Ref: [16]byte{2}}}
	for i := range ts {
		ts[i].Fence.Owner = lifecycle.Token{9}
	}
	var p places
	p.learn(1, ts, []int64{11, 12})
	if rows := p.find(1, ts); !slices.Equal(rows, []int64{11, 12}) {
		t.Errorf("found %v", rows)
	}
	if rows := p.find(2, ts); rows != nil {
		t.Errorf("under another schema: %v", rows)
	}
	unknown := append(slices.Clone(ts), lifecycle.Transition{Ref: [16]byte{3}, Fence: ts[0].Fence})
	if rows := p.find(1, unknown); rows != nil {
		t.Errorf("with one that is not known: %v", rows)
	}
	ts[1].Fence.Owner = lifecycle.Token{}
	if rows := p.find(1, ts); rows != nil {
		t.Errorf("with one that nobody owns: %v", rows)
	}
}
