package lifecycle_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/consign-go/consign/internal/lifecycle"
)

// TestStoredNumbersAndTheirWordsNeverChange pins what rows and documents hold.
// A number in this table may be added, never altered: old rows would change
// their meaning.
func TestStoredNumbersAndTheirWordsNeverChange(t *testing.T) {
	for _, w := range []struct {
		value  fmt.Stringer
		number uint8
		word   string
	}{
		{lifecycle.Work, 1, "work"},
		{lifecycle.Message, 2, "message"},
		{lifecycle.Pending, 0, "pending"},
		{lifecycle.Leased, 1, "leased"},
		{lifecycle.Delivering, 2, "delivering"},
		{lifecycle.Succeeded, 3, "succeeded"},
		{lifecycle.Failed, 4, "failed"},
		{lifecycle.Cancelled, 5, "cancelled"},
		{lifecycle.ReconciliationRequired, 6, "reconciliation_required"},
		{lifecycle.Unclaimed, 0, "unclaimed"},
		{lifecycle.Process, 1, "process"},
		{lifecycle.Schedule, 2, "schedule"},
		{lifecycle.NotSent, 1, "not_sent"},
		{lifecycle.Refused, 2, "refused"},
		{lifecycle.Rejected, 3, "rejected"},
		{lifecycle.Unknown, 4, "unknown"},
		{lifecycle.Accepted, 5, "accepted"},
		{lifecycle.Crashed, 6, "crashed"},
	} {
		if number := fmt.Sprintf("%d", w.value); number != strconv.Itoa(int(w.number)) || w.value.String() != w.word {
			t.Errorf("%T %s is %q, want %d, %q", w.value, number, w.value, w.number, w.word)
		}
	}
}

// TestUnknownNumbersAreNeverShownAsKnownWords prints numbers of a newer version:
// none panics, and each names its kind and itself.
func TestUnknownNumbersAreNeverShownAsKnownWords(t *testing.T) {
	for n := range 256 {
		for kind, word := range map[string]string{
			"profile": lifecycle.Profile(n).String(), "status": lifecycle.Status(n).String(),
			"retry": lifecycle.RetryOwner(n).String(), "outcome": lifecycle.Outcome(n).String(),
			"answer": lifecycle.Answer(n).String(), "event": lifecycle.EventKind(n).String(),
		} {
			raw := fmt.Sprintf("%s(%d)", kind, n)
			known := regexp.MustCompile(`^[a-z_]+$`).MatchString(word)
			if !known && word != raw || n == 255 && word != raw || word == "" {
				t.Errorf("%s %d is shown as %q", kind, n, word)
			}
		}
		if s := lifecycle.Status(n); !slices.Contains(lifecycle.Statuses, s) && s.Public(lifecycle.Message) != s.String() {
			t.Errorf("status %d is shown to the public as %q", n, s.Public(lifecycle.Message))
		}
	}
}

// TestMessagesShowExactlyFourStatuses holds section 3: pending also while leased,
// delivering, delivered, failed. Work shows every status by its own name.
func TestMessagesShowExactlyFourStatuses(t *testing.T) {
	shown := map[string]bool{}
	for _, s := range []lifecycle.Status{
		lifecycle.Pending, lifecycle.Leased, lifecycle.Delivering, lifecycle.Succeeded, lifecycle.Failed,
	} {
		shown[s.Public(lifecycle.Message)] = true
	}
	if got := slices.Sorted(maps.Keys(shown)); !slices.Equal(got, []string{"delivered", "delivering", "failed", "pending"}) {
		t.Errorf("messages show %v", got)
	}
	if s := lifecycle.Leased.Public(lifecycle.Message); s != "pending" {
		t.Errorf("a leased message shows %q", s)
	}
	for _, s := range lifecycle.Statuses {
		if s.Public(lifecycle.Work) != s.String() {
			t.Errorf("work shows %v as %q", s, s.Public(lifecycle.Work))
		}
		if want := s >= lifecycle.Succeeded; s.Terminal() != want {
			t.Errorf("%v terminal: %v", s, s.Terminal())
		}
	}
}

// specCodes are the codes of SPEC section 3, and no others.
var specCodes = []lifecycle.Code{
	"RECORD_CHANGED", "REQUEST_CHANGED", "POST_EFFECT_CALLBACK_FAILED", "FENCED",
	"AUTHORITY_MISSING", "AUTHORITY_REVOKED", "DELIVERY_NOT_PERMITTED", "TARGET_UNAVAILABLE",
	"CANCELLED_BY_HANDLER", "CANCELLED_BY_OPERATOR", "REQUEST_INVALID", "INPUT_UNREADABLE",
	"EFFECT_NOT_CALLED", "EFFECT_CALLED_TWICE", "HANDLER_MISSING", "HANDLER_CHANGED", "CHANNEL_MISSING",
	"OUTCOME_UNKNOWN", "REJECTED", "DEADLINE_EXPIRED", "ATTEMPTS_EXHAUSTED", "POISONED", "INTERRUPTED",
}

// TestCodesAreTheClosedSetOfTheSpec holds the list, the declared constants and
// the specification against each other.
func TestCodesAreTheClosedSetOfTheSpec(t *testing.T) {
	if !slices.Equal(slices.Sorted(slices.Values(lifecycle.Codes)), slices.Sorted(slices.Values(specCodes))) {
		t.Errorf("Codes is %v", lifecycle.Codes)
	}
	var declared []lifecycle.Code
	file, err := parser.ParseFile(token.NewFileSet(), "code.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		constants, ok := d.(*ast.GenDecl)
		if !ok || constants.Tok != token.CONST {
			continue
		}
		for _, spec := range constants.Specs {
			constant := spec.(*ast.ValueSpec)
			text, err := strconv.Unquote(constant.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			if constant.Doc.Text() == "" {
				t.Errorf("%s has no comment that says what it means", text)
			}
			declared = append(declared, lifecycle.Code(text))
		}
	}
	if !slices.Equal(slices.Sorted(slices.Values(declared)), slices.Sorted(slices.Values(lifecycle.Codes))) {
		t.Errorf("declared %v, listed %v", declared, lifecycle.Codes)
	}
}

// TestEveryCodeIsStoredByATransitionOrOnlyReported walks the whole grid: a code
// that nothing stores must be one that is only ever reported, and those must
// never be stored.
func TestEveryCodeIsStoredByATransitionOrOnlyReported(t *testing.T) {
	onlyReported := []lifecycle.Code{lifecycle.Fenced, lifecycle.AuthorityMissing, lifecycle.EffectCalledTwice}
	stored, reported := map[lifecycle.Code]bool{}, map[lifecycle.Code]bool{}
	for _, p := range parts() {
		section(p, func(_ *lifecycle.State, _ *lifecycle.Event, a lifecycle.Transition) {
			reported[a.Code] = true
			if a.Answer == lifecycle.Apply {
				stored[a.Set.Code] = true
			}
		})
	}
	for _, c := range lifecycle.Codes {
		if only := slices.Contains(onlyReported, c); stored[c] == only {
			t.Errorf("%s: stored by a transition: %v, only reported: %v", c, stored[c], only)
		}
		delete(stored, c)
	}
	delete(stored, "")
	if len(stored) > 0 {
		t.Errorf("stored, but not in the closed set: %v", stored)
	}
	if !reported[lifecycle.Fenced] {
		t.Error("nothing reports FENCED")
	}
}

// TestEventKindsAreAllListed guards the loops over EventKinds in these tests.
func TestEventKindsAreAllListed(t *testing.T) {
	kinds := lifecycle.EventKinds()
	if len(kinds) != 22 || kinds[0] != lifecycle.EvClaim || kinds[21] != lifecycle.EvHandFailed {
		t.Errorf("EventKinds is %v", kinds)
	}
	names := map[string]bool{}
	for _, k := range kinds {
		names[k.String()] = true
	}
	if len(names) != len(kinds) {
		t.Errorf("two events share a name: %v", kinds)
	}
}
