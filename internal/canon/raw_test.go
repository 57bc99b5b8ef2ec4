package canon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"
)

// What is not JSON has no canonical form, and nothing is mended. Each text is refused alone and inside a Go value.
func TestTextThatIsNotJSONIsRefused(t *testing.T) {
	for _, text := range []string{
		"", " ", "\n", "nul", "nulll", "True", "tru", "undefined", "'a'", "{", "}", "[", "]", "[1", "[1,", "[1,]", "[,1]",
		"[1 2]", "[1;2]", "{,}", `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a" 1}`, `{"a":1 "b":2}`, `{a:1}`, `{1:1}`, `{"a":1`, `{"a":`,
		`{"a"`, `{null:1}`, `[}`, `{]`, "1 2", "{} {}", "[] x", `"a" "b"`, "\"a", `"\`, `"\"`, `"\x"`, `"\u"`, `"\u12"`, `"\u123g"`,
		`"\U0041"`, "\"a\nb\"", "\"a\tb\"", "\"\x1f\"", "\"\x00\"", "\x00", "1\x00", "{}\x00", "01", "1.", ".1", "1e", "+1", "-",
		"- 1", "/* c */ 1", "// c\n1", "1 // c", "\ufeff{}", "\u00a01", "\x0b1", "\x0c1", "[1]\ufeff", "NaN", "-Infinity", "0x1",
		`"\ud83d\ude0`, `"\ud83d\u`, `"\ud83d`,
	} {
		if json.Valid([]byte(text)) {
			t.Fatalf("%q is valid JSON, so this table is wrong", text)
		}
		out, err := Raw([]byte(text), Limits{})
		if err == nil {
			t.Errorf("%q: got %s", text, out)
			continue
		}
		if e := err.(*Error); !strings.HasPrefix(e.Faults[len(e.Faults)-1].Rule, "invalid JSON at byte ") {
			t.Errorf("%q: %v", text, err)
		}
		if _, err := Value(struct{ In json.RawMessage }{[]byte(text)}, Limits{}); err == nil || !strings.HasPrefix(err.Error(), "In") {
			t.Errorf("%q in a struct: %v", text, err)
		}
	}
}

// Valid JSON that another reader could take differently is refused as well.
func TestAmbiguousTextIsRefused(t *testing.T) {
	for _, c := range []struct{ text, rule, path string }{
		{"\"\xff\"", ruleUTF8, ""},
		{"\"ab\xc3\"", ruleUTF8, ""},
		{"\"\xc0\x80\"", ruleUTF8, ""},         // NUL, overlong
		{"\"\xed\xa0\x80\"", ruleUTF8, ""},     // a surrogate in UTF-8
		{"\"\xf4\x90\x80\x80\"", ruleUTF8, ""}, // beyond U+10FFFF
		{"\"\\n\xff\"", ruleUTF8, ""},          // on the path with escapes
		{"{\"\xff\":1}", ruleUTF8, "{0}"},      //
		{`"\u0000"`, ruleNUL, ""},              //
		{`["a\u0000b"]`, ruleNUL, "[0]"},       //
		{`{"a":1,"\u0000":1}`, ruleNUL, "{1}"}, //
		{`"\ud800"`, ruleSurrogate, ""},        //
		{`"\udc00"`, ruleSurrogate, ""},        //
		{`"\ud800\ud800"`, ruleSurrogate, ""},  // reported once for each
		{`"\ude00\ud83d"`, ruleSurrogate, ""},  // the wrong way round
		{`"\ud83dx\ude00"`, ruleSurrogate, ""}, // parted
		{`"\ud83d\n"`, ruleSurrogate, ""},      //
		{`"\ud83d\u0041"`, ruleSurrogate, ""},  //
		{`{"\ud83d":1}`, ruleSurrogate, "{0}"}, //
		{`[1,{"a":[1e400]}]`, ruleFinite, "[1]{0}[0]"},
		{`{"b":0,"a":9007199254740993}`, ruleInteger, "{1}"}, // counted as written
	} {
		_, err := Raw([]byte(c.text), Limits{})
		e, ok := err.(*Error)
		if !ok || !strings.Contains(e.Faults[0].Rule, c.rule) || e.Faults[0].Path != c.path {
			t.Errorf("%q: got %v, want %s: %s", c.text, err, c.path, c.rule)
		}
		if len(e.Faults) > 2 {
			t.Errorf("%q: one mistake gives %v", c.text, e.Faults)
		}
	}
}

// No two names of an object are equal, at any depth, however they are spelled.
func TestNamesThatCollideInTextAreRefused(t *testing.T) {
	for _, text := range []string{
		`{"a":1,"a":1}`, `{"a":1,"b":2,"a":3}`, `{"b":1,"a":2,"b":3}`, `{"a":1,"\u0061":2}`, `{"\u0061":1,"\u0061":2}`,
		`{"":1,"":2}`, `{"\n":1,"\u000a":2}`, `{"\/":1,"/":2}`, `{"😀":1,"\ud83d\ude00":2}`, `{"\"":1,"\u0022":2}`,
		`{"\\":1,"\u005c":2}`, `{"é":1,"\u00E9":2}`, `{"x":{"y":[{"a":1,"a":2}]}}`, `[[{"a":1,"\u0061":null}]]`,
	} {
		_, err := Raw([]byte(text), Limits{})
		checkRule(t, text, err, ruleDuplicate)
		_, err = Value(map[string]any{"in": []any{json.RawMessage(text)}}, Limits{})
		checkRule(t, "inside a value: "+text, err, ruleDuplicate)
	}
	// Different names that some readers hold equal are different here: nothing is normalised (RFC 8785 section 3.1).
	if _, err := Raw([]byte(`{"é":1,"e\u0301":2,"A":3,"a":4}`), Limits{}); err != nil {
		t.Error(err)
	}
	many := strings.Repeat(`"k":0,`, 1000)
	_, err := Raw([]byte("{"+many+`"z":1}`), Limits{})
	checkRule(t, "a thousand equal names", err, ruleDuplicate)
}

// One document has one form: the order of members, white space, escapes and number spellings do not change a byte.
func TestSpellingDoesNotChangeTheForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := anyValue(4).Draw(t, "doc")
		want, err := Value(doc, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		source := spell(t, doc)
		if !json.Valid(source) {
			t.Fatalf("the test wrote invalid JSON: %q", source)
		}
		if got, err := Raw(source, Limits{}); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%q: got %s, %v, want %s", source, got, err, want)
		}
		if got, err := Raw(want, Limits{}); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s is not its own canonical form: %s, %v", want, got, err)
		}
	})
}

// letters are characters with a part to play: escaped ones, and both sides of the borders of UTF-8 and UTF-16 order.
var letters = []rune("ab\"\\/\b\f\n\r\t\x01\x1f\x7f\u0080é߿ࠀ\u2028\ud7ff\ue000\uffff\U00010000😀\U0010ffff")

func anyText() *rapid.Generator[string] {
	return rapid.StringOf(rapid.OneOf(rapid.SampledFrom(letters), rapid.Rune().Filter(func(r rune) bool { return r != 0 })))
}

func anyValue(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil),
		rapid.Bool().AsAny(),
		anyText().AsAny(),
		rapid.Map(rapid.Int64Range(-maxInteger, maxInteger), func(i int64) any { return float64(i) }),
		rapid.Map(rapid.Float64Range(-1e15, 1e15), func(f float64) any { return f }),
		rapid.SampledFrom([]any{1e300, -5e-324, 1e21, 1e-7, 0.000001}),
	}
	if depth > 0 {
		kinds = append(kinds,
			rapid.SliceOfN(anyValue(depth-1), 0, 5).AsAny(), rapid.MapOfN(anyText(), anyValue(depth-1), 0, 8).AsAny())
	}
	return rapid.OneOf(kinds...)
}

// spell writes a value as JSON in one of its many spellings.
func spell(t *rapid.T, v any) []byte {
	var b bytes.Buffer
	space := func() { b.WriteString(rapid.SampledFrom([]string{"", "", " ", "\n\t\r "}).Draw(t, "space")) }
	var write func(any)
	write = func(v any) {
		space()
		switch v := v.(type) {
		case string:
			spellText(t, &b, v)
		case []any:
			b.WriteByte('[')
			for i, e := range v {
				if i > 0 {
					b.WriteByte(',')
				}
				write(e)
			}
			b.WriteByte(']')
		case map[string]any:
			var names []string
			for name := range v {
				names = append(names, name)
			}
			slices.Sort(names) // draws must not depend on the order of a map
			b.WriteByte('{')
			for i, name := range rapid.Permutation(names).Draw(t, "order") {
				if i > 0 {
					b.WriteByte(',')
				}
				space()
				spellText(t, &b, name)
				space()
				b.WriteByte(':')
				write(v[name])
			}
			b.WriteByte('}')
		default:
			j, _ := json.Marshal(v)
			b.Write(j)
			if _, ok := v.(float64); ok && !bytes.ContainsAny(j, ".e") {
				b.WriteString(rapid.SampledFrom([]string{"", ".0", "e0", ".00E+0"}).Draw(t, "number"))
			}
		}
		space()
	}
	write(v)
	return b.Bytes()
}

// spellText writes a string with some characters escaped that need not be.
func spellText(t *rapid.T, b *bytes.Buffer, s string) {
	b.WriteByte('"')
	for _, r := range s {
		if r >= ' ' && r != '"' && r != '\\' && !rapid.Bool().Draw(t, "escape") {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			form := rapid.SampledFrom([]string{`\u%04x`, `\u%04X`}).Draw(t, "form")
			fmt.Fprintf(b, form, unit)
		}
	}
	b.WriteByte('"')
}
