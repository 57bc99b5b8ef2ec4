//go:build !race

package plainsqltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/consign-go/consign/internal/canon"
)

// TestPublishedDocumentsHaveTheirCanonicalForm: the published vectors of RFC 8785 and
// everything that ever broke the Go canonicaliser.
func TestPublishedDocumentsHaveTheirCanonicalForm(t *testing.T) {
	onBoth(t, func(t *testing.T, b *base) {
		files, err := filepath.Glob("../canon/testdata/*/*/*.json")
		if err != nil || len(files) < 6 {
			t.Fatalf("%d files, %v", len(files), err)
		}
		tx := b.begin(t)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, b, tx, `{"a":`+string(text)+`}`, !b.exact && longNumber(string(text)))
		}
		seeds, err := os.ReadFile("../canon/testdata/seeds.txt")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(seeds)) {
			text, err := strconv.Unquote(strings.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			if utf8.ValidString(text) && !strings.Contains(text, "\x00") && (b.exact || len(text) < 8000) {
				compare(t, b, tx, `{"a":`+text+`}`, !b.exact && longNumber(text))
				compare(t, b, tx, text, !b.exact && longNumber(text))
			}
		}
	})
}

// TestPayloadsAreCheckedAsInGo: what has no canonical form is refused, and no error
// tells what was in it.
func TestPayloadsAreCheckedAsInGo(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`{"a":`, n-1) + `{}` + strings.Repeat(`}`, n-1) }
	sized := func(n int) string { return `{"a":"` + strings.Repeat("x", n-8) + `"}` }
	texts := []string{
		`{}`, `[]`, `"geheim"`, `1`, `null`, ` {"a" : [ ] } `, "\t{\r\n}\n", deep(8), deep(9), `{"a":[[[[[[[1]]]]]]]}`, `{"a":[[[[[[[[1]]]]]]]]}`,
		sized(16384), sized(16385), `{"geheim":1,"geheim":2}`, `{"geheim":1,"gehei\u006d":2}`, `{"a":{"b":[{"c":1,"c":1}]}}`,
		`{"":0,"a":{"":1}}`, `{"geheim":"\u0000"}`, `{"\u0000":"geheim"}`, `{"geheim":"\\u0000"}`, `{"geheim":"\\\u0000"}`,
		`{"geheim":"\ud800"}`, `{"geheim":"\udc00\ud800"}`, `{"\ud800geheim":1}`, `{"geheim":"\ud83d\ude00"}`, `{"a":"\ud800\\udc00"}`,
		`{"a":9007199254740991}`, `{"a":-9007199254740991}`, `{"a":9007199254740992}`, `{"a":-9007199254740993}`, `{"a":-0}`, `{"a":-0.0}`,
		`{"a":1e400}`, `{"a":-1e400}`, `{"a":1e-400}`, `{"a":0e99999999999999999999}`, `{"a":1e99999999999999999999}`, `{"a":1e-99999999999999999999}`,
		`{"a":1e20}`, `{"a":1e21}`, `{"a":1E+15}`, `{"a":9007199254740992.0}`, `{"a":1.5e300}`, `{"a":1e23}`, `{"a":0.000001}`, `{"a":0.0000001}`,
		`{"a":100000000000000000000000e-10}`, `{"a":0.1e1}`, `{"a":123.456e2}`, `{"a":1.7976931348623157e308}`, `{"a":1.7976931348623159e308}`,
		`{"a":5e-324}`, `{"a":2.5e-324}`, `{"a":2.4e-324}`, `{"a":[true,false,null]}`, `{"a":"\b\f\n\r\t\"\\\/\u001f\u007f\u2028"}`,
		`{"a":"` + "\t" + `"}`, `{a:1}`, `{"a":NaN}`, `{"a":+1}`, `{"a":.5}`, `{"a":1.}`, `{"a":01}`, `{"a":0x1}`, `{"a":'geheim'}`, `{"a":1,}`, `{"a":1}}`, ``,
		`{"a":1}/**/`, `{"a":"\x41"}`, `{"a":"\u12g4"}`, `{"a":Infinity}`, `{"a":"geheim`, `{"a":"` + "\u007f\u0080\u2028é😀" + `"}`,
		`{"\ue000":1,"\ud83d\ude00":2,"\uffff":3,"a":4,"\ud7ff":5,"` + "\U0010ffff" + `":6,"` + "\ue000\U00010000" + `":7}`,
	}
	beyond := []string{ // what SQLite cannot spell
		`{"a":1e-400}`, `{"a":1e-99999999999999999999}`, `{"a":1.7976931348623157e308}`, `{"a":5e-324}`, `{"a":2.5e-324}`, `{"a":2.4e-324}`,
	}
	onBoth(t, func(t *testing.T, b *base) {
		tx := b.begin(t)
		for _, text := range texts {
			compare(t, b, tx, text, !b.exact && slices.Contains(beyond, text))
		}
		if _, err := tx.ExecContext(t.Context(), "SAVEPOINT one"); err != nil {
			t.Fatal(err)
		}
		if err := b.enqueue(t, tx, note(func(r *row) { r.payload = nil })); refusal(t, err) != "invalid" {
			t.Errorf("no payload: %v", err)
		}
	})
}

// TestLongFractionsAreRefusedOnSQLite, and those with 15 digits are not: there are
// never two spellings of one double.
func TestLongFractionsAreRefusedOnSQLite(t *testing.T) {
	b := onSQLite(t)
	for number, taken := range map[string]bool{
		"0.300000000000000": true, "0.30000000000000004": false, "123456789012345e-10": true, "1234567890123456e-10": false,
		"1.00000000000001": true, "1.000000000000001": false, "1e-307": true, "9.99999999999999e-308": false, "1.79769313486231e308": true,
		"100000000000000000e-3": true, "0.000000000000000000001": true, "1234567890123456": true, "1234567890123456.0": false,
	} {
		text := `{"a":` + number + `}`
		if err := b.try(t, note(func(r *row) { r.payload = text })); refusal(t, err) == "" != taken {
			t.Errorf("%s: %v", number, err)
		} else if !taken && !strings.Contains(err.Error(), "more than 15 digits") {
			t.Errorf("%s: %v", number, err)
		}
	}
}

// TestRandomPayloadsHaveTheCanonicalFormOfGo: any payload, in any spelling.
func TestRandomPayloadsHaveTheCanonicalFormOfGo(t *testing.T) {
	onBoth(t, func(t *testing.T, b *base) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		w := &writer{r: rand.New(rand.NewPCG(seed, 1)), short: !b.exact}
		tx := b.begin(t)
		for range 250 {
			w.b.Reset()
			w.object(1)
			compare(t, b, tx, w.b.String(), false)
		}
	})
}

// TestDoublesAreSpelledAsInGo: random bit patterns, and all around the powers of two
// and ten, where the shortest digits are the hardest to find.
func TestDoublesAreSpelledAsInGo(t *testing.T) {
	b := onPostgres(t)
	r := rand.New(rand.NewPCG(rand.Uint64(), 2))
	var tokens []string
	add := func(f float64) {
		if !math.IsNaN(f) && !math.IsInf(f, 0) {
			tokens = append(tokens, strconv.FormatFloat(f, "eE"[r.IntN(2)], 16, 64), strconv.FormatFloat(f, 'e', 25, 64))
		}
	}
	for range 4000 {
		add(math.Float64frombits(r.Uint64()))
		add(math.Ldexp(1+r.Float64(), r.IntN(100)-20))
	}
	for e := -1074; e < 1024; e++ {
		f := math.Ldexp(1, e)
		for _, near := range []float64{math.Nextafter(f, 0), f, math.Nextafter(f, math.MaxFloat64)} {
			add(near)
		}
	}
	for e := -323; e <= 308; e++ {
		for m := 1; m < 10; m++ {
			f, _ := strconv.ParseFloat(fmt.Sprintf("%de%d", m, e), 64)
			add(f)
		}
	}
	spelled := make([]string, 0, len(tokens))
	var taken []string
	for _, token := range tokens {
		want, err := canon.Raw([]byte(token), canon.Limits{})
		if err == nil {
			taken, spelled = append(taken, token), append(spelled, string(want))
		}
	}
	if len(taken) < 20000 {
		t.Fatalf("only %d numbers", len(taken))
	}
	var got []string
	query := b.names.Replace(`SELECT array_agg({s}canonical_number(n) ORDER BY i) FROM unnest($1::text[]) WITH ORDINALITY AS u (n, i)`)
	if err := b.db.QueryRowContext(t.Context(), query, taken).Scan(pgtype.NewMap().SQLScanner(&got)); err != nil {
		t.Fatal(err)
	}
	wrong := 0
	for i, want := range spelled {
		if got[i] != want {
			if wrong++; wrong < 10 {
				t.Errorf("%s: spelled %s, want %s", taken[i], got[i], want)
			}
		}
	}
}

// writer writes random JSON.
type writer struct {
	r     *rand.Rand
	b     strings.Builder
	short bool // no number of more than 15 digits
}

func (w *writer) space() {
	for w.r.IntN(4) == 0 {
		w.b.WriteByte(" \t\n\r"[w.r.IntN(4)])
	}
}

func (w *writer) value(depth int) {
	w.space()
	defer w.space()
	switch n := w.r.IntN(10); {
	case n < 2 && depth < 8:
		w.object(depth + 1)
	case n < 3 && depth < 8:
		w.array(depth + 1)
	case n < 6:
		w.text()
	case n < 7:
		w.b.WriteString([]string{"true", "false", "null"}[w.r.IntN(3)])
	default:
		w.number()
	}
}

func (w *writer) object(depth int) {
	w.b.WriteByte('{')
	w.space()
	for i := range w.r.IntN(7) {
		if i > 0 {
			w.b.WriteByte(',')
			w.space()
		}
		w.text()
		w.space()
		w.b.WriteByte(':')
		w.value(depth)
	}
	w.b.WriteByte('}')
}

func (w *writer) array(depth int) {
	w.b.WriteByte('[')
	w.space()
	for i := range w.r.IntN(5) {
		if i > 0 {
			w.b.WriteByte(',')
		}
		w.value(depth)
	}
	w.b.WriteByte(']')
}

// text writes a string, each character as it is or escaped.
func (w *writer) text() {
	w.b.WriteByte('"')
	for range w.r.IntN(6) {
		c := []rune{'a', 'b', 'Z', '~', ' ', '"', '\\', '/', '\n', '\t', 1, 31, 127, 128, 'é', 'ß', 0x7ff, 0x800, 0x2028, 0xd7ff, 0xe000, 0xfffd, 0xffff,
			0x10000, 0x1f600, 0x10ffff, ',', '{', '}', ':', '[', '-', '0'}[w.r.IntN(33)]
		switch {
		case c < ' ' || c == '"' || c == '\\' || w.r.IntN(5) == 0:
			w.escaped(c)
		default:
			w.b.WriteRune(c)
		}
	}
	w.b.WriteByte('"')
}

func (w *writer) escaped(c rune) {
	if i := strings.IndexRune("\"\\/\b\f\n\r\t", c); i >= 0 && w.r.IntN(2) == 0 {
		w.b.WriteByte('\\')
		w.b.WriteByte(`"\/bfnrt`[i])
		return
	}
	form := []string{`\u%04x`, `\u%04X`}[w.r.IntN(2)]
	if c >= 0x10000 {
		fmt.Fprintf(&w.b, form+form, 0xd800+(c-0x10000)>>10, 0xdc00+(c-0x10000)&0x3ff)
		return
	}
	fmt.Fprintf(&w.b, form, c)
}

func (w *writer) number() {
	digits := 1 + w.r.IntN(15)
	if !w.short {
		digits = 1 + w.r.IntN(22)
	}
	var d strings.Builder
	for range digits {
		d.WriteByte(byte('0' + w.r.IntN(10)))
	}
	whole, fraction := d.String(), ""
	if at := w.r.IntN(digits); at > 0 {
		whole, fraction = whole[:at], "."+whole[at:]
	}
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	if w.r.IntN(3) == 0 {
		w.b.WriteByte('-')
	}
	w.b.WriteString(whole + fraction)
	if w.r.IntN(3) == 0 {
		w.b.WriteString([]string{"e", "E", "e+", "e-", "E-0", "e+00"}[w.r.IntN(6)] + strconv.Itoa(w.r.IntN(30)))
	}
}
