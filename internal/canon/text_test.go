package canon

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// Names are compared by UTF-16 code units (RFC 8785 section 3.2.3), checked against real UTF-16.
func TestNameOrderIsThatOfUTF16(t *testing.T) {
	for _, a := range letters {
		for _, b := range letters {
			checkOrder(t, string(a), string(b))
			checkOrder(t, "x"+string(a), "x"+string(b)+"y")
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		common, a, b := anyText().Draw(t, "common"), anyText().Draw(t, "a"), anyText().Draw(t, "b")
		checkOrder(t, common+a, common+b)
	})
}

func checkOrder(t rapid.TB, a, b string) {
	want := slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
	got := compare(a, b)
	if (got < 0) != (want < 0) || (got > 0) != (want > 0) || compare([]byte(a), []byte(b)) != got {
		t.Errorf("%q and %q: got %d, want %d", a, b, got, want)
	}
}

// A string is written with the least escaping that JSON allows, and reads back as itself.
func TestStringsAreEscapedAsECMAScriptDoes(t *testing.T) {
	for s, want := range map[string]string{
		"":                               `""`,
		"plain":                          `"plain"`,
		"\"\\/\b\f\n\r\t":                `"\"\\/\b\f\n\r\t"`,
		"\x01\x0b\x1f\x7f":               "\"\\u0001\\u000b\\u001f\x7f\"",
		"<a href='x'>&</a>":              `"<a href='x'>&</a>"`,
		"\u2028\u2029\ufeff\ufffd\uffff": "\"\u2028\u2029\ufeff\ufffd\uffff\"",
		"é€😀":                            `"é€😀"`,
		"A\u030a":                        "\"A\u030a\"",
	} {
		if got, err := Value(s, Limits{}); err != nil || string(got) != want {
			t.Errorf("%q: got %s, %v, want %s", s, got, err, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := anyText().Draw(t, "s")
		got, err := Value(s, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		var back string
		if err := json.Unmarshal(got, &back); err != nil || back != s {
			t.Fatalf("%s reads back as %q, %v, want %q", got, back, err, s)
		}
	})
}

// Whatever stands in a string and wherever, valid text is written and anything else refused. All 256 bytes are put at all
// places of strings of all lengths around the eight bytes that are looked at together.
func TestEveryByteAtEveryPlaceIsJudged(t *testing.T) {
	for length := 1; length <= 19; length++ {
		for at := range length {
			for c := range 256 {
				b := []byte(strings.Repeat("x", length))
				b[at] = byte(c)
				s := string(b)
				got, err := Value(s, Limits{})
				if bad := c == 0 || !utf8.ValidString(s); bad != (err != nil) {
					t.Fatalf("%q: %s, %v", s, got, err)
				} else if !bad {
					var back string
					if err := json.Unmarshal(got, &back); err != nil || back != s {
						t.Fatalf("%q: written as %s", s, got)
					}
				}
				literal := []byte(`"` + s + `"`)
				got, err = Raw(literal, Limits{})
				if bad := !json.Valid(literal) || !utf8.ValidString(s); bad != (err != nil) {
					t.Fatalf("%q: %s, %v", literal, got, err)
				} else if !bad && string(got) != string(literal) {
					t.Fatalf("%q: written as %s", literal, got)
				}
			}
		}
	}
}

// Text that is not UTF-8, or holds a NUL that PostgreSQL could not store, is refused in Go values too, in names as well.
func TestStringsThatCannotBeStoredAreRefused(t *testing.T) {
	for s, rule := range map[string]string{
		"\x00": ruleNUL, "a\x00b": ruleNUL, "\xff": ruleUTF8, "abc\xc3": ruleUTF8, "\xed\xa0\x80": ruleUTF8, "\xc0\x80": ruleUTF8,
	} {
		type named string
		for what, v := range map[string]any{
			"value": s, "element": []string{s}, "interface": []any{s}, "named": named(s), "field": struct{ F string }{s},
			"map": map[string]any{s: 1}, "string map": map[string]string{s: ""}, "other map": map[named]int{named(s): 1},
		} {
			_, err := Value(v, Limits{})
			checkRule(t, what, err, rule)
			if isName := strings.HasSuffix(what, "map"); isName != strings.Contains(err.Error(), "its name: ") {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}
