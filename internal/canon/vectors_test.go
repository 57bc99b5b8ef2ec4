package canon

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", path))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// checkCanonical asserts the canonical form of a JSON text by every way that leads to it.
func checkCanonical(t *testing.T, source, want []byte) {
	t.Helper()
	got, err := Raw(source, Limits{})
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("Raw: got %s, %v\nwant %s", got, err, want)
	}
	if got, err = Value(json.RawMessage(source), Limits{}); err != nil || !bytes.Equal(got, want) {
		t.Errorf("Value of a RawMessage: got %s, %v\nwant %s", got, err, want)
	}
	var decoded any
	if err := json.Unmarshal(source, &decoded); err != nil {
		t.Fatal(err)
	}
	if got, err = Value(decoded, Limits{}); err != nil || !bytes.Equal(got, want) {
		t.Errorf("Value of decoded JSON: got %s, %v\nwant %s", got, err, want)
	}
}

// Any language can recompute our digests: the published documents come out byte for byte.
func TestPublishedDocumentsComeOutByteForByte(t *testing.T) {
	for _, name := range []string{"arrays", "french", "structures", "unicode", "values", "weird"} {
		t.Run(name, func(t *testing.T) {
			checkCanonical(t, readFile(t, "jcs/input/"+name+".json"), readFile(t, "jcs/output/"+name+".json"))
		})
	}
	t.Run("RFC 8785 3.2.4", func(t *testing.T) {
		want, err := hex.DecodeString(strings.Join(strings.Fields(string(readFile(t, "rfc8785/section-3.2.4.hex"))), ""))
		if err != nil {
			t.Fatal(err)
		}
		checkCanonical(t, readFile(t, "rfc8785/section-3.2.2.json"), want)
	})
}

// RFC 8785 section 3.2.3: names are ordered by UTF-16 code units, not by code points and not by bytes.
func TestPublishedNameOrder(t *testing.T) {
	got, err := Raw(readFile(t, "rfc8785/section-3.2.3.json"), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"Carriage Return", "One", "Control", "Latin Small Letter O With Diaeresis", "Euro Sign",
		"Emoji: Grinning Face", "Hebrew Letter Dalet With Dagesh",
	}
	var order []string
	for part := range strings.SplitSeq(string(got), `:"`) {
		if value, _, ok := strings.Cut(part, `"`); ok {
			order = append(order, value)
		}
	}
	if order = order[1:]; !slices.Equal(order, want) {
		t.Errorf("got  %q\nwant %q", order, want)
	}
}

// RFC 8785 appendix B. Its integers beyond ±(2^53−1) are correctly spelled, and refused.
func TestPublishedNumbersOfAppendixB(t *testing.T) {
	lines := bufio.NewScanner(bytes.NewReader(readFile(t, "rfc8785/numbers.txt")))
	rows := 0
	for ; lines.Scan(); rows++ {
		pattern, want, _ := strings.Cut(lines.Text(), " ")
		b, err := strconv.ParseUint(pattern, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		f := math.Float64frombits(b)
		got, err := Value(f, Limits{})
		switch {
		case want == "error":
			checkRule(t, pattern, err, ruleFinite)
			continue
		case !strings.ContainsAny(want, ".e") && math.Abs(f) > maxInteger:
			checkRule(t, pattern, err, ruleInteger)
		case err != nil || string(got) != want:
			t.Errorf("%s: got %s, %v, want %s", pattern, got, err, want)
		}
		if got := appendNumber(nil, f, 64); string(got) != want {
			t.Errorf("%s: spelled %s, want %s", pattern, got, want)
		}
	}
	if rows != 26 {
		t.Errorf("%d rows read, the table has 26", rows)
	}
}

var es6Lines = flag.Int("es6-lines", 1_000_000, "lines of the published ES6 number file to regenerate, up to 100 million")

// The published ES6 number file, regenerated, has the published checksums: doubles are spelled as ECMAScript spells them.
func TestPublishedES6NumberFile(t *testing.T) {
	checksums := map[int]string{
		1_000:       "be18b62b6f69cdab33a7e0dae0d9cfa869fda80ddc712221570f9f40a5878687",
		10_000:      "b9f7a8e75ef22a835685a52ccba7f7d6bdc99e34b010992cbc5864cd12be6892",
		100_000:     "22776e6d4b49fa294a0d0f349268e5c28808fe7e0cb2bcbe28f63894e494d4c7",
		1_000_000:   "49415fee2c56c77864931bd3624faad425c3c577d6d74e89a83bc725506dad16",
		10_000_000:  "b9f8a44a91d46813b21b9602e72f112613c91408db0b8341fb94603d9db135e0",
		100_000_000: "0f7dda6b0837dde083c5d6b896f7d62340c8a2415b0c7121d83145e08a755272",
	}
	total := *es6Lines
	if testing.Short() {
		total = min(total, 10_000)
	}
	hash := sha256.New()
	n, compared := 0, 0
	var line []byte
	for f := range es6Numbers(t) {
		line = strconv.AppendUint(line[:0], math.Float64bits(f), 16)
		line = appendNumber(append(line, ','), f, 64)
		hash.Write(append(line, '\n'))
		n++
		if want, ok := checksums[n]; ok {
			compared++
			if got := hex.EncodeToString(hash.Sum(nil)); got != want {
				t.Fatalf("first %d lines: SHA-256 %s, want %s", n, got, want)
			}
		}
		if n >= total {
			break
		}
	}
	if compared == 0 {
		t.Errorf("no checksum is published for fewer than %d lines", total)
	}
}

// es6Numbers yields the endless sequence of doubles that testdata/README.md describes.
func es6Numbers(t *testing.T) func(yield func(float64) bool) {
	var first []float64
	for _, word := range strings.Fields(string(readFile(t, "es6/first.txt"))) {
		b, err := strconv.ParseUint(word, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		first = append(first, math.Float64frombits(b))
	}
	return func(yield func(float64) bool) {
		for _, f := range first {
			if !yield(f) {
				return
			}
		}
		for i := range uint64(2000) {
			if !yield(math.Float64frombits(0x0010000000000000 + i)) {
				return
			}
		}
		for block := [32]byte{}; ; {
			block = sha256.Sum256(block[:])
			for i := 0; i < len(block); i += 8 {
				f := math.Float64frombits(binary.LittleEndian.Uint64(block[i:]))
				if f != 0 && !math.IsNaN(f) && !math.IsInf(f, 0) && !yield(f) {
					return
				}
			}
		}
	}
}
