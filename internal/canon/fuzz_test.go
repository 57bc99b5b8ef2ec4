package canon

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

func addSeeds(f *testing.F, add func(text []byte)) {
	files, err := filepath.Glob("testdata/*/*/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		add(b)
	}
	for line := range strings.Lines(string(readFile(f, "seeds.txt"))) {
		text, err := strconv.Unquote(strings.TrimSpace(line))
		if err != nil {
			f.Fatal(line, err)
		}
		add([]byte(text))
	}
	for _, text := range []string{
		`{"a":1,"\u0061":2}`, `[-0,-0.0,1e-400,1E+2,9007199254740991,9007199254740992,1e21,5e-324]`, `"\ud83d\ude00\ud83d"`,
		`{"b":{"d":"\"\\\/\b\f\n\r\t","c":[[],{}]},"a":null}`, "\"\u2028\x7f\"", " true ", "\ufeff{}", `{"\ue000":1,"\ud800\udc00":2}`,
		`{"` + "\xff" + `":0}`, `"\u0000"`, strings.Repeat("[", 50) + strings.Repeat("]", 50), `123456789012345678901234567890`,
	} {
		add([]byte(text))
	}
}

// FuzzRaw: of any bytes, what is accepted is JSON, means the same as before, is its own canonical form, and is what the Go
// value of the same JSON gives. What is called invalid JSON is not valid.
func FuzzRaw(f *testing.F) {
	addSeeds(f, func(text []byte) { f.Add(text) })
	f.Fuzz(func(t *testing.T, text []byte) {
		out, err := Raw(text, Limits{})
		if err != nil {
			if json.Valid(text) && strings.Contains(err.Error(), "invalid JSON") {
				t.Fatalf("encoding/json reads it: %v", err)
			}
			return
		}
		var before, after any
		if err := json.Unmarshal(text, &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("the meaning changed: %s", out)
		}
		same := func(how string, got []byte, err error) {
			if err != nil || !bytes.Equal(got, out) {
				t.Fatalf("%s: got %s, %v, want %s", how, got, err, out)
			}
		}
		got, err := Raw(out, Limits{Bytes: len(out)})
		same("the form of the form", got, err)
		got, err = Value(before, Limits{Bytes: len(out)})
		same("decoded", got, err)
		got, err = Value(json.RawMessage(text), Limits{Bytes: len(out)})
		same("RawMessage", got, err)
		if _, err := Raw(text, Limits{Bytes: len(out) - 1}); err == nil && len(out) > 1 {
			t.Fatal("one byte more than the limit")
		}
	})
}

// FuzzValue: whatever JSON decodes to, Value and encoding/json followed by Raw agree on whether it has a canonical form, and
// on the form.
func FuzzValue(f *testing.F) {
	addSeeds(f, func(text []byte) { f.Add(text, false); f.Add(text, true) })
	f.Fuzz(func(t *testing.T, text []byte, useNumber bool) {
		decoder := json.NewDecoder(bytes.NewReader(text))
		if useNumber {
			decoder.UseNumber()
		}
		var v any
		if decoder.Decode(&v) != nil {
			return
		}
		standard, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Value(v, Limits{})
		want, wantErr := Raw(standard, Limits{})
		if (err == nil) != (wantErr == nil) || !bytes.Equal(got, want) {
			t.Fatalf("got %s, %v, want %s, %v", got, err, want, wantErr)
		}
		type wrapped struct {
			V any `json:"v"`
		}
		got, err = Value(wrapped{v}, Limits{Depth: MaxDepth})
		if err == nil && string(got) != `{"v":`+string(want)+`}` {
			t.Fatalf("in a struct: got %s, want %s", got, want)
		}
	})
}
