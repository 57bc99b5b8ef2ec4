package bench

import (
	"slices"
	"testing"
)

func TestProfilesAreReadByPlace(t *testing.T) {
	const text = `File: compare
Type: cpu
Showing nodes accounting for 4s, 100% of 4s total
      flat  flat%   sum%        cum   cum%
     2s 50.00% 50.00%         3s 75.00%  runtime.mallocgc
     1s 25.00% 75.00%         1s 25.00%  runtime.memmove (inline)
     1s 25.00%   100%         1s 25.00%  github.com/consign-go/consign/internal/dispatch.(*lane[go.shape.*uint8,go.shape.bool]).do
         0     0%   100%         4s   100%  main.main
`
	all, err := parsePlaces(text)
	if err != nil || len(all) != 4 {
		t.Fatalf("%v, %v", all, err)
	}
	flat := byPackage(all)
	if flat[0] != (ProfileShare{"runtime", 75}) || flat[1] != (ProfileShare{"github.com/consign-go/consign/internal/dispatch", 25}) {
		t.Errorf("%v", flat)
	}
	if cum := spentBelow(all); !slices.Equal(cum, []ProfileShare{{"allocating memory", 75}}) {
		t.Errorf("%v", cum)
	}
	if _, err := parsePlaces("nothing"); err == nil {
		t.Error("a text without a table is accepted")
	}
}
